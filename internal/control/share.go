package control

import (
	"context"

	"github.com/plimsoll-project/plimsoll/pool"
)

// upWithin is how long a replica counts as up after it last said so, which it does every 5 s.
const upWithin = 15_000 // ms

// shareHosts tells the table which replicas are up, so that each takes its own share of the
// hosts first. A store that does not answer changes nothing.
func (g *Gateway) shareHosts(ctx context.Context) {
	if g.Self == "" {
		return
	}
	all, err := g.Store.Replicas(ctx)
	if err != nil {
		g.Log.Debug("replicas not read; the shares of the hosts stay as they are", "err", err)
		return
	}
	live := upAt(all, g.storeNow())
	g.mu.Lock()
	defer g.mu.Unlock()
	g.table.SetReplicas(g.Self, live)
}

// upAt are the replicas that were heard of lately; one that took its leave has no address.
func upAt(all []Replica, now pool.Time) (live []string) {
	for _, r := range all {
		if r.Address != "" && now-r.HeardAt < upWithin {
			live = append(live, r.ID)
		}
	}
	return live
}
