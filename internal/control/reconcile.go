package control

import (
	"context"
	"maps"
	"slices"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
)

// What else may be found.
const (
	EndUntold  = "end_untold"  // the host still tells an end that the store has, or should have
	Unticketed = "unticketed"  // booted by a bypass or in shadow
	Unheard    = "unheard"     // the store has it on a host that cannot be asked
	OutOfGate  = "out_of_gate" // it runs on a host whose ledger knows nothing of it
)

// Reconcile compares the store, the hosts and the clock with each other, in both
// directions, and mends what it finds. The sweep and CompareUntil do the same by themselves
// within 20 s; this shows it, and does what they leave to a person.
func (g *Gateway) Reconcile(ctx context.Context, who *config.Consumer, q api.ReconcileRequest) (api.Reconciliation, error) {
	rows, err := g.Store.List(ctx, Filter{States: living()})
	if err != nil {
		return api.Reconciliation{}, g.unreadable(err, who)
	}
	r := reconciling{gateway: g, options: q, findings: []api.Finding{}}
	byHost := map[string][]pool.Row{}
	for _, row := range rows {
		if row.Host != "" {
			byHost[row.Host] = append(byHost[row.Host], row)
		}
	}
	for _, link := range g.links() {
		r.host(ctx, link, byHost[link.ID()])
		delete(byHost, link.ID())
	}
	for _, id := range slices.Sorted(maps.Keys(byHost)) {
		for i := range byHost[id] {
			r.found(finding(Unheard, id, &byHost[id][i]))
		}
	}
	if err := r.tidy(ctx, rows); err != nil {
		return api.Reconciliation{}, g.unreadable(err, who)
	}
	return api.Reconciliation{Findings: r.findings}, nil
}

// living are the states of rows that are not over.
func living() []pool.State {
	return slices.DeleteFunc(pool.States(), pool.State.Ended)
}

type reconciling struct {
	gateway  *Gateway
	options  api.ReconcileRequest
	findings []api.Finding
}

func finding(what, at string, r *pool.Row) api.Finding {
	return api.Finding{What: what, ID: r.ID, Epoch: r.Epoch, Key: r.Key, Host: at, State: string(r.State)}
}

func (r *reconciling) found(f api.Finding) *api.Finding {
	r.findings = append(r.findings, f)
	return &r.findings[len(r.findings)-1]
}

// deeds: mismatch -> what mends it.
var deeds = map[admission.Mismatch]string{
	admission.Unheld:       "end it as expired",
	admission.EndUnseen:    "end it as released",
	admission.BootUnseen:   "write that it runs",
	admission.ReopenUnseen: "write that it is kept for a restart",
	admission.Unreleased:   "release it on its host again",
	admission.LostAlive:    "write that it runs again",
	admission.Superseded:   "stop it on its host",
}

// host compares one host with the rows that the store has there, which are older.
func (r *reconciling) host(ctx context.Context, link Link, rows []pool.Row) {
	t := &tending{gateway: r.gateway, link: link, ends: map[host.Ref]host.End{}}
	held, err := link.Holding(ctx)
	if err != nil {
		for i := range rows {
			r.found(finding(Unheard, link.ID(), &rows[i])).Error = err.Error()
		}
		return
	}
	known, told := map[host.Ref]bool{}, r.untold(ctx, t, held.Ends)
	for i := range rows {
		row := &rows[i]
		ref := host.Ref{ID: row.ID, Epoch: row.Epoch}
		known[ref] = true
		reserved, running, err := link.Holds(ctx, ref)
		if err == nil && !told[ref] {
			r.mismatch(ctx, t, admission.CompareRow(row, reserved, running), finding("", link.ID(), row))
		}
	}
	for i := range held.Sandboxes {
		if s := &held.Sandboxes[i]; s.Waiver != "" {
			r.waived(link.ID(), s)
		} else if !s.Stopping {
			r.held(ctx, t, known, host.Ref{ID: s.ID, Epoch: s.Epoch}, s.Ask.Stateful, true)
		}
	}
	for _, ref := range held.Reserved {
		r.held(ctx, t, known, ref, false, false)
	}
	for i := range held.OutOfGate {
		r.outOfGate(ctx, link, &held.OutOfGate[i])
	}
}

// outOfGate judges what runs in no ledger's name. It is stopped only when a person says so,
// and the store knows it for stateless.
func (r *reconciling) outOfGate(ctx context.Context, link Link, s *host.Stray) {
	f := api.Finding{What: OutOfGate, ID: s.ID, Host: link.ID(), Detail: whereabouts(s)}
	row, found, err := r.gateway.Store.ByID(ctx, s.ID)
	if err != nil {
		f.Error = err.Error()
	}
	if found {
		f.Key, f.State = row.Key, string(row.State)
	}
	if !found || row.Contents.Stateful || !r.options.StopUnknown {
		r.found(f)
		return
	}
	f.Deed = "stop it on its host"
	done := r.found(f)
	if r.options.DryRun {
		return
	}
	if err := link.Clear(ctx, s.ID); err != nil {
		done.Error = err.Error()
		return
	}
	done.Mended = true
}

// whereabouts says where to find it.
func whereabouts(s *host.Stray) string {
	pids := make([]string, len(s.PIDs))
	for i, pid := range s.PIDs {
		pids[i] = itoa(int64(pid))
	}
	return "cgroup " + s.Where + ", processes " + firstOf(pids)
}

// waived shows what booted without a ticket because the host was in shadow or somebody had opened
// a bypass. No store ever placed it, and no program stops it.
func (r *reconciling) waived(at string, s *host.Sandbox) {
	f := r.found(api.Finding{What: Unticketed, ID: s.ID, Epoch: s.Epoch, Key: s.Identity.Key, Host: at, State: string(s.Phase)})
	f.Detail = "booted without a ticket (" + string(s.Waiver) + "), and is charged " + s.Ask.Memory.String() + " at most; it ends by itself"
}

// held judges what the host holds and the rows did not say.
func (r *reconciling) held(ctx context.Context, t *tending, known map[host.Ref]bool, ref host.Ref, stateful, running bool) {
	if known[ref] || admission.OfHost(ref.ID, t.link.ID()) {
		return
	}
	row, found, err := r.gateway.Store.ByID(ctx, ref.ID)
	f := api.Finding{ID: ref.ID, Epoch: ref.Epoch, Host: t.link.ID()}
	switch {
	case err != nil:
		f.What, f.Error = string(admission.Unknown), err.Error()
		r.found(f)
	case found:
		f.Key, f.State = row.Key, string(row.State)
		r.mismatch(ctx, t, admission.CompareHeld(t.link.ID(), ref, stateful, running, &row), f)
	default:
		r.unknown(ctx, t, f, stateful, running)
	}
}

// unknown is on a host, and the store knows nothing of it.
func (r *reconciling) unknown(ctx context.Context, t *tending, f api.Finding, stateful, running bool) {
	f.What = string(admission.Unknown)
	if running && (stateful || !r.options.StopUnknown) {
		r.found(f)
		return
	}
	f.Deed = deeds[admission.Superseded]
	r.mend(ctx, t, admission.Superseded, r.found(f))
}

func (r *reconciling) mismatch(ctx context.Context, t *tending, m admission.Mismatch, f api.Finding) {
	if m == admission.Agreed {
		return
	}
	f.What, f.Deed = string(m), deeds[m]
	r.mend(ctx, t, m, r.found(f))
}

func (r *reconciling) mend(ctx context.Context, t *tending, m admission.Mismatch, f *api.Finding) {
	if r.options.DryRun || f.Deed == "" {
		return
	}
	ref := host.Ref{ID: f.ID, Epoch: f.Epoch}
	err := t.mend(ctx, m, ref)
	t.write(ctx)
	_, unwritten := t.ends[ref]
	f.Mended = err == nil && !unwritten
	if err != nil {
		f.Error = err.Error()
	}
}

// untold writes the ends that the host still tells, and says which they are.
func (r *reconciling) untold(ctx context.Context, t *tending, ends []host.End) map[host.Ref]bool {
	told := map[host.Ref]bool{}
	for _, e := range ends {
		ref := host.Ref{ID: e.ID, Epoch: e.Epoch}
		told[ref] = true
		f := r.found(api.Finding{What: EndUntold, ID: ref.ID, Epoch: ref.Epoch, Host: t.link.ID(), Deed: "write it, and acknowledge it"})
		if r.options.DryRun {
			continue
		}
		t.ends[ref] = e
		t.write(ctx)
		_, unwritten := t.ends[ref]
		f.Mended = !unwritten
	}
	clear(t.ends)
	return told
}

// tidy finds what the sweep would change, and sweeps.
func (r *reconciling) tidy(ctx context.Context, rows []pool.Row) error {
	g := r.gateway
	pulse, err := g.Store.Pulse(ctx, nil)
	if err != nil {
		return err
	}
	hosts, err := g.Store.Hosts(ctx)
	if err != nil {
		return err
	}
	all, buried := leases(hosts, rows)
	var limits map[string]pool.Limits
	if fleet := g.Fleet(); fleet != nil {
		limits = fleet.Settings().Pools
	}
	gone := pool.Gone{Dead: pool.Dead(all, pulse.At, pulse), Buried: buried}
	first := len(r.findings)
	for i := range rows {
		if why := pool.Look(&rows[i], pulse.At, pulse, limits[rows[i].Pool], gone); why != pool.Tidy {
			f := finding(string(why), rows[i].Host, &rows[i])
			f.Deed = "sweep it"
			r.found(f)
		}
	}
	if r.options.DryRun || len(r.findings) == first {
		return nil
	}
	_, err = g.Store.Sweep(ctx)
	for i := first; i < len(r.findings); i++ {
		r.findings[i].Mended = err == nil
	}
	g.wakes.wake()
	return nil
}
