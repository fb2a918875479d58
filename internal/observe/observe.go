// Package observe finds what runs on a machine that nobody has given to Plimsoll yet, measures
// it, and says what each mode would hold. It touches nothing: it opens files of /proc and of
// the cgroup tree to read them, and signals, moves, limits and scores no process.
//
// It decides no create. Its figures are package gate's, as an agent's are:
//
//	working-set: charge = max(resident, reserve);  committed: charge = configured
//	admittable  = free − headroom − Σ (charge − resident)⁺
//
// Worked: a machine with 24 GiB free and a headroom of 1,639 MiB runs four of 4 GiB, of which
// each holds 600 MiB. Their reserve is a quarter, 1,024 MiB, so working-set holds 4,096 MiB and
// could promise 24,576 − 1,639 − 4 × 424 = 21,241 MiB: 20 more of them. Committed holds 16,384 MiB
// and could promise 24,576 − 1,639 − 4 × 3,496 = 8,953 MiB: two more.
//
// What it cannot know is said: a sandbox without a configured size is counted and named, and
// charged what it holds. An Observer has one owner and is not safe for concurrent use.
package observe

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// Rules say what is a sandbox, and how large.
type Rules struct {
	Parent   string         // cgroup whose children are sandboxes, each; "": none
	Match    *regexp.Regexp // executables and command lines of sandboxes; nil: none
	Size     *regexp.Regexp // its first group is the configured size on a command line; nil: qemu's -m
	Default  gate.Bytes     // configured size where nothing says it; 0: not known
	Stateful *regexp.Regexp // names and command lines of those that keep state; nil: none
	Reserve  gate.ReserveRule
	Headroom gate.Bytes // 0: gate.DefaultHeadroom of the limits
	Budget   gate.Bytes // 0: what the machine has
}

// Observer looks again and again, and remembers how high each went.
type Observer struct {
	host    string
	machine *hostmem.Machine
	rules   Rules
	since   time.Time
	looks   int64
	peaks   map[string]gate.Bytes // id -> the most that it was seen to hold
	most    Peak
	learned learning
}

// Peak is the fullest that the machine was seen.
type Peak struct {
	At         time.Time `json:"at"`
	ResidentMB int64     `json:"resident_mb"`
	Sandboxes  int64     `json:"sandboxes"`
}

// New begins to observe; it looks at nothing yet.
func New(host string, m *hostmem.Machine, r Rules) *Observer {
	return &Observer{host: host, machine: m, rules: r, peaks: map[string]gate.Bytes{}}
}

// Look measures everything once.
func (o *Observer) Look(now time.Time) (Report, error) {
	found, notes, err := o.find()
	if err != nil {
		return Report{}, err
	}
	limits, err := o.machine.Limits(cmp.Or(o.rules.Parent, o.machine.Own()))
	if err != nil {
		return Report{}, err
	}
	if o.looks == 0 {
		o.since = now
	}
	o.looks++
	r := o.report(found, limits, now)
	r.Notes = append(r.Notes, notes...)
	if psi, ok, err := o.machine.Pressure(""); err == nil && ok {
		some := float64(psi.SomeAvg10) / 100
		r.PSISomeAvg10 = &some
	}
	return r, nil
}

// sandbox is one that was found.
type sandbox struct {
	id, kind, command string
	pid               int
	configured        gate.Bytes
	from              string // what the configured size was read from; "": it is not known
	stateful          bool
	held              hostmem.Resident
}

// ask is what it would have asked for.
func (s *sandbox) ask(rule gate.ReserveRule) gate.Ask {
	return gate.Ask{Memory: s.configured, Stateful: s.stateful, Rule: rule}
}

// size is what it is configured for; of what nobody knows, what it holds.
func (s *sandbox) size() gate.Bytes {
	if s.from == "" {
		return s.held.Bytes
	}
	return s.configured
}

// charge is what a mode would charge it.
func (s *sandbox) charge(rule gate.ReserveRule, m gate.Mode) gate.Bytes {
	if s.from == "" {
		return s.held.Bytes
	}
	return gate.Charge(s.ask(rule), m, gate.Usage{Resident: s.held.Bytes})
}

func (o *Observer) report(found []sandbox, limits []gate.Limit, now time.Time) Report {
	o.learned.look(found, o.peaks, now)
	resident, sizes := gate.Bytes(0), []gate.Bytes(nil)
	for i := range found {
		resident = resident.Add(found[i].held.Bytes)
		if found[i].from != "" {
			sizes = append(sizes, found[i].configured)
		}
	}
	if o.rules.Budget > 0 {
		limits = append(limits, gate.Limit{Name: "budget", Size: o.rules.Budget, Used: resident})
	}
	free, binding := gate.Free(limits)
	headroom := cmp.Or(o.rules.Headroom, gate.DefaultHeadroom(limits))
	r := Report{
		Host: o.host, At: now.UTC(), Since: o.since.UTC(), Looks: o.looks, Enforcement: "observe",
		FreeMB: free.FloorMiB(), HeadroomMB: headroom.CeilMiB(), BindingLimit: binding,
		ResidentMB: resident.CeilMiB(), Found: int64(len(found)), Unsized: int64(len(found) - len(sizes)),
		Sandboxes: []Sandbox{},
	}
	for _, l := range limits {
		r.Limits = append(r.Limits, Limit{l.Name, l.Size.FloorMiB(), l.Used.CeilMiB()})
	}
	typical := median(sizes)
	prior := func(*sandbox) gate.ReserveRule { return o.rules.Reserve }
	account := gate.Account{Free: free, Headroom: headroom}
	for _, m := range []gate.Mode{gate.WorkingSet, gate.Committed} {
		r.Modes = append(r.Modes, mode(m.String(), m, prior, found, account, typical))
	}
	if r.Learned = o.learned.list(); o.learned.any() {
		learned := func(s *sandbox) gate.ReserveRule { return o.learned.rule(o.rules.Reserve, s) }
		r.Modes = append(r.Modes, mode("learned", gate.WorkingSet, learned, found, account, typical))
	}
	o.list(&r, found, now)
	return r
}

// mode says what a mode would hold of what was found, each by its rule, and what it could promise
// beside it.
func mode(word string, m gate.Mode, rule func(*sandbox) gate.ReserveRule, found []sandbox, a gate.Account, typical gate.Bytes) Mode {
	var held gate.Bytes
	for i := range found {
		c := found[i].charge(rule(&found[i]), m)
		held = held.Add(c)
		a.Unresident = a.Unresident.Add(c.Sub(found[i].held.Bytes).Positive())
	}
	room := gate.Room(a)
	out := Mode{
		Mode: word, HeldMB: held.CeilMiB(), UnresidentMB: a.Unresident.CeilMiB(),
		AdmittableMB: gate.Admittable(a).FloorMiB(), OverMB: gate.Bytes(0).Sub(room).Positive().CeilMiB(),
	}
	if need := gate.Need(gate.Ask{Memory: typical, Rule: rule(&sandbox{configured: typical})}, m); typical > 0 && need > 0 {
		out.TypicalMB = typical.CeilMiB()
		out.FitsMore = int64(gate.Admittable(a) / need)
	}
	return out
}

// list adds what was found to a report, and remembers how high it went.
func (o *Observer) list(r *Report, found []sandbox, now time.Time) {
	peaks, committed := map[string]gate.Bytes{}, gate.Bytes(0)
	for i := range found {
		s := &found[i]
		peaks[s.id] = max(o.peaks[s.id], s.held.Bytes)
		committed = committed.Add(s.size())
		r.FileCacheMB += s.held.FileCache.CeilMiB()
		r.Sandboxes = append(r.Sandboxes, Sandbox{
			ID: s.id, Kind: s.kind, PID: s.pid, Command: s.command, Stateful: s.stateful,
			ConfiguredMB: s.configured.CeilMiB(), SizeFrom: s.from,
			ResidentMB: s.held.Bytes.CeilMiB(), PeakMB: peaks[s.id].CeilMiB(), FileCacheMB: s.held.FileCache.CeilMiB(),
			WorkingSetMB: s.charge(o.rules.Reserve, gate.WorkingSet).CeilMiB(),
			CommittedMB:  s.charge(o.rules.Reserve, gate.Committed).CeilMiB(),
		})
	}
	o.peaks = peaks // those that are gone are forgotten
	r.CommittedMB = committed.CeilMiB()
	if committed > 0 {
		r.Ratio = float64(r.ResidentMB) / float64(r.CommittedMB)
	}
	if r.ResidentMB >= o.most.ResidentMB {
		o.most = Peak{At: now.UTC(), ResidentMB: r.ResidentMB, Sandboxes: r.Found}
	}
	r.Peak = o.most
	if r.Found == 0 {
		r.Notes = append(r.Notes, "nothing was found: no process has a command line that --match finds, and no cgroup is below --cgroup-parent; compare with ps -eo args")
	}
	if r.Unsized > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d of %d have no configured size that was found: they count for what they hold, so both modes hold too little; name a size pattern, or a default", r.Unsized, r.Found))
	}
	slices.SortFunc(r.Sandboxes, func(a, b Sandbox) int {
		return cmp.Or(cmp.Compare(b.ResidentMB, a.ResidentMB), cmp.Compare(a.ID, b.ID))
	})
}

func median(sizes []gate.Bytes) gate.Bytes {
	if len(sizes) == 0 {
		return 0
	}
	slices.Sort(sizes)
	return sizes[len(sizes)/2]
}
