package control

import (
	"context"
	"errors"
	"sync"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
)

// This file is the shell around what hosts alone record: it asks no store, so that such a
// class goes on while the store is away.

// mostByHost is how many such admissions a replica knows the keys of; some 150 MB.
const mostByHost = 200_000

// book is the replica's, which many passages share.
type book struct {
	mu   sync.Mutex // guards rows; never held across I/O
	rows *admission.Book
}

func (b *book) with(do func(*admission.Book)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do(b.rows)
}

func (b *book) get(consumer, key string) (pool.Row, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rows.Get(consumer, key)
}

// list returns the rows that a filter lets through, its limit aside.
func (b *book) list(f Filter) (out []pool.Row) {
	b.with(func(rows *admission.Book) {
		rows.Each(func(r *pool.Row) {
			if r.ID != "" && f.matches(r) {
				out = append(out, *r)
			}
		})
	})
	return out
}

// at returns what is on a host, as far as this replica knows.
func (b *book) at(hostID string) []pool.Row { return b.list(Filter{Host: hostID}) }

// matches says whether a row is one of those that are wanted.
func (f *Filter) matches(r *pool.Row) bool {
	fits := func(want, has string) bool { return want == "" || want == has }
	if r.ID <= f.After {
		return false
	}
	if !fits(f.Consumer, r.Consumer) || !fits(f.Host, r.Host) || !fits(f.Class, r.Class) || !fits(f.Pool, r.Pool) {
		return false
	}
	for _, s := range f.States {
		if s == r.State {
			return true
		}
	}
	return len(f.States) == 0
}

// byHost says whether no store keeps a row. One without an id is being placed.
func byHost(r *pool.Row) bool {
	_, ok := admission.ByHost(r.ID)
	return ok || r.ID == ""
}

// recordable refuses what a class that hosts alone record cannot promise, and what only
// looks like a new key of another class.
func (g *Gateway) recordable(q *admission.Request) error {
	if q.ByHost && q.Claim.Mode == pool.Queue {
		return api.Refuse(api.InvalidRequest, "mode: hosts alone record class %s, so it has no queue; write mode refuse, and ask again after a no", q.Claim.Contents.Class)
	}
	if row, known := g.own.get(q.Claim.Consumer, q.Claim.Key); known && !q.ByHost {
		return api.Refuse(api.KeyConflict, "key %s is in use with other contents, state %s", row.Key, row.State)
	}
	return nil
}

// named gives a host that was picked the id that it is to be asked under, if it alone records.
func (d *driving) named(hostID string) admission.Picked {
	p := admission.Picked{Host: hostID}
	if g := d.gateway; d.req.ByHost {
		p.ID = admission.HostID(hostID, g.storeNow(), g.Rand())
	}
	return p
}

// whose tells a host what it must know of an admission that it alone records.
func (d *driving) whose() host.Identity {
	if !d.req.ByHost {
		return host.Identity{}
	}
	c := &d.req.Claim
	return host.Identity{Consumer: c.Consumer, Key: c.Key, Tenant: c.Contents.Tenant, Pool: c.Pool, Class: c.Contents.Class}
}

// performByHost carries out by the book what is the store's in other passages; nil for an
// effect that is the same in all.
func (d *driving) performByHost(ctx context.Context, e *admission.Effect) admission.Event {
	switch e.Do {
	case admission.Claim:
		d.gateway.forgetDead(d.req.Claim.Consumer, d.req.Claim.Key)
	case admission.Settle, admission.NoRoom, admission.Move, admission.Read:
	case admission.Keep:
		return d.keepByHost(ctx, *e)
	default:
		return nil
	}
	return d.gateway.own.step(d, e, d.gateway.storeNow())
}

// step is one transition of the book.
func (b *book) step(d *driving, e *admission.Effect, now pool.Time) admission.Event {
	c := &d.req.Claim
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e.Do {
	case admission.Claim:
		return admission.Claimed{Result: b.rows.Claim(now, *c)}
	case admission.Settle:
		row, ok := b.rows.Settle(now, pool.Row{ID: e.ID, Consumer: c.Consumer, Key: c.Key, Gen: e.Gen, Host: e.Host}, now.Add(d.left))
		return admission.Settled{Row: row, OK: ok}
	case admission.NoRoom:
		return admission.NoRoomed{Result: b.rows.NoRoom(pool.Row{Consumer: c.Consumer, Key: c.Key, Gen: e.Gen})}
	case admission.Move:
		row, ok := b.rows.Move(now, e.ID, e.Acked)
		return admission.Moved{Row: row, OK: ok}
	}
	row, found := b.rows.ByID(e.ID)
	if !found {
		row, found = b.rows.Get(c.Consumer, c.Key)
	}
	return admission.RowRead{Row: row, Found: found}
}

// keepByHost renews a reservation at the host that records it.
func (d *driving) keepByHost(ctx context.Context, e admission.Effect) admission.Event {
	g := d.gateway
	link, last, silent := g.link(e.Host)
	if silent {
		return admission.Kept{Silent: true}
	}
	answer, err := g.renew(ctx, link, &last, &e)
	if err != nil {
		return admission.Kept{Unknown: true}
	}
	kept := admission.Kept{Answer: answer}
	g.own.with(func(rows *admission.Book) {
		until := g.storeNow()
		if answer.Denial == "" && !answer.Running {
			until = until.Add(answer.Until - answer.Verdict.At)
		}
		row, ok := rows.Renew(e.ID, until)
		kept.Row, kept.Gone = row, !ok
	})
	return kept
}

// leaveByHost is the book's part of a release.
func (g *Gateway) leaveByHost(row *pool.Row, e admission.Effect) admission.Event {
	r := *row
	g.own.with(func(rows *admission.Book) {
		if e.Do == admission.End {
			rows.End(e.ID)
			return
		}
		rows.Leave(r)
	})
	switch {
	case e.Do == admission.End, r.ID == "", r.State.Ended():
		if !r.State.Ended() {
			r.State, r.Reason, r.EndedAt = pool.Released, "released by the caller", g.storeNow()
		}
		if e.Do == admission.End {
			return admission.Ended{Row: r}
		}
	default:
		r.State = pool.Releasing
	}
	return admission.Left{Row: r, Found: true, Now: g.storeNow()}
}

// askRecorder asks the host of an id what it has of it. Whose it is stands in the host's ledger.
func (g *Gateway) askRecorder(ctx context.Context, who *config.Consumer, id string) (pool.Row, error) {
	var known pool.Row
	g.own.with(func(rows *admission.Book) { known, _ = rows.ByID(id) })
	placed, at, err := g.placed(ctx, id)
	row := known
	switch {
	case err != nil && known.ID == "":
		return row, g.Refused(api.Refuse(api.HostSilent, "host %s, which alone knows this admission, did not answer", at), who)
	case err == nil && placed.Epoch != 0 && placed.Identity.Consumer != "":
		row = g.rowOf(id, at, &placed, known)
	case err == nil:
		row = pool.Row{}
	}
	found := row.ID != "" && (row.Consumer == who.Name || who.Has(config.RoleOperator))
	return g.found(who, &about{}, row, found, nil, "no admission has the id "+id)
}

var errNoLink = errors.New("its agent is not connected")

// placed finds the host of an id and asks it. An unknown host has nothing of anything.
func (g *Gateway) placed(ctx context.Context, id string) (host.Placed, string, error) {
	g.mu.Lock()
	known := func(h string) bool { _, listed := g.known.hosts[h]; return listed || g.hosts[h] != nil }
	at, ok := admission.RecorderOf(id, known, func() []string { return sortedKeys(g.hosts) })
	g.mu.Unlock()
	if !ok {
		return host.Placed{}, at, nil
	}
	link, _, _ := g.link(at)
	if link == nil {
		return host.Placed{}, at, errNoLink
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	p, err := link.Placed(ctx, id)
	return p, at, err
}

// rowOf says a host's word as a row. What the host does not keep, such as when it was
// admitted, is added by the replica that placed it; any other shows when the id was made.
func (g *Gateway) rowOf(id, at string, p *host.Placed, known pool.Row) pool.Row {
	made, _ := admission.ByHost(id)
	now := g.storeNow()
	r := pool.Row{
		ID: id, Consumer: p.Identity.Consumer, Key: p.Identity.Key, Pool: p.Identity.Pool, Mode: pool.Refuse,
		Epoch: p.Epoch, PlacingAt: made, AdmittedAt: made,
	}
	if known.ID != "" {
		r = known
	}
	r.Tenant, r.Class = p.Identity.Tenant, p.Identity.Class
	if p.Reserved || p.Running {
		a := &p.Ask
		r.Template, r.MemoryMB, r.CPUMilli, r.HoldOnExit = a.Template, a.Memory.CeilMiB(), a.CPUMilli, a.HoldOnExit
		r.Host = at
	}
	switch {
	case known.State == pool.Releasing && (p.Reserved || p.Running):
	case p.Reserved:
		r.State, r.ReservedUntil = pool.Admitted, now.Add(p.Until-p.Now)
	case p.Running && p.Tracked == 0:
		r.State = pool.Admitted
	case p.Running:
		r.State, r.RunningAt = pool.Running, now.Add(p.Tracked-p.Now)
	default:
		r.State, r.Host, r.Reason, r.EndedAt = pool.Released, "", "its host says that it is over", now
	}
	return r
}

// forgetDead lets a key start anew whose host is dead: its sandbox is lost, and if the host
// comes back, it is stopped there.
func (g *Gateway) forgetDead(consumer, key string) {
	row, known := g.own.get(consumer, key)
	if !known || row.Host == "" || !g.dead(row.Host) {
		return // most are new
	}
	g.Log.Warn("an admission is lost with its host, which alone recorded it", "id", row.ID, "host", row.Host)
	g.own.with(func(rows *admission.Book) { rows.End(row.ID) })
}

// dead says whether a host is gone, or was not heard here for so long as makes it dead. When
// more than half are silent together none is: then it is this replica that does not hear.
func (g *Gateway) dead(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts[id] == nil || g.isBuried(id) {
		return true
	}
	silent := 0
	for _, a := range g.hosts {
		if !a.heard || g.Now()-a.heardAt >= g.silentAfter() {
			silent++
		}
	}
	return g.hosts[id].heard && g.Now()-g.hosts[id].heardAt >= pool.HostTTL && 2*silent <= len(g.hosts)
}

// hearOwn takes the news of what this host alone records out of the rest.
func (t *tending) hearOwn(n *host.News) {
	g, now := t.gateway, t.gateway.storeNow()
	own := func(ref host.Ref) bool { return admission.OfHost(ref.ID, t.link.ID()) }
	if n.Tracks == nil && n.Reopens == nil {
		return
	}
	g.own.with(func(rows *admission.Book) {
		n.Tracks = without(n.Tracks, own, func(ref host.Ref) { rows.Track(ref.ID, now) })
		n.Reopens = without(n.Reopens, own, func(ref host.Ref) { rows.Reopen(ref.ID, now.Add(g.Passage.BootWithin)) })
	})
}

// without takes out of a list what is somebody else's to do, and does it.
func without(refs []host.Ref, out func(host.Ref) bool, do func(host.Ref)) []host.Ref {
	var rest []host.Ref
	for _, ref := range refs {
		if out(ref) {
			do(ref)
		} else {
			rest = append(rest, ref)
		}
	}
	return rest
}

// endOwn acknowledges the ends of what this host alone records: nobody has to write them.
// freed says whether there was one.
func (t *tending) endOwn(ctx context.Context) (freed bool) {
	for ref, e := range t.ends {
		if !admission.OfHost(e.ID, t.link.ID()) {
			continue
		}
		t.gateway.own.with(func(rows *admission.Book) { rows.End(e.ID) })
		freed = true
		delete(t.ends, ref)
		if _, err := t.link.Do(ctx, host.Acked(ref)); err != nil {
			t.gateway.Log.Debug("an end was not acknowledged; the host tells it again", "id", e.ID, "err", err)
		}
	}
	return freed
}

// reconcileOwn brings the book in line with the host that records: was is what the book had
// there before the host was asked.
func (t *tending) reconcileOwn(ctx context.Context, was []pool.Row, held *host.Held) {
	there := map[string]bool{}
	for _, ref := range held.Reserved {
		there[ref.ID] = true
		t.compareOwn(ctx, ref, host.Identity{})
	}
	for i := range held.Sandboxes {
		s := &held.Sandboxes[i]
		there[s.ID] = true
		if !s.Stopping {
			t.compareOwn(ctx, host.Ref{ID: s.ID, Epoch: s.Epoch}, s.Identity)
		}
	}
	t.gateway.own.with(func(rows *admission.Book) {
		for i := range was {
			if !there[was[i].ID] {
				rows.End(was[i].ID)
			}
		}
	})
}

// compareOwn has a host let go of what its key no longer stands for here.
func (t *tending) compareOwn(ctx context.Context, ref host.Ref, whose host.Identity) {
	if !admission.OfHost(ref.ID, t.link.ID()) {
		return
	}
	m := admission.Agreed
	t.gateway.own.with(func(rows *admission.Book) {
		if row, known := rows.ByID(ref.ID); known {
			whose = host.Identity{Consumer: row.Consumer, Key: row.Key}
		}
		m = rows.CompareBook(ref, whose)
	})
	if m == admission.Agreed {
		return
	}
	if _, err := t.link.Do(ctx, host.Release{ID: ref.ID, Gen: ref.Epoch}); err != nil {
		t.gateway.Log.Warn("what a host holds is not reconciled; it is looked at again", "id", ref.ID, "err", err)
	}
}

// HeartbeatByID keeps an unbooted admission and mints its ticket anew, at any replica.
func (g *Gateway) HeartbeatByID(ctx context.Context, who *config.Consumer, id string) (Outcome, error) {
	row, err := g.byID(ctx, who, id)
	if err != nil {
		return Outcome{}, err
	}
	return g.keep(ctx, who, row)
}
