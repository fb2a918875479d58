package control

import (
	"context"
	"fmt"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
	"github.com/plimsoll-project/plimsoll/table"
)

// known is the registry as this replica last read it. Hosts that a later reading lacks stay:
// only what is buried is forgotten. Guarded by the gateway's lock.
type known struct {
	hosts   map[string]registry.Host // by id
	why     map[string]string        // host -> why it is not connected, for people
	begun   int64                    // readings that began
	applied int64                    // the latest of them that was applied
	orders  pool.Orders              // of operators, as last read
	version int64                    // of the registry, when that one began
}

// lookAtHosts has Follow read the registry at once, as somebody changed it.
func (g *Gateway) lookAtHosts() {
	select {
	case g.looks <- struct{}{}:
	default: // it is going to
	}
}

// readRegistry reads the registry, and has its word take effect on every pick from now on.
func (g *Gateway) readRegistry(ctx context.Context) error {
	g.mu.Lock()
	g.known.begun++
	mine := g.known.begun
	g.mu.Unlock()
	version, err := g.Store.HostsVersion(ctx) // first: what changes meanwhile is found again
	if err != nil {
		return fmt.Errorf("read the registry's version: %w", err)
	}
	hosts, err := g.Store.Hosts(ctx)
	if err != nil {
		return fmt.Errorf("read the registry: %w", err)
	}
	orders, err := g.Store.Orders(ctx)
	if err != nil {
		return fmt.Errorf("read the orders of operators: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if mine < g.known.applied {
		return nil // a later one was faster
	}
	g.known.applied, g.known.version, g.known.orders = mine, version, orders
	for i := range hosts {
		g.enter(&hosts[i])
	}
	return nil
}

// endpointOf is where a host's agent is, by the registry; empty in a replica's own process.
func (g *Gateway) endpointOf(id string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known.hosts[id].Endpoint
}

// registryMoved says whether there may be news in the registry; every so often it is read anyway.
func (g *Gateway) registryMoved(ctx context.Context) bool {
	version, err := g.Store.HostsVersion(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	return err != nil || version != g.known.version
}

// enter takes one host of the registry over. g.mu must be held.
func (g *Gateway) enter(h *registry.Host) {
	g.known.hosts[h.ID] = *h
	if h.State == registry.Buried {
		g.table.Forget(h.ID)
		delete(g.known.why, h.ID)
		return
	}
	g.table.Register(table.Registration{
		Host: h.ID, Mode: h.Bounds.Mode, MaxAsk: h.Bounds.MaxAsk, Labels: h.Bounds.Labels, Limits: h.Bounds.Limits,
	})
	g.table.Order(h.ID, table.Intake(orderOf(h.State)))
}

// isBuried says whether the registry forgot a host; g.mu must be held. One that it never knew
// it did not forget.
func (g *Gateway) isBuried(id string) bool { return g.known.hosts[id].State == registry.Buried }

// orderOf is the intake that a state orders.
func orderOf(s registry.State) host.Intake {
	switch s {
	case registry.Cordoned:
		return host.IntakeCordoned
	case registry.Draining, registry.Buried:
		return host.IntakeDraining
	case registry.Active:
	}
	return host.IntakeOpen
}

// stateOf is a host's state in the registry; active for one that it does not know.
func (g *Gateway) stateOf(id string) registry.State {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h, ok := g.known.hosts[id]; ok {
		return h.State
	}
	return registry.Active
}

// disobeys says whether a host's word is not what its state orders: it was not told yet, or by
// an older word. Pressure is the valve's own business. g.mu must be held.
func (g *Gateway) disobeys(v *host.Verdict) bool {
	if g.known.applied > 0 && v.Ordered != g.orderedOf(v.Host) {
		return true
	}
	h, ok := g.known.hosts[v.Host]
	if !ok || h.State == registry.Buried {
		return false
	}
	says := v.Intake
	if says == host.IntakePressure {
		says = host.IntakeOpen
	}
	return says != orderOf(h.State)
}

// toldIntake tells a host what its state orders; false when it did not hear it.
func (g *Gateway) toldIntake(ctx context.Context, id string) bool {
	link, _, _ := g.link(id)
	if link == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	g.mu.Lock()
	ordered, read := g.orderedOf(id), g.known.applied > 0
	g.mu.Unlock()
	if read {
		if _, err := link.Do(ctx, host.SetEnforcement{To: ordered}); err != nil {
			return false
		}
	}
	answer, err := link.Do(ctx, host.SetIntake{Intake: orderOf(g.stateOf(id))})
	if err != nil {
		return false
	}
	g.observe(answer.Verdict)
	return true
}

// bounds is what a verdict says a host can hold at most; ok is false before it was measured.
func bounds(v *host.Verdict) (b registry.Bounds, ok bool) {
	return registry.Bounds{Mode: v.Mode, MaxAsk: v.MaxAsk, Labels: v.Labels, Limits: v.Limits}, v.Limit > 0
}

// undescribed lists what hosts say of themselves and the registry does not.
func (g *Gateway) undescribed() (said []HostBounds) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, a := range g.hosts {
		h, ok := g.known.hosts[id]
		if !ok || !a.heard || h.State == registry.Buried {
			continue
		}
		if b, measured := bounds(&a.verdict); measured && !b.Equal(h.Bounds) {
			said = append(said, HostBounds{id, b})
		}
	}
	return said
}

// disobedient lists the connected hosts that have to be told what their state orders.
func (g *Gateway) disobedient() (ids []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, a := range g.hosts {
		if a.link != nil && a.heard && g.disobeys(&a.verdict) {
			ids = append(ids, id)
		}
	}
	return ids
}

// leases are those of the registry, for the sweep's rules; rows are what lives.
func leases(hosts []RegisteredHost, rows []pool.Row) (all map[string]pool.Lease, buried []string) {
	all = map[string]pool.Lease{}
	for _, h := range hosts {
		if h.State == registry.Buried {
			buried = append(buried, h.ID)
		} else {
			all[h.ID] = pool.Lease{HeardAt: h.HeardAt}
		}
	}
	for i := range rows {
		pool.MarkHolding(all, &rows[i])
	}
	return all, buried
}
