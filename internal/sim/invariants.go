package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Invariant is one of the eight that always hold.
type Invariant int

// The eight, as ARCHITECTURE.md numbers them.
const (
	promised   Invariant = iota + 1 // nothing is reserved unless it fits, in the same step
	slots                           // no slot at or above the cap, no quota likewise
	stateful                        // never charged less than configured, nor reclaimed
	ends                            // every reservation ends; idle means zero
	boots                           // only under an open reservation; at most one sandbox each
	refusals                        // every eligible host was without room
	order                           // no waiter that is there is passed by
	whole                           // a crash loses no slot, grants none twice, forgets nothing
	invariants = iota
)

// String says it in few words.
func (i Invariant) String() string {
	return [...]string{
		"", "nothing is promised that does not fit", "no slot is granted at the cap, no quota exceeded",
		"stateful sandboxes are charged in full", "every reservation ends, idle means zero",
		"nothing boots without an open reservation, and one at most", "no refusal while a host had room",
		"no waiter is passed by", "a crash loses nothing and grants nothing twice",
	}[i]
}

// Violation is an invariant that did not hold.
type Violation struct {
	Invariant Invariant
	At        time.Duration
	What      string
}

// String says it in one line.
func (v Violation) String() string {
	return fmt.Sprintf("%.3fs: invariant %d (%s): %s", v.At.Seconds(), v.Invariant, v.Invariant, v.What)
}

func (f *Fleet) violate(i Invariant, format string, args ...any) {
	v := Violation{i, f.now, fmt.Sprintf(format, args...)}
	f.tell("VIOLATED %s", v)
	f.result.Violations = append(f.result.Violations, v)
}

// book is what an onlooker writes down to judge by.
type book struct {
	highest map[string]int64  // id -> highest epoch that ever booted
	granted map[string]int64  // id -> highest generation that a slot was granted under
	excused map[host.Ref]bool // placements given up behind a silence, which may boot or run on until heard

	slots  map[string]*slot     // id -> a slot that lives by being heard of
	left   map[string]int64     // id -> the last epoch that its caller gave back
	leases map[string]pool.Time // host -> when it was last heard
	pulse  pulse
	deaf   pool.Time         // when a pulse last found more than half of the hosts silent
	again  map[host.Ref]bool // placements that may be booted once more: what booted has ended
	vain   map[string]vain   // id -> how it looks for a host
}

func newBook() book {
	return book{
		highest: map[string]int64{}, granted: map[string]int64{}, excused: map[host.Ref]bool{},
		slots: map[string]*slot{}, left: map[string]int64{}, leases: map[string]pool.Time{},
		again: map[host.Ref]bool{}, vain: map[string]vain{},
	}
}

// checkStep proves what must hold of one step of a host: by its witness, then by itself.
func (f *Fleet) checkStep(a *agent, ev host.Event, fx host.Effects) {
	f.checkHost(a, ev, fx)
	if err := a.host.CheckInvariants(); err != nil {
		f.violate(promised, "host %s: %v", a.id, err)
	}
}

// checkBoot proves that a boot was admitted: by this placement, which stands, and by no other.
func (f *Fleet) checkBoot(a *agent, ref host.Ref) {
	f.result.Boots++
	f.fact(factBoot, ref.ID, ref.Epoch)
	f.tell("%s/%d boots on %s", ref.ID, ref.Epoch, a.id)
	if f.book.excused[ref] {
		return
	}
	row, _ := f.model().ByID(ref.ID)
	if row.Epoch != ref.Epoch || row.Host != a.id || !row.State.OnHost() {
		f.violate(boots, "%s/%d booted on %s, and the store says %s/%d on %q", ref.ID, ref.Epoch, a.id, row.State, row.Epoch, row.Host)
	}
	if again := f.book.again[ref] && ref.Epoch == f.book.highest[ref.ID]; ref.Epoch <= f.book.highest[ref.ID] && !again {
		f.violate(boots, "%s booted under epoch %d after %d", ref.ID, ref.Epoch, f.book.highest[ref.ID])
	}
	f.book.highest[ref.ID] = ref.Epoch
	delete(f.book.again, ref)
	for _, other := range f.agents {
		for running := range other.running {
			if running.ID == ref.ID && !f.book.excused[running] {
				f.violate(boots, "%s/%d booted on %s while %d runs on %s", ref.ID, ref.Epoch, a.id, running.Epoch, other.id)
			}
		}
	}
}

// refusedTicket judges a ticket that was not accepted: ours are real, for their host, and
// keys are never dropped too early.
func (f *Fleet) refusedTicket(a *agent, err error) {
	f.violate(boots, "host %s refused a ticket that was minted for it: %v", a.id, err)
}

// checkAnswer proves a refusal for want of a host: each host that was heard meanwhile was
// without room at some moment since the request came.
func (f *Fleet) checkAnswer(d *driving, a admission.Answer) {
	if !d.forWantOfHost(a) {
		return
	}
	if !d.duties.swept {
		f.violate(refusals, "%s was refused for want of a host from memory: none was asked for its newest word", d.req.Claim.ID)
	}
	for _, h := range f.agents {
		need := needOf(d.req.Ask, h.cfg.Mode)
		room, last := h.roomy[need], d.replica.last[h.id]
		said := last.verdict.Incarnation == h.incarnation && last.verdict.At >= h.clockAt(d.began) && last.at <= d.duties.looked
		if room.has && room.at <= d.began && said && !otherwiseRefused(a.Tally, h, d.req.Claim.ID) {
			f.violate(refusals, "%s was refused for want of a host while %s had room for %s since %.3fs, and said so: %v", d.req.Claim.ID, h.id, need, room.at.Seconds(), a.Tally)
		}
	}
}

// forWantOfHost says whether hosts were the reason, and had their say: where one after the
// other did not answer, or had room and no start, only so many are asked.
func (d *driving) forWantOfHost(a admission.Answer) bool {
	most := admission.DefaultConfig().Repicks
	if len(a.Tally["unanswered"]) > most || (len(a.Tally[string(host.StartsFull)]) > 0 && d.duties.vain > most) {
		return false
	}
	switch a.Code {
	case api.NoCapacity, api.HostPressure, api.HostStartsFull:
		return true
	}
	return a.Kind == admission.Wait && len(a.Tally) > 0
}

// otherwiseRefused says whether a host was out for another reason than room.
func otherwiseRefused(t admission.Tally, h *agent, id string) bool {
	if slices.Contains(t[string(host.Closed)], h.id) && h.witness.why[id] != host.NoRoom {
		return true // the second copy of a frame, whose answer overtook the first one's
	}
	for _, reason := range []string{
		"unanswered", admission.Silent, string(host.Cordoned), string(host.Draining), string(host.StartsFull),
		string(host.StillRunning), string(host.Superseded), string(host.OtherLife), string(host.LapsedOrNever),
	} {
		if slices.Contains(t[reason], h.id) {
			return true
		}
	}
	return false
}

// reckon holds when everybody has gone home.
func (f *Fleet) reckon() {
	for _, v := range f.unrest() {
		f.violate(v.Invariant, "%s", v.What)
	}
}

// unrest is whatever is still held, promised, charged or untold: nothing, on an idle fleet.
func (f *Fleet) unrest() (out []Violation) {
	still := func(i Invariant, format string, args ...any) {
		out = append(out, Violation{i, f.now, fmt.Sprintf(format, args...)})
	}
	for _, r := range f.model().Rows() {
		if r.State.HoldsSlot() {
			still(whole, "%s still holds a slot: %s since epoch %d on %q", r.ID, r.State, r.Epoch, r.Host)
		}
	}
	for _, a := range f.agents {
		v := a.host.View()
		if v.Reservations != 0 || v.Account.Reserved != 0 {
			still(ends, "host %s still promises %s in %d reservations", a.id, v.Account.Reserved, v.Reservations)
		}
		if len(v.Sandboxes) != 0 || len(a.running) != 0 {
			still(whole, "host %s charges %d sandboxes, and %d run", a.id, len(v.Sandboxes), len(a.running))
		}
		if told := a.host.Unwritten(); len(told) != 0 {
			still(whole, "host %s still tells %d ends, the first of %s/%d", a.id, len(told), told[0].ID, told[0].Epoch)
		}
	}
	if s := f.substrate; s != nil && len(s.running) != 0 {
		still(whole, "the substrate %s still runs %d", s.name, len(s.running))
	}
	for _, r := range f.replicas {
		if n := r.table.Outstanding(); r.up && n != 0 {
			still(ends, "replica %d still charges %d unanswered reserves", r.index+1, n)
		}
	}
	return out
}
