package fleettest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// load is what goes on while things are killed: callers, a substrate, and who judges.
type load struct {
	t        *testing.T
	front    *front
	book     *book
	provider *provider
	onlooker *onlooker

	stopCallers, stopOthers context.CancelFunc
	callers, others         sync.WaitGroup
}

// begin starts eight callers of each of three kinds: of the two consumers of the pool with a
// share, and of the pool without. None may hang for longer than is said.
func begin(t *testing.T, replicas []*replica, o *onlooker, rng *rand.Rand, hung time.Duration) *load {
	t.Helper()
	o.t, o.most, o.epochs = t, map[string]int64{}, map[string]int64{}
	l := &load{t: t, front: newFront(t, replicas), book: newBook(t), onlooker: o}
	l.provider = newProvider(l.book, l.front.client("provider"))
	calling, stopCallers := context.WithCancel(t.Context())
	looking, stopOthers := context.WithCancel(t.Context())
	l.stopCallers, l.stopOthers = stopCallers, stopOthers
	for i := range 24 {
		c := &caller{
			name: fmt.Sprintf("c%d", i), consumer: []string{"chat", "ci", "ci"}[i%3], class: []string{"conversation", "conversation", "probe"}[i%3],
			queues: i%2 == 0, hung: hung, book: l.book, provider: l.provider, rng: rand.New(rand.NewPCG(rng.Uint64(), 1)),
		}
		c.client = l.front.client(c.consumer)
		l.callers.Go(func() { c.run(calling) })
	}
	l.others.Go(func() { l.provider.list(looking) })
	l.others.Go(func() { o.watch(looking) })
	return l
}

// endsWell lets all callers go, whatever they hold: one life later nothing is held, and what
// expired nobody had kept.
func (l *load) endsWell() {
	l.t.Helper()
	l.stopCallers()
	l.callers.Wait()
	ctx := l.t.Context()
	// A sandbox that runs on is listed for a second, and then its slot has one life; the
	// replica whose sweep comes next may be any.
	took := becomes(l.t, "everything is free", 2*slotTTL+2*sweepEvery, func() string { return l.onlooker.left(ctx) })
	l.stopOthers()
	l.others.Wait()
	expired := l.onlooker.expired(ctx, l.book)
	operator := l.front.client("operator")
	pools, err := operator.Pools(within(l.t, hung))
	if err != nil {
		l.t.Error(err)
	} else if busy := busyOf(pools); busy != 0 {
		l.t.Errorf("the pools show %d slots held", busy)
	}
	answers := l.front.judge()
	b := l.book
	l.t.Logf("%d answers; %v", answers, b.counts)
	l.t.Logf("%d keys, %d expired, all free %v after the last call; worst outage of a caller %v",
		len(b.keys), expired, took.Round(10*time.Millisecond), b.worst.Round(10*time.Millisecond))
	l.t.Logf("%d snapshots, at most held at once %v, %d of %d on average", l.onlooker.snapshots, l.onlooker.most,
		l.onlooker.sum/int64(max(l.onlooker.snapshots, 1)), sharedCap+smallCap)
	if b.counts["yes"] == 0 || b.counts["redeemed"] == 0 || b.counts["kept"] == 0 || l.onlooker.most["shared"] < sharedCap {
		l.t.Error("there was no load to speak of")
	}
}

func busyOf(pools *api.PoolList) (busy int64) {
	for _, p := range pools.Pools {
		busy += p.Busy + p.Waiting
	}
	return busy
}
