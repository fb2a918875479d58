package sim

import (
	"time"

	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// replica is one control-plane process: its own view of the hosts, and the one store that
// all share.
type replica struct {
	fleet   *Fleet
	index   int
	up      bool
	life    int           // rises with every end: what an earlier life had under way is void
	paused  time.Duration // until then
	table   *table.Table
	last    map[string]heard // host id -> the last frame heard
	unsound map[string]bool  // hosts whose newest word cannot be true: they have not measured yet
	keys    ticket.Keyring
	slots   *hint.Estimator
	book    hint.Book
}

// heard is a host's last frame.
type heard struct {
	verdict host.Verdict
	at      time.Duration
}

const (
	answerWithin   = 500 * time.Millisecond
	silentAfter    = 30 * time.Second
	tidyEvery      = 10 * time.Second
	bootWithin     = time.Minute
	sweepHosts     = 32
	sweepWithin    = 50 * time.Millisecond
	presentFor     = pool.PresentFor
	presentEvery   = 2 * time.Second
	retryEndsAfter = 250 * time.Millisecond
)

// start begins a life: it has heard nobody yet.
func (r *replica) start() {
	r.up, r.paused = true, 0
	r.table = table.New(table.Options{Silent: silentAfter})
	r.last, r.unsound = map[string]heard{}, map[string]bool{}
	r.slots, r.book = hint.NewEstimator(0), hint.Book{}
	r.slots.Observe(r.fleet.now, 0)
	for _, a := range r.fleet.agents {
		r.table.Register(table.Registration{Host: a.id, Mode: a.cfg.Mode, MaxAsk: a.memory})
	}
	life := r.life
	r.every(life, tidyEvery, r.sweep)
	r.every(life, tidyEvery, r.reconcile)
}

// every does something again and again, for as long as this life lasts.
func (r *replica) every(life int, period time.Duration, do func()) {
	r.fleet.after(r.fleet.between(0, period), func() {
		if r.up && r.life == life {
			if r.paused <= r.fleet.now {
				do()
			}
			r.every(life, period, do)
		}
	})
}

// kill ends the replica: its passages are gone, and their callers' connections.
func (r *replica) kill(away time.Duration) {
	if !r.up {
		return
	}
	r.up = false
	r.life++
	r.fleet.after(away, r.start)
}

// awake does something now, when the pause is over, or never if this life has ended.
func (r *replica) awake(life int, do func()) {
	switch {
	case !r.up || r.life != life:
	case r.paused > r.fleet.now:
		r.fleet.after(r.paused-r.fleet.now, func() { r.awake(life, do) })
	default:
		do()
	}
}

// hear takes a frame in: the verdict into the table, what happened into the store.
func (r *replica) hear(a *agent, n host.News) {
	r.awake(r.life, func() {
		r.observe(n.Verdict)
		for _, ref := range n.Tracks {
			r.transact(writeTrack, func() { r.fleet.model().Track(ref.ID, ref.Epoch); r.fleet.store.touched(ref.ID) }, func(bool) {})
		}
		for _, e := range n.Ends {
			r.end(a, e, 3)
		}
	})
}

func (r *replica) observe(v host.Verdict) {
	tv := table.Verdict{
		Host: v.Host, Incarnation: v.Incarnation, Sequence: v.Sequence, Admittable: v.Admittable, Free: v.Free,
		Limit: v.Limit, MaxAsk: v.MaxAsk, CPUFreeMilli: v.CPUFreeMilli, Intake: table.Intake(v.Intake), Mode: v.Mode,
	}
	taken, err := r.table.Observe(&tv, r.fleet.now)
	r.unsound[v.Host] = err != nil || (r.unsound[v.Host] && !taken)
	if taken {
		r.checkNews(v)
		r.last[v.Host] = heard{v, r.fleet.now}
	}
}

// silent says whether a host was not heard for so long that it is not asked anything.
func (r *replica) silent(id string) bool {
	h, ok := r.last[id]
	return !ok || r.fleet.now-h.at >= silentAfter
}

// transact is a transition whose answer only this life of the replica can hear.
func (r *replica) transact(what write, do func(), then func(failed bool)) {
	life := r.life
	r.fleet.store.transact(what, do, func(failed bool) { r.awake(life, func() { then(failed) }) })
}

// end writes an end, a few times if need be, and acknowledges it; the host tells again what
// nobody acknowledged.
func (r *replica) end(a *agent, e host.End, tries int) {
	to := map[host.Outcome]pool.State{host.Exited: pool.Released, host.Lapsed: pool.Expired, host.Evicted: pool.Evicted}[e.How]
	written, again := false, false
	r.transact(writeEnd, func() {
		written, again = r.fleet.model().End(e.ID, e.Epoch, to, e.Reason)
		r.fleet.store.touched(e.ID)
	}, func(failed bool) {
		switch {
		case (failed || again) && tries > 0:
			r.fleet.after(retryEndsAfter, func() { r.awake(r.life, func() { r.end(a, e, tries-1) }) })
		case !failed && !again:
			if written {
				r.slots.Observe(r.fleet.now, 1)
			}
			a.ask(r, host.Acked{ID: e.ID, Epoch: e.Epoch}, func(host.Answer) {})
		}
	})
}

// sweep is the store's hygiene.
func (r *replica) sweep() {
	r.transact(writeSweep, func() {
		for _, row := range r.fleet.model().Sweep() {
			r.fleet.store.touched(row.ID)
		}
	}, func(bool) {})
}

// reconcile compares the store with each host: rows first, then the host's word, so that
// what it does not hold by then is over.
func (r *replica) reconcile() {
	var held map[string][]pool.Row // host -> rows
	r.transact(writeRows, func() { held = r.fleet.model().OnHosts() }, func(failed bool) {
		if failed {
			return
		}
		for _, a := range r.fleet.agents {
			if !r.silent(a.id) {
				r.compare(a, held[a.id])
			}
		}
	})
}

func (r *replica) compare(a *agent, rows []pool.Row) {
	var lost []host.End
	var booted, leaving []host.Ref
	var ends []host.End
	a.look(r, func(h *host.Host) {
		ends = h.Unwritten()
		for _, row := range rows {
			ref := host.Ref{ID: row.ID, Epoch: row.Epoch}
			switch reserved, running := h.Holds(row.ID, row.Epoch); {
			case !reserved && !running:
				lost = append(lost, host.End{ID: row.ID, Epoch: row.Epoch, How: host.Lapsed, Reason: "the host does not hold it any more"})
			case row.State == pool.Releasing:
				leaving = append(leaving, ref)
			case running && row.State == pool.Admitted:
				booted = append(booted, ref)
			}
		}
	}, func() { r.awake(r.life, func() { r.settle(a, append(ends, lost...), booted, leaving) }) })
}

func (r *replica) settle(a *agent, ends []host.End, booted, leaving []host.Ref) {
	for _, e := range ends {
		r.end(a, e, 1)
	}
	for _, ref := range booted {
		r.transact(writeTrack, func() { r.fleet.model().Track(ref.ID, ref.Epoch); r.fleet.store.touched(ref.ID) }, func(bool) {})
	}
	for _, ref := range leaving {
		a.ask(r, host.Release{ID: ref.ID, Gen: ref.Epoch}, func(host.Answer) {})
	}
}

// mint makes the ticket of a row, as any replica can.
func (r *replica) mint(row pool.Row) (ticket.Text, bool) {
	keys, err := r.keys.Audience(row.Host)
	if err != nil {
		return "", false
	}
	text, err := keys.Mint(&ticket.Claims{
		Consumer: row.Consumer, Key: row.Key, Pool: row.Pool, Class: row.Class, Tenant: row.Tenant,
		AdmissionID: row.ID, Epoch: row.Epoch, Issued: row.AdmittedAt.Wall(), Expires: row.ReservedUntil.Wall(),
	})
	return text, err == nil
}
