package sim

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/ledger"
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
	settled map[host.Ref]string // placement -> the host it was settled at
	highest map[string]int64    // id -> highest epoch that ever booted
	excused map[string]bool     // id -> given up behind a silence, so it may run twice until heard
}

func newBook() book {
	return book{settled: map[host.Ref]string{}, highest: map[string]int64{}, excused: map[string]bool{}}
}

// checkStep proves what must hold of one step of a host.
func (f *Fleet) checkStep(a *agent, ev host.Event, before gate.Bytes, fx host.Effects) {
	if err := a.host.CheckInvariants(); err != nil {
		f.violate(promised, "host %s: %v", a.id, err)
	}
	r, ok := ev.(host.Reserve)
	if !ok || fx.Answer.Denial != "" {
		return
	}
	f.fact(factReserve, r.ID, r.Gen)
	old := a.disk[host.Name{Kind: host.RecordReservation, ID: r.ID}]
	open := old.State == ledger.Open && old.ID != ""
	if open && old.Epoch == r.Gen {
		return // the same yes again
	}
	room := before
	if open {
		room = room.Add(old.Need)
	}
	if fx.Answer.Need > room {
		f.violate(promised, "host %s promised %s to %s/%d with room for %s", a.id, fx.Answer.Need, r.ID, r.Gen, room)
	}
	if r.Ask.Stateful && fx.Answer.Need < r.Ask.Memory {
		f.violate(stateful, "host %s reserved %s for %s, which is stateful and of %s", a.id, fx.Answer.Need, r.ID, r.Ask.Memory)
	}
}

// claim carries a claim out and proves the grant by the onlooker's own sums.
func (f *Fleet) claim(c pool.Claim) pool.Claimed {
	held, known := f.store.loads.seen[c.ID]
	mine := int64(0)
	if known && held.State.HoldsSlot() {
		mine = 1
	}
	got := f.model().Claim(c)
	if got.Verdict != pool.Granted {
		return got
	}
	f.fact(factGrant, c.ID, got.Row.Gen)
	l := &f.store.loads
	if l.free(c.Pool) <= 0 && mine == 0 {
		f.violate(slots, "%s got a slot while %d of %d were taken", c.ID, l.busy[c.Pool], l.limits.Pools[c.Pool].Cap)
	}
	if l.full(got.Row.Tenant, mine) && mine == 0 {
		f.violate(slots, "tenant %s got a slot more than its quota", got.Row.Tenant)
	}
	if mine == 0 {
		f.checkOrder(held, got.Row)
	}
	return got
}

// checkOrder counts who waits before the one that was granted, is there, and could use the
// slot: there must have been a slot for each of them too.
func (f *Fleet) checkOrder(before, row pool.Row) {
	now, l := f.model().Now(), &f.store.loads
	var ahead int64
	for _, w := range l.seen {
		if w.ID == row.ID || w.Pool != row.Pool || w.State != pool.Waiting || w.PresentUntil == 0 || w.PresentUntil < now || w.TooOld(now) {
			continue
		}
		first := before.State != pool.Waiting || w.Place < before.Place
		lately := w.HostlessAt != 0 && now.Since(w.HostlessAt) < pool.HostlessFor
		if first && !lately && !l.full(w.Tenant, 0) {
			ahead++
		}
		if first && lately && !l.full(w.Tenant, 0) && w.Kind() == row.Kind() {
			f.violate(order, "%s got a slot before %s of the same kind, which is there and just found no host", row.ID, w.ID)
		}
	}
	if free := l.free(row.Pool); free <= ahead {
		f.violate(order, "%s got one of %d free slots while %d waited before it", row.ID, free, ahead)
	}
}

// move carries a move out; one that nobody acknowledged may leave a sandbox behind the silence.
func (f *Fleet) move(m *pool.Model, e admission.Effect) (pool.Row, bool) {
	row, ok := m.Move(e.ID, e.Gen, e.Acked)
	if ok && !e.Acked {
		f.book.excused[e.ID] = true
	}
	return row, ok
}

// departed notes an end that was written because a silent host's reservation must have lapsed.
func (f *Fleet) departed(m *pool.Model, e admission.Effect) {
	if row, ok := m.ByID(e.ID); ok && row.State == pool.Releasing && m.Now() > row.ReservedUntil {
		f.book.excused[e.ID] = true
	}
}

// checkBoot proves that a boot was admitted: by this placement, which stands, and by no other.
func (f *Fleet) checkBoot(a *agent, ref host.Ref) {
	f.result.Boots++
	f.fact(factBoot, ref.ID, ref.Epoch)
	f.tell("%s/%d boots on %s", ref.ID, ref.Epoch, a.id)
	if f.book.excused[ref.ID] {
		return
	}
	row, _ := f.model().ByID(ref.ID)
	if row.Epoch != ref.Epoch || row.Host != a.id || !row.State.OnHost() {
		f.violate(boots, "%s/%d booted on %s, and the store says %s/%d on %q", ref.ID, ref.Epoch, a.id, row.State, row.Epoch, row.Host)
	}
	if ref.Epoch <= f.book.highest[ref.ID] {
		f.violate(boots, "%s booted under epoch %d after %d", ref.ID, ref.Epoch, f.book.highest[ref.ID])
	}
	f.book.highest[ref.ID] = ref.Epoch
	for _, other := range f.agents {
		for running := range other.running {
			if running.ID == ref.ID {
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
	if !forWantOfHost(a) {
		return
	}
	for _, h := range f.agents {
		need := gate.Need(d.req.Ask, h.cfg.Mode)
		room := h.roomy[need]
		if room.has && room.at <= d.began && d.replica.last[h.id].verdict.At >= h.clockAt(d.began) && !otherwiseRefused(a.Tally, h.id) {
			f.violate(refusals, "%s was refused for want of a host while %s had room for %s since %.3fs, and said so", d.req.Claim.ID, h.id, need, room.at.Seconds())
		}
	}
}

// forWantOfHost says whether hosts were the reason, and had their say: where one after the
// other did not answer, only so many are asked.
func forWantOfHost(a admission.Answer) bool {
	if len(a.Tally["unanswered"]) > admission.DefaultConfig().Repicks {
		return false
	}
	switch a.Code {
	case api.NoCapacity, api.HostPressure, api.HostStartsFull:
		return true
	}
	return a.Kind == admission.Wait && len(a.Tally) > 0
}

// otherwiseRefused says whether a host was out for another reason than room.
func otherwiseRefused(t admission.Tally, id string) bool {
	for reason, ids := range t {
		if reason == string(host.NoRoom) || reason == string(host.Pressure) {
			continue
		}
		for _, other := range ids {
			if other == id {
				return true
			}
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
	for _, r := range f.replicas {
		if n := r.table.Outstanding(); r.up && n != 0 {
			still(ends, "replica %d still charges %d unanswered reserves", r.index+1, n)
		}
	}
	return out
}
