package control

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
)

const looksAtOnce = 64 // hosts that are asked at once for a list

// Hosts lists the hosts with what each may still promise: those of the registry, and those that
// are connected. One that was buried is shown for a day.
func (g *Gateway) Hosts(ctx context.Context) (api.HostList, error) {
	registered, err := g.Store.Hosts(ctx)
	if err != nil {
		g.unread(err)
		return api.HostList{}, api.Refuse(api.Unavailable, "the store could not be read")
	}
	byID, now := map[string]registry.Host{}, g.storeNow()
	for _, h := range registered {
		if h.State != registry.Buried || now.Since(h.BuriedAt) < pool.KeepEnded {
			byID[h.ID] = h
		}
	}
	for _, link := range g.links() {
		if _, ok := byID[link.ID()]; !ok {
			byID[link.ID()] = registry.Host{ID: link.ID(), State: registry.Active}
		}
	}
	return api.HostList{Hosts: g.seeAll(ctx, byID), MostlySilent: g.deaf.Load()}, nil
}

// seeAll asks every host that is connected, some at once; of the others it has the last word.
func (g *Gateway) seeAll(ctx context.Context, byID map[string]registry.Host) []api.Host {
	out := make([]api.Host, len(byID))
	var looking errgroup.Group
	looking.SetLimit(looksAtOnce)
	for i, id := range sortedKeys(byID) {
		h := byID[id]
		looking.Go(func() error {
			out[i] = g.see(ctx, &h)
			out[i].Sandboxes, out[i].Evictions = nil, nil
			return nil
		})
	}
	_ = looking.Wait() // none fails
	return out
}

// see shows a host as it says, or as it last said.
func (g *Gateway) see(ctx context.Context, h *registry.Host) api.Host {
	link, _, _ := g.link(h.ID)
	shown, err := api.Host{}, error(nil)
	if link != nil {
		shown, err = g.host(ctx, link)
	}
	if link == nil || err != nil {
		shown = g.lastWord(h.ID)
	}
	g.addRegistered(&shown, h)
	return shown
}

// Host shows one host's arithmetic.
func (g *Gateway) Host(ctx context.Context, id string) (api.Host, error) {
	registered, err := g.registered(ctx, id)
	if err != nil {
		return api.Host{}, err
	}
	link, _, _ := g.link(id)
	switch {
	case link == nil && registered == nil:
		return api.Host{}, api.Refuse(api.NotFound, "no host %s is registered", id)
	case link == nil && registered.State == registry.Buried:
		return api.Host{}, api.Refuse(api.NotFound, "host %s was buried at %s; it has to join anew", id, registered.BuriedAt.Wall().Format(time.DateTime))
	case link == nil:
		shown := api.Host{}
		g.addRegistered(&shown, registered)
		return api.Host{}, api.Refuse(api.HostSilent, "host %s is %s and not connected: %s", id, registered.State, cmp.Or(shown.NotConnected, "not dialled yet"))
	}
	shown, err := g.host(ctx, link)
	if err != nil {
		return shown, err
	}
	if registered == nil {
		registered = &registry.Host{ID: id, State: registry.Active}
	}
	g.addRegistered(&shown, registered)
	return shown, nil
}

// registered is what the registry has of a host, nil for nothing.
func (g *Gateway) registered(ctx context.Context, id string) (*registry.Host, error) {
	h, ok, err := g.Store.Host(ctx, id)
	switch {
	case err != nil:
		g.unread(err)
		return nil, api.Refuse(api.Unavailable, "the store could not be read")
	case !ok:
		return nil, nil
	}
	return &h, nil
}

func (g *Gateway) host(ctx context.Context, link Link) (api.Host, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	v, err := link.View(ctx)
	if err != nil {
		g.Log.Warn("host not seen", "host", link.ID(), "err", err)
		return api.Host{}, api.Refuse(api.HostSilent, "host %s did not answer", link.ID())
	}
	h := showHost(v, g.Wall())
	h.HeardMSAgo, h.Connected = g.heardAgo(link.ID()), true
	return h, nil
}

// heardAgo is the age of a host's newest word; nil before the first.
func (g *Gateway) heardAgo(id string) *int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.hosts[id]
	if a == nil || !a.heard {
		return nil
	}
	ms := (g.Now() - a.heardAt).Milliseconds()
	return &ms
}

// lastWord shows a host that does not answer as it was last heard.
func (g *Gateway) lastWord(id string) api.Host {
	link, v, _ := g.link(id)
	h := showHost(host.View{Config: host.Config{ID: id, Mode: v.Mode, Labels: v.Labels}, Verdict: v}, g.Wall())
	h.FreeMB, h.HeardMSAgo, h.Connected, h.LastWord = v.Free.FloorMiB(), g.heardAgo(id), link != nil, true
	return h
}

// addRegistered adds what the registry has of a host, and why it is not connected here.
func (g *Gateway) addRegistered(out *api.Host, h *registry.Host) {
	out.Quarantine, out.UnansweredReserves = g.heldAgainst(h.ID)
	out.State, out.Endpoint, out.Version = api.HostState(h.State), h.Endpoint, h.Version
	out.RegisteredAt, out.BuriedAt = wireTime(h.RegisteredAt), wireTime(h.BuriedAt)
	if out.HeardAt = wireTime(h.HeardAt); out.HeardAt != nil {
		out.SilentMS = max(g.storeNow().Since(h.HeardAt), 0).Milliseconds()
	}
	if out.Incarnation == 0 {
		out.Incarnation = h.Incarnation
	}
	if out.Connected {
		return
	}
	g.mu.Lock()
	why := g.known.why[h.ID]
	g.mu.Unlock()
	switch {
	case h.State == registry.Buried:
		why = "it was buried, and has to join anew"
	case h.Endpoint == "":
		why = "its agent has no endpoint: it is in a replica's own process"
	}
	out.NotConnected = cmp.Or(why, "it is being dialled")
}
