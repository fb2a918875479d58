package up

import (
	"context"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
)

// attestEvery is how often a replica says that it is up.
const (
	attestEvery = 5 * time.Second
	attestPause = 100 * time.Millisecond
)

// presence is what a replica says of itself to operators: that it is up, and which ticket
// keys it knows. One that stops says so, by no address: a rotation need not wait for it.
type presence struct {
	changed chan struct{} // holds one when there is something new to say

	mu      sync.Mutex // guards what follows, and held while it is said
	said    bool
	gone    bool
	doubted bool // it was said that another replica has the same id
}

// again has the next word said at once.
func (p *presence) again() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// attestUntil says it now and then, and at once when it changed.
func (u *Up) attestUntil(ctx context.Context) {
	tick := time.NewTicker(attestEvery)
	defer tick.Stop()
	for {
		u.attest(ctx)
		wait(ctx, attestPause) // hosts that connect together are one change
		select {
		case <-ctx.Done():
			return
		case <-u.presence.changed:
		case <-tick.C:
		}
	}
}

func (u *Up) attest(ctx context.Context) {
	u.presence.mu.Lock()
	defer u.presence.mu.Unlock()
	if u.presence.gone {
		return
	}
	me := control.Replica{ID: u.replicaID, Address: u.File.Local.Address(u.api.Addr()), Version: u.Version, Keys: u.dialer.Known(u.keys.ids())}
	if u.presence.said && !u.presence.doubted {
		u.doubt(ctx, me)
	}
	u.presence.said = true
	if err := u.store.Attest(ctx, me); err != nil && ctx.Err() == nil {
		u.Log.Debug("not said that this replica is up; the next time makes up for it", "err", err)
	}
}

// doubt looks whether another replica has taken this one's id since it last attested: one of
// them would be unknown to whoever rotates keys. A copied data directory does that.
func (u *Up) doubt(ctx context.Context, me control.Replica) {
	all, err := u.store.Replicas(ctx)
	if err != nil {
		return // to attest says what is wrong
	}
	for _, r := range all {
		if r.ID == me.ID && r.Address != me.Address && r.Address != "" {
			u.presence.doubted = true
			u.Log.Error("another replica has the same id, so only one of the two is seen; give each its own with replica_id, or remove the file replica_id from a copied data directory",
				"id", me.ID, "its address", r.Address, "ours", me.Address)
		}
	}
}

// takeLeave says that this replica is gone, the last thing that it does in the store.
func (u *Up) takeLeave(ctx context.Context) {
	u.presence.mu.Lock()
	defer u.presence.mu.Unlock()
	u.presence.gone = true
	if !u.presence.said {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := u.store.Attest(ctx, control.Replica{ID: u.replicaID, Version: u.Version}); err != nil {
		u.Log.Debug("not said that this replica is gone", "err", err)
	}
}
