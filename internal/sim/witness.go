package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// witness stands beside one host and keeps books of its own, from nothing but what the host
// was asked and what it answered. It shares no arithmetic with the host, so a rule that was
// taken out of the host is still in here: what it says and what the host says must agree to
// the byte after every step.
type witness struct {
	open []promise       // reservations that stand
	runs []charged       // sandboxes that are charged
	seen map[string]last // id -> the highest generation that was opened, closed or refused here
	told map[host.Ref]bool
	why  map[string]host.Denial // id -> what its last ask was denied for

	free, headroom gate.Bytes   // of the last sample; zero before the first
	lowAt          host.Instant // the last sample with less than half the headroom free
	low            bool
	order          host.Intake // an operator's, which outlives a restart

	aside aside
}

// aside is what is set aside for a waiter that finds no host; its id is empty for nobody.
type aside struct {
	id    string
	need  gate.Bytes
	until host.Instant
}

// last is what was last known of an id, and when.
type last struct {
	gen int64
	at  host.Instant
}

// promise is an open reservation.
type promise struct {
	id    string
	gen   int64
	need  gate.Bytes
	until host.Instant
	ask   gate.Ask
	again bool // kept for the next start of a sandbox that ended
}

// charged is a sandbox.
type charged struct {
	id       string
	epoch    int64
	ask      gate.Ask
	need     gate.Bytes
	resident gate.Bytes
	tracked  host.Instant
	booted   bool
	settled  bool // seen by a sample so long after its boot that a rule may drop its reserve

	stopped    bool // it was told to stop
	superseded bool // a higher generation was asked for here
}

func newWitness() *witness {
	return &witness{seen: map[string]last{}, told: map[host.Ref]bool{}, why: map[string]host.Denial{}}
}

// needOf is what an ask is promised, spelled out.
func needOf(a gate.Ask, m gate.Mode) gate.Bytes {
	const mib = 1 << 20
	reserve := int64(a.Memory)
	switch {
	case a.Stateful || m == gate.Committed:
	case a.Rule.Learned > 0:
		reserve = min(int64(a.Rule.Learned), reserve)
	default:
		reserve = min(max(reserve*a.Rule.Permille/1000, int64(a.Rule.Floor)), reserve)
	}
	return gate.Bytes((reserve + mib - 1) / mib * mib)
}

// cover is what stands under a sandbox whatever it holds.
func (c *charged) cover(m gate.Mode) gate.Bytes {
	if c.settled && c.ask.Rule.Until == gate.UntilSettled && !c.ask.Stateful && m == gate.WorkingSet {
		return 0
	}
	return c.need
}

// room is what is left of the load line, below zero when the load has passed it.
func (w *witness) room(m gate.Mode) gate.Bytes {
	room := w.free - w.headroom
	for i := range w.runs {
		room -= max(w.runs[i].cover(m)-w.runs[i].resident, 0)
	}
	for i := range w.open {
		room -= w.open[i].need
	}
	return room
}

// offered is the room for whoever asks: what is set aside is kept back, as far as it is there.
func (w *witness) offered(m gate.Mode) gate.Bytes {
	room := w.room(m)
	if w.aside.id != "" {
		room -= min(w.aside.need, max(room, 0))
	}
	return room
}

// roomFor is the room for one id: what a lower generation of it holds is replaced, and what is
// set aside for it is its own.
func (w *witness) roomFor(id string, m gate.Mode) gate.Bytes {
	room := w.offered(m)
	if w.aside.id == id {
		room = w.room(m)
	}
	if p := w.promised(id); p != nil {
		room += p.need
	}
	return room
}

func (w *witness) promised(id string) *promise {
	for i := range w.open {
		if w.open[i].id == id {
			return &w.open[i]
		}
	}
	return nil
}

func (w *witness) running(id string) *charged {
	for i := range w.runs {
		if w.runs[i].id == id {
			return &w.runs[i]
		}
	}
	return nil
}

// starting counts the starts that were promised and not given back.
func (w *witness) starting() (n int) {
	for i := range w.open {
		if !w.open[i].again {
			n++
		}
	}
	for i := range w.runs {
		if !w.runs[i].booted {
			n++
		}
	}
	return n
}

// mustBeShut says whether the intake has to be shut: a sample saw less than half the headroom
// free, and a whole dwell has not passed since.
func (w *witness) mustBeShut(now host.Instant, dwell time.Duration) bool {
	return w.low && now-w.lowAt < dwell
}

func (w *witness) close(now host.Instant, id string, gen int64) {
	stood := len(w.open)
	w.open = slices.DeleteFunc(w.open, func(p promise) bool { return p.id == id && p.gen <= gen })
	if gen > w.seen[id].gen || len(w.open) < stood {
		w.seen[id] = last{max(gen, w.seen[id].gen), now}
	}
}

// lapse ends what was not redeemed in time, and what was set aside for one that is not heard
// of any more.
func (w *witness) lapse(now host.Instant) {
	if w.aside.until <= now {
		w.aside = aside{}
	}
	for i := 0; i < len(w.open); {
		if p := w.open[i]; p.until <= now {
			w.told[host.Ref{ID: p.id, Epoch: p.gen}] = true
			w.close(now, p.id, p.gen)
			continue
		}
		i++
	}
}

// restart keeps what a restarted agent must still know, and forgets what it has to measure.
func (w *witness) restart() {
	w.free, w.headroom, w.low, w.aside = 0, 0, false, aside{}
	for i := range w.runs {
		w.runs[i].resident, w.runs[i].settled = 0, false
	}
}

// checkRestored proves that an agent came back knowing all that it has to know.
func (f *Fleet) checkRestored(a *agent) {
	w, v := a.witness, a.host.View()
	w.restart()
	reserved := gate.Bytes(0)
	for _, p := range w.open {
		reserved += p.need
	}
	if v.Reservations != len(w.open) || v.Account.Reserved != reserved {
		f.violate(whole, "host %s came back with %s in %d reservations, and had promised %s in %d", a.id, v.Account.Reserved, v.Reservations, reserved, len(w.open))
	}
	if len(v.Sandboxes) != len(w.runs) {
		f.violate(whole, "host %s came back with %d sandboxes, and had charged %d", a.id, len(v.Sandboxes), len(w.runs))
	}
	f.checkRemembers(a)
	if told := a.host.Unwritten(); len(told) != len(w.told) {
		f.violate(whole, "host %s came back with %d ends to tell, and had %d", a.id, len(told), len(w.told))
	}
}

// checkRemembers proves that an agent which came back knows what it closed lately: a frame
// that is still under way must not open it again.
func (f *Fleet) checkRemembers(a *agent) {
	w, known := a.witness, map[string]int64{}
	for _, r := range a.host.Records() {
		if r.Kind == host.RecordReservation {
			known[r.ID] = r.Epoch
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.seen)) {
		seen := w.seen[id]
		if a.clock()-seen.at < a.cfg.BootWithin && known[id] < seen.gen {
			f.violate(whole, "host %s came back without the generation %d of %s, which it closed %v ago", a.id, seen.gen, id, a.clock()-seen.at)
			return
		}
	}
}

// sampled takes over what was measured; headroom is the operator's, zero for the default.
func (w *witness) sampled(now host.Instant, s host.Sample, headroom gate.Bytes) {
	for _, r := range s.Sandboxes {
		if c := w.running(r.ID); c != nil {
			c.resident = r.Bytes
			c.settled = c.booted && now-c.tracked >= c.ask.Rule.SettleAfter
		}
	}
	size, used := s.Limits[0].Size, s.Limits[0].Used
	const mib = 1 << 20
	w.free, w.headroom = size-used, max((size/20+mib-1)/mib*mib, 256*gate.MiB)
	if headroom > 0 {
		w.headroom = headroom
	}
	if w.free < w.headroom/2 {
		w.low, w.lowAt = true, now
	}
}

// checkHost has a host's witness look at a step, and compares their books.
func (f *Fleet) checkHost(a *agent, ev host.Event, fx host.Effects) {
	w, now := a.witness, a.clock()
	w.lapse(now)
	switch e := ev.(type) {
	case host.Reserve:
		f.checkReserve(a, e, fx.Answer)
	case host.Renew:
		f.checkRenew(a, e, fx.Answer)
	case host.Release:
		f.checkRelease(a, e, fx.Answer)
	case host.Redeem:
		f.checkRedeem(a, e, fx.Answer)
	case host.Track:
		if c := w.running(e.ID); c != nil && c.epoch == e.Epoch && fx.Answer.Denial == "" && !c.booted {
			c.booted, c.tracked = true, now
		}
	case host.Done:
		f.checkDone(a, e, fx)
	case host.Stand:
		f.checkStand(a, e, fx.Answer)
	case host.Unstand:
		if w.aside.id == e.ID {
			w.aside = aside{}
		}
	case host.Acked:
		f.checkAcked(a, e)
	case host.SetIntake:
		w.order = e.Intake
		if e.Intake != host.IntakeOpen {
			w.aside = aside{}
		}
	case host.Sample:
		w.sampled(now, e, a.cfg.Headroom)
		f.checkEvictions(a, fx.Evictions)
	}
	f.compare(a, fx.Answer.Verdict)
}

// checkEvictions proves that a lost bet is paid by those who may be asked to, and by none of them
// without whom the others cover what is lacking. Whoever has to go has no place kept.
func (f *Fleet) checkEvictions(a *agent, evictions []host.Eviction) {
	w := a.witness
	var going []*charged
	var covered gate.Bytes
	for _, e := range evictions {
		c := w.running(e.ID)
		switch {
		case c == nil || !c.booted || c.epoch != e.Epoch:
			f.violate(stateful, "host %s has %s/%d go, which does not run there", a.id, e.ID, e.Epoch)
			continue
		case c.stopped:
			f.violate(stateful, "host %s has %s go, which was told to stop already", a.id, e.ID)
		case c.ask.Stateful:
			f.violate(stateful, "host %s has %s go, which keeps state", a.id, e.ID)
		case w.free >= w.headroom/4:
			f.violate(stateful, "host %s has %s go with %s free of a headroom of %s", a.id, e.ID, w.free, w.headroom)
		}
		going, covered, c.stopped = append(going, c), covered+c.resident, true
	}
	for _, c := range going {
		if lacking := w.headroom - w.free; covered-c.resident >= lacking {
			f.violate(stateful, "host %s has %s go, when the others cover the %s that are lacking", a.id, c.id, lacking)
		}
	}
	f.result.Evictions += len(evictions)
}

// checkDone notes an end: its place is kept for a restart, or it is told from now on until
// somebody has written it.
func (f *Fleet) checkDone(a *agent, e host.Done, fx host.Effects) {
	w := a.witness
	if r := w.running(e.ID); r != nil && r.epoch == e.Epoch {
		c, kept := *r, slices.Contains(fx.Reopens, host.Ref{ID: e.ID, Epoch: e.Epoch})
		f.checkKept(a, c, kept)
		w.runs = slices.DeleteFunc(w.runs, func(c charged) bool { return c.id == e.ID })
		if kept {
			f.book.again[host.Ref{ID: e.ID, Epoch: e.Epoch}] = true
			w.open = append(w.open, promise{id: c.id, gen: c.epoch, need: c.need, until: a.clock() + a.cfg.BootWithin, ask: c.ask, again: true})
		} else {
			w.told[host.Ref{ID: e.ID, Epoch: e.Epoch}] = true
		}
	}
	f.checkTold(a)
}

// checkKept proves that the place of a sandbox is kept when it ran, ended by itself and may be
// started anew, and its memory is still there; and of no other.
func (f *Fleet) checkKept(a *agent, c charged, kept bool) {
	w := a.witness
	charge := max(c.cover(a.cfg.Mode), c.resident)
	room := w.offered(a.cfg.Mode) / gate.MiB * gate.MiB
	if a.host.Intake() != host.IntakeOpen {
		room = 0
	}
	fits := c.need <= charge || c.need-charge <= room
	may := c.ask.HoldOnExit && c.booted && !c.stopped && !c.superseded && w.order != host.IntakeDraining
	switch {
	case kept && !may:
		f.violate(boots, "host %s keeps the place of %s/%d, which did not end by itself, or may not be started anew", a.id, c.id, c.epoch)
	case kept && !fits:
		f.violate(promised, "host %s keeps %s for %s/%d, with room for %s beside its charge of %s", a.id, c.need, c.id, c.epoch, room, charge)
	case !kept && may && fits:
		f.violate(whole, "host %s keeps no place for %s/%d, which ended by itself and may be started anew", a.id, c.id, c.epoch)
	}
}

// checkAcked proves that an end is forgotten only when no row can still count on it.
func (f *Fleet) checkAcked(a *agent, e host.Acked) {
	delete(a.witness.told, host.Ref(e))
	row, _ := f.model().ByID(e.ID)
	if (row.State == pool.Placing && row.Gen == e.Epoch) || (onHost(row.State) && row.Epoch == e.Epoch && row.Host == a.id) {
		f.violate(whole, "the end of %s/%d on %s was acknowledged, and the store says %s", e.ID, e.Epoch, a.id, row.State)
	}
	f.checkTold(a)
}

func (f *Fleet) checkTold(a *agent) {
	if told := a.host.Unwritten(); len(told) != len(a.witness.told) {
		f.violate(ends, "host %s tells %d ends, and %d were not acknowledged", a.id, len(told), len(a.witness.told))
	}
}

// compare proves that the host's word is what its witness has.
func (f *Fleet) compare(a *agent, v host.Verdict) {
	w := a.witness
	room := w.room(a.cfg.Mode)
	switch own := max(room, 0); {
	case v.Free > own:
		f.violate(promised, "host %s says that %s are free to promise, by its witness %s", a.id, v.Free, own)
	case v.Free < own:
		f.violate(ends, "host %s says that %s are free to promise, by its witness %s: something did not end", a.id, v.Free, own)
	}
	shut := v.Intake != host.IntakeOpen
	if v.Intake != w.order && (w.order != host.IntakeOpen || v.Intake != host.IntakePressure) {
		f.violate(promised, "host %s is %s, and its operator ordered %s", a.id, v.Intake, w.order)
	}
	if w.mustBeShut(a.clock(), a.cfg.Marks.Dwell) && !shut {
		f.violate(promised, "host %s is open %v after its free memory was below half the headroom", a.id, a.clock()-w.lowAt)
	}
	const mib = 1 << 20
	if v.Standing != (w.aside.id != "") {
		f.violate(promised, "host %s says that memory is set aside: %t, by its witness for %q", a.id, v.Standing, w.aside.id)
	}
	switch own := max(w.offered(a.cfg.Mode), 0) / mib * mib; {
	case shut && v.Admittable != 0:
		f.violate(promised, "host %s is shut, and says that it can promise %s", a.id, v.Admittable)
	case !shut && v.Admittable > own:
		f.violate(promised, "host %s says that it can promise %s, by its witness %s", a.id, v.Admittable, own)
	case !shut && v.Admittable < own:
		f.violate(refusals, "host %s says that it can promise %s, by its witness %s", a.id, v.Admittable, own)
	}
}
