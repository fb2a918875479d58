package control

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
)

// The bounds of a report and of its answer.
const (
	mostRunning = 10_000
	mostNamed   = 1000 // entries of an answer, and rows looked up one by one for it
	seenAtOnce  = 500  // slots renewed in one transaction
)

// Running is POST /v1/pools/{pool}/running: the word of somebody who can list what runs. It
// renews the slots of what is listed; absence from the list ends nothing.
func (g *Gateway) Running(ctx context.Context, who *config.Consumer, name string, q api.RunningReport) (api.RunningVerdict, error) {
	if err := checkReport(q); err != nil {
		return api.RunningVerdict{}, err
	}
	rows, err := g.Store.List(ctx, Filter{Pool: name, States: []pool.State{pool.Admitted, pool.Running}})
	if err != nil {
		return api.RunningVerdict{}, g.unreadable(err, who)
	}
	rows = slices.DeleteFunc(rows, func(r pool.Row) bool { return r.Audience == "" })
	if err := g.mayReport(who, name, rows); err != nil {
		return api.RunningVerdict{}, err
	}
	r := newReport(who, name, rows)
	for _, e := range q.Running {
		r.sort(e)
	}
	if err := r.renew(ctx, g.Store); err != nil {
		g.failed(err, "pool", name)
		return api.RunningVerdict{}, g.Refused(api.Refuse(api.Unavailable, "the store did not answer; send the same report again"), who)
	}
	if err := r.explain(ctx, g.Store); err != nil {
		return api.RunningVerdict{}, g.unreadable(err, who)
	}
	g.reports.note(name, int64(len(r.out)), g.Now())
	if len(r.out) > 0 {
		g.Log.Warn("sandboxes run out of gate", "pool", name, "count", len(r.out), "reported_by", who.Name, "first", r.out[0])
	}
	return r.verdict(q.Complete), nil
}

func checkReport(q api.RunningReport) error {
	if len(q.Running) > mostRunning {
		return api.Refuse(api.InvalidRequest, "running: %d entries; send at most %d, and the rest in another report that is not complete", len(q.Running), mostRunning)
	}
	for i, e := range q.Running {
		switch {
		case e.ID == "" && e.Instance == "":
			return api.Refuse(api.InvalidRequest, "running[%d]: name it by id or instance", i)
		case e.Epoch < 0:
			return api.Refuse(api.InvalidRequest, "running[%d].epoch: %d is below zero", i, e.Epoch)
		case len(e.ID) > longestInstance:
			return api.Refuse(api.InvalidRequest, "running[%d].id: longer than any that was given out", i)
		case instanceFault(e.Instance) != "":
			return api.Refuse(api.InvalidRequest, "running[%d].instance: %s", i, instanceFault(e.Instance))
		}
	}
	return nil
}

// mayReport says whether the caller is a substrate of the pool, or of what still runs of it:
// its audience may be another by now.
func (g *Gateway) mayReport(who *config.Consumer, name string, rows []pool.Row) error {
	fleet := g.Fleet()
	if fleet == nil {
		return g.Refused(api.Refuse(api.Unavailable, "no configuration is in force yet"), who)
	}
	p, ok := fleet.Settings().Pools[name]
	mine := slices.ContainsFunc(rows, func(r pool.Row) bool { return who.Serves(r.Audience) })
	switch {
	case mine || ok && p.Audience != "" && who.Serves(p.Audience):
		return nil
	case !ok:
		return g.Refused(g.noPool(name), who)
	case p.Audience == "":
		return g.Refused(api.Refuse(api.InvalidRequest, "pool: %s is placed on hosts, whose agents say what runs", name), who)
	}
	return g.Refused(api.Refuse(api.Forbidden, "consumer %s does not redeem for the audience %s of pool %s", who.Name, p.Audience, name), who)
}

// report is one list of what runs, held against the slots.
type report struct {
	who     *config.Consumer
	pool    string
	byID    map[string]*pool.Row // slots without a host, of this pool
	named   map[string]*pool.Row // instance -> its slot
	seen    map[string]bool      // ids that are in the list
	listed  []pool.Ref           // of slots to renew
	entries []api.RunningSandbox // that listed came from
	renewed int64
	out     []api.OutOfGate
}

func newReport(who *config.Consumer, name string, rows []pool.Row) *report {
	r := &report{who: who, pool: name, byID: map[string]*pool.Row{}, named: map[string]*pool.Row{}, seen: map[string]bool{}}
	slices.SortFunc(rows, func(a, b pool.Row) int { return cmp.Compare(a.Epoch, b.Epoch) })
	for i := range rows {
		r.byID[rows[i].ID] = &rows[i]
		if rows[i].Instance != "" {
			r.named[rows[i].Instance] = &rows[i] // of two the later one: a name that was used again
		}
	}
	return r
}

// sort finds the slot of an entry, or puts the entry out of gate; why is found out later
// where it takes another look at the store.
func (r *report) sort(e api.RunningSandbox) {
	row := r.byID[e.ID]
	if e.ID == "" {
		row = r.named[e.Instance]
	}
	switch {
	case row == nil:
		r.outside(e, "")
	case !r.who.Serves(row.Audience):
		r.outside(e, api.OutOfGateWhyOtherAudience)
	case e.Epoch != 0 && e.Epoch < row.Epoch:
		r.outside(e, api.OutOfGateWhySuperseded)
	case e.Epoch > row.Epoch:
		r.outside(e, api.OutOfGateWhyUnknown)
	case e.Instance != "" && row.Instance != "" && e.Instance != row.Instance:
		r.outside(e, api.OutOfGateWhyOtherInstance)
	case r.seen[row.ID]:
		r.outside(e, api.OutOfGateWhyDuplicate)
	default:
		r.seen[row.ID] = true
		r.listed = append(r.listed, pool.Ref{ID: row.ID, Epoch: row.Epoch})
		r.entries = append(r.entries, e)
	}
}

func (r *report) outside(e api.RunningSandbox, why api.OutOfGateWhy) {
	r.out = append(r.out, api.OutOfGate{ID: e.ID, Epoch: e.Epoch, Instance: e.Instance, Why: why})
}

// renew tells the store what runs, a bounded number of slots in each transaction.
func (r *report) renew(ctx context.Context, s Store) error {
	at := 0
	for refs := range slices.Chunk(r.listed, seenAtOnce) {
		have, err := s.Seen(ctx, refs)
		if err != nil {
			return err
		}
		for i, ok := range have {
			if ok {
				r.renewed++
			} else {
				r.outside(r.entries[at+i], "")
			}
		}
		at += len(refs)
	}
	return nil
}

// explain finds out why entries have no slot, of as many as are named.
func (r *report) explain(ctx context.Context, s Store) error {
	for i := range r.out[:min(len(r.out), mostNamed)] {
		o := &r.out[i]
		if o.Why != "" {
			continue
		}
		o.Why = api.OutOfGateWhyUnknown
		if o.ID == "" {
			continue
		}
		row, found, err := s.ByID(ctx, o.ID)
		if err != nil {
			return err
		}
		if found {
			o.Why = r.whyNot(o.Epoch, &row)
		}
	}
	return nil
}

// whyNot says why a row that holds no slot here does not stand for what runs. What is nobody
// else's business is unknown to the caller.
func (r *report) whyNot(epoch int64, row *pool.Row) api.OutOfGateWhy {
	switch {
	case row.Pool != r.pool:
		return api.OutOfGateWhyOtherPool
	case epoch != 0 && epoch < row.Epoch:
		return api.OutOfGateWhySuperseded
	case row.State.Ended():
		return api.OutOfGateWhyReleased
	}
	return api.OutOfGateWhyUnknown
}

func (r *report) verdict(complete bool) api.RunningVerdict {
	v := api.RunningVerdict{
		Renewed: r.renewed, OutOfGateCount: int64(len(r.out)),
		OutOfGate: append([]api.OutOfGate{}, r.out[:min(len(r.out), mostNamed)]...), Missing: []api.MissingSlot{},
	}
	if !complete {
		return v
	}
	for _, row := range r.missing() {
		v.MissingCount++
		if len(v.Missing) < mostNamed {
			v.Missing = append(v.Missing, api.MissingSlot{ID: row.ID, Epoch: row.Epoch, Instance: row.Instance, StartedAt: row.RunningAt.Wall()})
		}
	}
	return v
}

// missing are the caller's slots that are running and that it did not list, the oldest first.
func (r *report) missing() []*pool.Row {
	var out []*pool.Row
	for id, row := range r.byID {
		if row.State == pool.Running && !r.seen[id] && r.who.Serves(row.Audience) {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b *pool.Row) int {
		return cmp.Or(cmp.Compare(a.RunningAt, b.RunningAt), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// reports is what this replica was last told to run out of gate. The zero value is ready.
type reports struct {
	mu   sync.Mutex // guards last
	last map[string]reported
}

type reported struct {
	outOfGate int64
	at        time.Duration
}

// reportFor is how long a report says anything: what was true once is no fact for ever.
const reportFor = pool.DefaultSlotTTL

func (r *reports) note(name string, outOfGate int64, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]reported{}
	}
	r.last[name] = reported{outOfGate, now}
}

// count is what ran out of gate by the last report; nil when there was none lately.
func (r *reports) count(name string, now time.Duration) *int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.last[name]
	if !ok || now-last.at >= reportFor {
		return nil
	}
	return &last.outOfGate
}
