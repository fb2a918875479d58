package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxAudience leaves room in a ticket for what tells a substrate from a host.
const maxAudience = 100

// checkPlacement proves what only pools without hosts have.
func (r *report) checkPlacement(here string, p *Pool) {
	if p.Placement != NoHost {
		for _, key := range []string{".audience", ".slot_ttl", ".ticket_ttl"} {
			if r.lines[here+key] > 0 {
				r.relation([]string{here + key, here + ".placement"}, "is for pools whose tickets no host of ours redeems; write placement: none, or remove it")
			}
		}
		return
	}
	if p.Audience != p.Name {
		r.checkName(here+".audience", p.Audience)
	}
	if len(p.Audience) > maxAudience {
		r.relation([]string{here + ".audience", here + ".name"}, "the audience is %d bytes long and a ticket has room for %d; give it a shorter name", len(p.Audience), maxAudience)
	}
	r.between(here+".slot_ttl", p.SlotTTL, 5*time.Second, 24*time.Hour)
	r.between(here+".ticket_ttl", p.TicketTTL, 5*time.Second, 24*time.Hour)
	if p.TicketTTL > p.SlotTTL {
		r.relation([]string{here + ".ticket_ttl", here + ".slot_ttl"}, "a ticket of %s would outlive its slot of %s and boot what nobody counts; lower the one or raise the other", formatDuration(p.TicketTTL), formatDuration(p.SlotTTL))
	}
}

// checkShares proves that what is reserved is there, and for somebody.
func (r *report) checkShares(here string, p *Pool, f *Fleet) {
	seen := map[string]string{} // share -> path
	paths := []string{here + ".shares", here + ".cap"}
	var reserved int64
	for i := range p.Shares {
		s, at := &p.Shares[i], fmt.Sprintf("%s.shares[%d]", here, i)
		r.checkShare(at, s)
		r.checkHolder(at, s, f)
		r.unique(seen, at, s.name(), "the share of")
		reserved += max(s.Reserved, 0)
		paths = append(paths, at+".reserved")
	}
	switch {
	case reserved > 0 && p.Cap == None:
		r.relation(paths, "of a pool without a cap nothing can be reserved; give the pool a cap, or leave out reserved")
	case p.Cap != None && reserved > int64(p.Cap):
		r.relation(paths, "%d slots are reserved in all and the cap is %s; reserve %d fewer or raise the cap", reserved, p.Cap, reserved-int64(p.Cap))
	}
}

// name is that of a share in messages; "" while it is nobody's.
func (s *Share) name() string {
	switch {
	case s.Consumer != "":
		return "consumer " + s.Consumer
	case s.Priority != unset:
		return fmt.Sprintf("priority %d", s.Priority)
	}
	return ""
}

func (r *report) checkShare(at string, s *Share) {
	switch {
	case s.Reserved < 0:
		r.relation([]string{at + ".reserved"}, "is below zero; write 0 or more")
	case s.Max == 0:
		r.relation([]string{at + ".max"}, "is 0, so nothing of it would ever be admitted; write at least 1, or leave it out for no bound")
	case s.Max != None && int64(s.Max) < s.Reserved:
		r.relation([]string{at + ".max", at + ".reserved"}, "%s is less than the %d that are reserved, which nobody could use then; raise max or reserve fewer", s.Max, s.Reserved)
	case s.Max == None && s.Reserved == 0:
		r.relation([]string{at, at + ".reserved", at + ".max"}, "reserves nothing and bounds nothing; write reserved, max or both")
	}
}

// checkHolder proves that a share is of one consumer that exists, or of one priority.
func (r *report) checkHolder(at string, s *Share, f *Fleet) {
	both := []string{at, at + ".consumer", at + ".priority"}
	stated := r.lines[at+".consumer"] > 0 || s.Consumer != ""
	switch {
	case stated && s.Priority != unset:
		r.relation(both, "is of a consumer and of a priority; write two shares, or remove one of the words")
	case !stated && s.Priority == unset:
		r.relation(both, "is nobody's; write consumer: NAME or priority: NUMBER")
	case stated && !slices.ContainsFunc(f.Consumers, func(c Consumer) bool { return c.Name == s.Consumer }):
		r.relation([]string{at + ".consumer"}, "there is no consumer %q; name one of fleet.consumers or add it there", short(s.Consumer))
	case !stated && (s.Priority > maxPriority || s.Priority < -maxPriority):
		r.relation([]string{at + ".priority"}, "%d is out of bounds; write a whole number from -%d to %d", s.Priority, maxPriority, maxPriority)
	}
}

// checkHolding refuses a promise that only a host's ledger can keep.
func (r *report) checkHolding(here string, c *Class, p *Pool) {
	if c.HoldOnExit && p != nil && p.Placement == NoHost {
		r.relation([]string{here + ".hold_on_exit"}, "pool %q is without hosts, so nobody here sees the exit; its slot lives by its caller's heartbeat anyway: remove it", p.Name)
	}
}

// checkAudiences proves that audiences and the role substrate go together.
func (r *report) checkAudiences(here string, c *Consumer, f *Fleet) {
	path, substrate := here+".audiences", slices.Contains(c.Roles, RoleSubstrate)
	switch {
	case substrate && len(c.Audiences) == 0:
		r.relation([]string{here + ".roles", path}, "a substrate redeems the tickets of its audiences and this one has none; list them in audiences, as in [%s]", strings.Join(f.audiences(), ", "))
	case !substrate && len(c.Audiences) > 0:
		r.relation([]string{path}, "is for the role substrate; add that to roles, or remove it")
	}
	for i, a := range c.Audiences {
		if !slices.Contains(f.audiences(), a) {
			r.relation([]string{fmt.Sprintf("%s[%d]", path, i)}, "no pool has the audience %q; there is %s", short(a), orNone(f.audiences()))
		}
	}
}

// audiences are those of all pools without hosts, each once.
func (f *Fleet) audiences() []string {
	var all []string
	for _, p := range f.Pools {
		if p.Placement == NoHost {
			all = append(all, p.Audience)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none: no pool has placement: none"
	}
	return either(words)
}
