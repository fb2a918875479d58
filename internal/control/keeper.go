package control

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/explain"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// Decision is an answer of the gate as it is kept for a day.
type Decision struct {
	Told     api.Decision   // without what is worked out when somebody asks for it
	Facts    *explain.Facts `json:",omitempty"` // what a no rested on, without its evidence
	Evidence *Evidence      `json:"-"`          // nil: no host was looked at
}

// MostDecisions is how many are kept at most, of 2 KB each; where more are made within a day, the oldest go
// first.
const MostDecisions = 500_000

// ReadDecision reads one as a store keeps it, and what it rests on, "" for nothing.
func ReadDecision(document, evidence []byte) (*Decision, error) {
	d := new(Decision)
	if err := json.Unmarshal(document, d); err != nil {
		return nil, fmt.Errorf("read a kept decision: %w", err)
	}
	if len(evidence) == 0 {
		return d, nil
	}
	d.Evidence = new(Evidence)
	if err := json.Unmarshal(evidence, d.Evidence); err != nil {
		return nil, fmt.Errorf("read what a decision rests on: %w", err)
	}
	return d, nil
}

// Evidence is what there was to see of the hosts. Refusals that saw the same share one.
type Evidence struct {
	Excluded []explain.Exclusion
	Near     []table.Room
}

const (
	mostUnkept = 4096 // decisions that wait to be written; later ones are dropped, and counted
	keptAtOnce = 64   // share one transaction: an admission waits for no more of them than that
	keptATick  = 4    // such transactions
	keepEvery  = 100 * time.Millisecond
	keepWithin = 5 * time.Second
	restWithin = time.Second
)

// keeper holds decisions until they are written, behind the answers. It may be used from any
// goroutine.
type keeper struct {
	mu     sync.Mutex  // guards what follows; never held across I/O
	unkept []*Decision // the oldest first; nobody changes one that is in it

	minute    pool.Time // since which strangers are counted
	strangers int
}

// put says whether there was room.
func (k *keeper) put(d *Decision) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.unkept) >= mostUnkept {
		return false
	}
	k.unkept = append(k.unkept, d)
	return true
}

// strangersAMinute is how many noes to callers whom nobody knows are kept: anybody can have them
// made, and must not push out those of others. The log has them all.
const strangersAMinute = 20

// stranger says whether one more of those is kept.
func (k *keeper) stranger(now pool.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Since(k.minute) >= time.Minute {
		k.minute, k.strangers = now, 0
	}
	k.strangers++
	return k.strangers <= strangersAMinute
}

// oldest returns up to n of them, which stay in it until they are written.
func (k *keeper) oldest(n int) []*Decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*Decision(nil), k.unkept[:min(n, len(k.unkept))]...)
}

// written drops the n oldest.
func (k *keeper) written(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	left := copy(k.unkept, k.unkept[n:])
	clear(k.unkept[left:])
	k.unkept = k.unkept[:left]
}

// find returns the one of an id; nil for none.
func (k *keeper) find(id string) *Decision {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.unkept {
		if d.Told.ID == id {
			return d
		}
	}
	return nil
}

// of returns those of a consumer's key, or anybody's for "", the newest first.
func (k *keeper) of(consumer, key string) (out []*Decision) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := len(k.unkept) - 1; i >= 0; i-- {
		if t := &k.unkept[i].Told; (consumer == "" || t.Consumer == consumer) && t.Key == key {
			out = append(out, k.unkept[i])
		}
	}
	return out
}

// KeepUntil writes decisions into the store until ctx ends, and then what is left of them. They
// are behind their answers by a tenth of a second, and share transactions, so that no admission
// waits for them; where there are more than can be written so, the later ones are dropped. Call it once.
func (g *Gateway) KeepUntil(ctx context.Context) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			g.keepRest(ctx)
			return
		case <-tick.C:
		}
		for range keptATick {
			if !g.keepSome(ctx) {
				break
			}
		}
	}
}

// keepRest writes what is left when this replica stops.
func (g *Gateway) keepRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restWithin)
	defer cancel()
	for g.keepSome(ctx) {
	}
	if lost := len(g.keeper.oldest(mostUnkept)); lost > 0 {
		g.Metrics.DecisionsDropped.Add(float64(lost))
		g.Log.Warn("decisions were not written before this replica stopped, so that nobody can have them explained", "decisions", lost)
	}
}

// keepSome writes one transaction's worth, and says whether there may be more to write.
func (g *Gateway) keepSome(ctx context.Context) bool {
	some := g.keeper.oldest(keptAtOnce)
	if len(some) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, keepWithin)
	defer cancel()
	early, err := g.Store.Decide(ctx, some, MostDecisions)
	if err != nil {
		g.Log.Debug("decisions not written; they are written with the next ones", "decisions", len(some), "err", err)
		return false
	}
	g.Metrics.DecisionsEarly.Add(float64(early))
	g.keeper.written(len(some))
	return len(some) == keptAtOnce
}
