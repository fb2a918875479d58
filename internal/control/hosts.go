package control

import (
	"context"
	"errors"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

const (
	retryEndsAfter = 250 * time.Millisecond
	askWithin      = 2 * time.Second // an agent's answer, before it counts as unknown
	detachedFor    = 30 * time.Second

	vacateAgainAfter = time.Second
)

// Attach lets the gateway place on a host and hear it, until ctx ends or the feed does. What was
// heard of the host before stands, with its age.
func (g *Gateway) Attach(ctx context.Context, link Link, feed Feed) error {
	g.mu.Lock()
	a := g.hosts[link.ID()]
	if a == nil {
		a = &attached{turn: turnOf(link.ID())}
		g.hosts[link.ID()] = a
	}
	t := tending{gateway: g, link: link, again: make(chan struct{}, 1), ends: map[host.Ref]host.End{}}
	a.link, a.again = link, t.again
	a.reconcile()
	if _, known := g.table.Lookup(link.ID()); !known && !g.isBuried(link.ID()) { // else what the registry has of it stands
		g.table.Register(table.Registration{Host: link.ID()})
	}
	g.mu.Unlock()
	defer g.detach(a, link)
	if v, err := link.Verdict(ctx); err == nil {
		g.observe(v)
	}
	return t.run(ctx, feed)
}

// detach lets nothing be asked of a host that cannot be asked. Its lease and what it holds go by
// much longer clocks.
func (g *Gateway) detach(a *attached, link Link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.link == link {
		a.link = nil
		g.table.Mute(link.ID())
	}
}

// observe takes a host's word into the table. News of room wakes those who wait for a host.
func (g *Gateway) observe(v host.Verdict) {
	now := g.Now()
	tv := TableVerdict(v)
	g.mu.Lock()
	if g.isBuried(v.Host) {
		g.mu.Unlock()
		return
	}
	taken, err := g.table.Observe(&tv, now)
	news := false
	if a := g.hosts[v.Host]; a != nil && taken {
		news = a.take(&v, now, g.silentAfter())
	}
	disobeys := g.disobeys(&v)
	g.mu.Unlock()
	if taken || err != nil {
		g.past.remember(now, &tv)
	}
	if disobeys {
		g.lookAtHosts() // and tell it, by a word that is newer than its own
	}
	if err != nil && v.Limit > 0 { // one that was not measured yet is no false report
		g.Metrics.InvalidReports.Inc()
		g.Log.Debug("report not taken", "host", v.Host, "err", err)
	}
	if news {
		g.wakes.wake()
	}
}

// roomier says whether a host may take what it could not before: more memory (which an
// opened intake shows as), or more of a dimension.
func roomier(v, was *host.Verdict) bool {
	if v.Admittable > was.Admittable || (v.Enforcement == host.Shadow && was.Enforcement != host.Shadow) {
		return true
	}
	for i, d := range v.Dims {
		if i < len(was.Dims) && d.N > was.Dims[i].N {
			return true
		}
	}
	return false
}

// TableVerdict is what a replica makes of a host's word.
func TableVerdict(v host.Verdict) table.Verdict {
	out := table.Verdict{
		Host: v.Host, Incarnation: v.Incarnation, Sequence: v.Sequence,
		Admittable: v.Admittable, Free: v.Free, Limit: v.Limit, MaxAsk: v.MaxAsk,
		CPUFreeMilli: v.CPUFreeMilli, Intake: table.Intake(v.Intake), Mode: v.Mode,
		StreamRestore: v.StreamRestore, Labels: v.Labels, Dims: v.Dims, Limits: v.Limits, Standing: v.Standing,
	}
	switch v.Enforcement {
	case host.Shadow: // it takes whatever could ever fit there, past its line and its valve
		out.Admittable, out.Dims, out.Standing = max(v.Admittable, v.MaxAsk), v.Limits, false
		if v.Intake == host.IntakePressure {
			out.Intake = table.Intake(host.IntakeOpen)
		}
	case host.Observe: // it promises nothing
		out.Admittable, out.Intake = 0, table.Intake(host.IntakeCordoned)
	case host.Enforce:
	}
	return out
}

// link returns a host's agent and the last frame heard of it; silent says that this was
// too long ago to ask it anything.
func (g *Gateway) link(id string) (l Link, last host.Verdict, silent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.hosts[id]
	switch {
	case a == nil:
		return nil, host.Verdict{}, true
	case a.link == nil || g.isBuried(id):
		return nil, a.verdict, true
	}
	return a.link, a.verdict, !a.heard || g.Now()-a.heardAt >= g.silentAfter()
}

// modesOf is how a host charges and whether it refuses, by its last word.
func (g *Gateway) modesOf(id string) (m gate.Mode, e host.Enforcement) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.hosts[id]; a != nil {
		m, e = a.verdict.Mode, a.verdict.Enforcement
	}
	return m, e
}

func (g *Gateway) silentAfter() time.Duration {
	if g.Table.Silent > 0 {
		return g.Table.Silent
	}
	return 30 * time.Second
}

// tending writes what one host reports.
type tending struct {
	gateway *Gateway
	link    Link
	again   chan struct{}         // holds one while the host is to be reconciled
	ends    map[host.Ref]host.End // heard and not yet written
}

func (t *tending) run(ctx context.Context, feed Feed) error {
	news := make(chan host.News)
	failed := make(chan error, 1)
	go func() {
		for {
			n, err := feed.Next(ctx)
			if err != nil {
				failed <- err
				return
			}
			select {
			case news <- n:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		var again <-chan time.Time
		if len(t.ends) > 0 {
			again = time.After(retryEndsAfter)
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			if ctx.Err() != nil {
				return nil
			}
			return err
		case n := <-news:
			t.hear(ctx, n)
		case <-again:
			t.write(ctx)
		case <-t.again:
			if !t.reconcile(ctx) {
				t.gateway.owe(t.link.ID())
			}
		}
	}
}

// hear takes news in. The verdict comes first: a store that is slow to write must not make
// the host look silent.
func (t *tending) hear(ctx context.Context, n host.News) {
	t.gateway.observe(n.Verdict)
	t.gateway.boots(t.link.ID(), len(n.Tracks), t.unbooted(n.Ends))
	t.hearOwn(&n)
	for _, ref := range n.Tracks {
		if _, err := t.gateway.Store.Track(ctx, ref.ID, ref.Epoch); err != nil {
			t.gateway.Log.Warn("a boot was not written; it is when the host is next reconciled", "id", ref.ID, "err", err)
		}
	}
	for _, ref := range n.Reopens {
		if _, err := t.gateway.Store.Reopen(ctx, ref.ID, ref.Epoch, t.gateway.Passage.BootWithin); err != nil {
			t.gateway.Log.Warn("an end that keeps its place was not written; it is when the host is next reconciled", "id", ref.ID, "err", err)
		}
	}
	for _, e := range n.Ends {
		t.ends[host.Ref{ID: e.ID, Epoch: e.Epoch}] = e
	}
	t.write(ctx)
}

// write writes every end that was heard, and acknowledges what the store has.
func (t *tending) write(ctx context.Context) {
	freed := t.endOwn(ctx)
	for ref, e := range t.ends {
		written, again, err := t.gateway.Store.End(ctx, e.ID, e.Epoch, stateOf(e.How), e.Reason)
		if err != nil {
			t.gateway.Log.Warn("an end was not written; it is tried again", "id", e.ID, "err", err)
			break
		}
		if again {
			continue
		}
		freed = freed || written
		delete(t.ends, ref)
		if _, err := t.link.Do(ctx, host.Acked(ref)); err != nil {
			t.gateway.Log.Debug("an end was not acknowledged; the host tells it again", "id", e.ID, "err", err)
		}
	}
	if freed {
		t.gateway.wakes.wake()
	}
}

func stateOf(how host.Outcome) pool.State {
	switch how {
	case host.Lapsed:
		return pool.Expired
	case host.Evicted:
		return pool.Evicted
	}
	return pool.Released
}

// reconcile compares what the store says of this host with what the host says: news that
// was lost on either side is made up for here. Rows are read before the host is asked, so
// that what it does not hold by then is over. It says whether both could be.
func (t *tending) reconcile(ctx context.Context) bool {
	g := t.gateway
	rows, err := g.heldBy(ctx, t.link.ID())
	if err != nil {
		g.Log.Warn("host not reconciled with the store", "host", t.link.ID(), "err", err)
	}
	own := g.own.at(t.link.ID())
	held, errHeld := t.link.Holding(ctx)
	if errHeld != nil {
		g.Log.Debug("host not reconciled", "host", t.link.ID(), "err", errHeld)
		return false
	}
	for _, e := range held.Ends {
		t.ends[host.Ref{ID: e.ID, Epoch: e.Epoch}] = e
	}
	t.reconcileOwn(ctx, own, &held)
	if len(held.Deeds) > 0 {
		_, last, _ := g.link(t.link.ID())
		t.audit(ctx, held.Deeds, last.At)
	}
	if err != nil {
		return false
	}
	for _, r := range rows {
		if err := t.settle(ctx, r); err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
			g.Log.Warn("admission not reconciled", "id", r.ID, "err", err)
		}
	}
	t.compare(ctx, rows, &held)
	t.write(ctx)
	return true
}

// compare looks after what the host holds without a row that says so. A place that is kept
// for a restart can have been superseded behind a silence as a sandbox can.
func (t *tending) compare(ctx context.Context, rows []pool.Row, held *host.Held) {
	known := map[host.Ref]bool{}
	for _, r := range rows {
		known[host.Ref{ID: r.ID, Epoch: r.Epoch}] = true
	}
	strange := func(ref host.Ref) bool { return !known[ref] && !admission.OfHost(ref.ID, t.link.ID()) }
	for i := range held.Sandboxes {
		s := &held.Sandboxes[i]
		if ref := (host.Ref{ID: s.ID, Epoch: s.Epoch}); !s.Stopping && s.Waiver == "" && strange(ref) {
			t.unexpected(ctx, ref, s.Ask.Stateful, true)
		}
	}
	for _, ref := range held.Reserved {
		if strange(ref) {
			t.unexpected(ctx, ref, false, false)
		}
	}
}

// unexpected settles what a host holds and the store, by an older word, did not place there.
// What the store does not know at all it may have lost: a reservation lapses, and what runs
// is left to a person.
func (t *tending) unexpected(ctx context.Context, ref host.Ref, stateful, running bool) {
	g := t.gateway
	row, found, err := g.Store.ByID(ctx, ref.ID)
	known := &row
	if !found {
		known = nil
	}
	m := admission.Agreed
	if err == nil {
		m = admission.CompareHeld(t.link.ID(), ref, stateful, running, known)
		err = t.mend(ctx, m, ref)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		g.Log.Warn("what a host holds is not reconciled", "id", ref.ID, "host", t.link.ID(), "err", err)
	case running && (m == admission.Unknown || m == admission.Stranded):
		g.Log.Error("a sandbox runs that should not; plimsoll reconcile says what to do", "mismatch", m, "id", ref.ID, "host", t.link.ID())
	}
}

// settle brings one row in line with its host's word.
func (t *tending) settle(ctx context.Context, r pool.Row) error {
	ref := host.Ref{ID: r.ID, Epoch: r.Epoch}
	if _, told := t.ends[ref]; told {
		return nil
	}
	reserved, running, err := t.link.Holds(ctx, ref)
	if err != nil {
		return err
	}
	return t.mend(ctx, admission.CompareRow(&r, reserved, running), ref)
}

// mend carries out the remedy of a mismatch. Each is guarded by the epoch.
func (t *tending) mend(ctx context.Context, m admission.Mismatch, ref host.Ref) (err error) {
	g := t.gateway
	switch m {
	case admission.Unheld:
		t.ends[ref] = host.End{ID: ref.ID, Epoch: ref.Epoch, How: host.Lapsed, Reason: unheldReason}
	case admission.EndUnseen:
		t.ends[ref] = host.End{ID: ref.ID, Epoch: ref.Epoch, How: host.Exited, Reason: unheldReason}
	case admission.Unreleased:
		return t.pursue(ctx, ref)
	case admission.BootUnseen:
		_, err = g.Store.Track(ctx, ref.ID, ref.Epoch)
	case admission.ReopenUnseen:
		_, err = g.Store.Reopen(ctx, ref.ID, ref.Epoch, g.Passage.BootWithin)
	case admission.LostAlive:
		_, err = g.Store.Return(ctx, ref.ID, ref.Epoch, t.link.ID())
	case admission.Superseded:
		_, err = t.link.Do(ctx, host.Release{ID: ref.ID, Gen: ref.Epoch})
	case admission.Agreed, admission.Unknown, admission.Stranded:
	}
	return err
}

const unheldReason = "the host does not hold it any more"

// pursue asks again for a release whose caller may be gone.
func (t *tending) pursue(ctx context.Context, ref host.Ref) error {
	answer, err := t.link.Do(ctx, host.Release{ID: ref.ID, Gen: ref.Epoch})
	if err == nil && !answer.Running {
		t.ends[ref] = host.End{ID: ref.ID, Epoch: ref.Epoch, How: host.Exited, Reason: "released by the caller"}
	}
	return err
}
