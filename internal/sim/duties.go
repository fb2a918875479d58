package sim

import (
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// duties is what an onlooker of one passage writes down: which promises it must
// settle or give back before it is over, and whom it must ask.
type duties struct {
	owed   map[promiseAt]bool
	mute   map[string]bool    // hosts that did not answer
	under  map[promiseAt]bool // hosts asked, with the generation
	closed map[int64]string   // generation -> host that said it is closed there, and may tell its end
	vain   int                // hosts asked in vain since then, or in all
	looked time.Duration      // when it last looked for a host
	swept  bool               // hosts were asked for their newest word
	lost   bool               // the store did not answer: the row's next call, or the sweep, finds out

	standAt string // where memory is set aside for it, when it began to look for a host
	starved bool   // it has to be
	stands  bool   // it looked for where
	stood   bool   // a host said that it does
	kept    bool   // the host was asked to keep it
}

// promiseAt is a reservation that a host made, or may have made.
type promiseAt struct {
	host string
	gen  int64
}

func newDuties() duties {
	return duties{owed: map[promiseAt]bool{}, mute: map[string]bool{}, under: map[promiseAt]bool{}, closed: map[int64]string{}}
}

// reserves notes that a host is asked; one that was silent for so long must be left alone.
func (d *driving) reserves(e admission.Effect) {
	if d.replica.silent(e.Host) {
		d.replica.fleet.violate(refusals, "%s is placed at %s, which replica %d has not heard for %v", d.req.Claim.ID, e.Host, d.replica.index+1, silentAfter)
	}
	at, f := promiseAt{e.Host, e.Gen}, d.replica.fleet
	switch {
	case d.duties.mute[e.Host]:
		f.violate(refusals, "%s asks %s again, which did not answer, while others might", d.req.Claim.ID, e.Host)
	case d.duties.under[at]:
		f.violate(refusals, "%s asks %s again under generation %d, which it has closed", d.req.Claim.ID, e.Host, e.Gen)
	case d.duties.closed[e.Gen] != "":
		f.violate(boots, "%s asks %s under generation %d, which may have been open on %s", d.req.Claim.ID, e.Host, e.Gen, d.duties.closed[e.Gen])
	}
	d.duties.owed[at], d.duties.under[at] = true, true
}

// answered notes what a host said: of a no nothing is owed.
func (d *driving) answered(e admission.Effect, a host.Answer, unknown bool) {
	if a.Denial != "" {
		delete(d.duties.owed, promiseAt{e.Host, e.Gen})
	}
	if a.Denial == host.Closed {
		d.duties.closed[e.Gen] = e.Host
	}
	if unknown {
		d.duties.mute[e.Host] = true
	}
	if a.Denial != "" || unknown {
		d.duties.vain++
	}
}

// settled notes that a promise is in the store.
func (d *driving) settled(row pool.Row) {
	if onHost(row.State) {
		delete(d.duties.owed, promiseAt{row.Host, row.Epoch})
	}
}

// detached notes a promise that is given back, which must not be one that the store counts on.
func (d *driving) detached(e admission.Effect) {
	f := d.replica.fleet
	delete(d.duties.owed, promiseAt{e.Host, e.Gen})
	if row, _ := f.model().ByID(e.ID); row.State == pool.Admitted && row.Epoch == e.Gen && row.Host == e.Host {
		f.violate(whole, "replica %d gives %s/%d on %s back, where the store has it admitted", d.replica.index+1, e.ID, e.Gen, e.Host)
	}
}

// over proves that a passage leaves no promise behind that it could have given back.
func (d *driving) over() {
	if len(d.duties.owed) > 0 && !d.duties.lost {
		d.replica.fleet.violate(ends, "%s was answered with %d reservations neither settled nor given back", d.req.Claim.ID, len(d.duties.owed))
	}
}

// sweeps proves that, before a refusal, every host that might have room is asked for its
// newest word, or as many as may be asked.
func (d *driving) sweeps(asked int) {
	d.duties.swept, d.duties.vain = true, 0
	r, open := d.replica, 0
	for _, a := range r.fleet.agents {
		if !r.silent(a.id) && !r.unsound[a.id] && r.last[a.id].verdict.Intake == host.IntakeOpen {
			open++
		}
	}
	if asked < min(open, sweepHosts) {
		r.fleet.violate(refusals, "%s is about to be refused, and %d of %d open hosts are asked for their newest word", d.req.Claim.ID, asked, open)
	}
}

// checkNews proves that no older word of a host replaces a newer one.
func (r *replica) checkNews(v host.Verdict) {
	if old := r.last[v.Host].verdict; old.Newer(v) {
		r.fleet.violate(refusals, "replica %d took an older word of %s for its newest", r.index+1, v.Host)
	}
}

// checkHeld proves that a heartbeat of what may be started anew reached its host: it may have
// ended there, and be reserved again.
func (d *driving) checkHeld(a admission.Answer) {
	if a.Kind == admission.Yes && d.req.Keep && a.Row.HoldOnExit && a.Row.Audience == "" && !d.duties.kept {
		d.replica.fleet.violate(whole, "%s is told that it is kept, and its host was not asked", d.req.Claim.ID)
	}
}
