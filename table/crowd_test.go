package table

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// crowd is a storm on a small fleet whose processes share too few processors: replicas and
// hosts get their turns now and then, and take what has come since in one go. So each replica
// knows of one host what it did a moment ago, and of another what it did long before.
type crowd struct {
	burst
	turn  time.Duration // a process has one about every so often
	alone bool          // all creates come to one of the replicas
	turns map[string]time.Duration
}

// inTurn does what is handed to a process at an instant when its next turn comes.
func (b *crowd) inTurn(process string, at, now time.Duration, do func(time.Duration)) {
	for b.turns[process] < at {
		b.turns[process] += b.turn/5 + time.Duration(b.rng.below(int(b.turn*8/5)))
	}
	then := b.turns[process]
	b.after(then-now, now, func() { do(then) })
}

// play returns the fewest and the most that a host holds in the end.
func (b *crowd) play() (least, most int64) {
	b.turns = map[string]time.Duration{}
	live := b.begin()
	for k := range b.creates {
		r, at := k%b.replicas, b.within*time.Duration(k)/time.Duration(b.creates)
		if b.alone {
			r = 0
		}
		b.after(at, 0, func() { b.inTurn(live[r], at, at, func(now time.Duration) { b.create(live, r, now) }) })
	}
	b.finish()
	least = int64(b.creates)
	for i := range b.books {
		least, most = min(least, b.books[i].sandboxes), max(most, b.books[i].sandboxes)
	}
	return least, most
}

func (b *crowd) create(live []string, r int, now time.Duration) {
	c, ok := b.tables[r].Pick(now, &b.ask, &PickOptions{Rand: b.rng.next()})
	if !ok {
		b.got.refused++
		return
	}
	charge := b.tables[r].Charge(c.Ref, &b.ask, 0)
	b.inTurn(c.Host, now+b.oneWay, now, func(now time.Duration) {
		i := b.bookOf(c.Host)
		if b.reserve(i) {
			b.got.admitted++
		}
		v := b.verdict(i)
		b.inTurn(live[r], now+b.oneWay, now, func(now time.Duration) {
			b.tables[r].Observe(&v, now)
			b.tables[r].Uncharge(charge)
		})
		b.tell(live, i, now)
	})
}

// tell is the host's news to every replica, in a turn of each.
func (b *crowd) tell(live []string, i int, now time.Duration) {
	k := &b.books[i]
	if k.due {
		return
	}
	k.due = true
	b.inTurn(k.id, max(now, k.published+b.news), now, func(now time.Duration) {
		k.due, k.published = false, now
		v := b.verdict(i)
		for r, tb := range b.tables {
			b.inTurn(live[r], now+b.oneWay, now, func(now time.Duration) { tb.Observe(&v, now) })
		}
	})
}

// T01, T02, T09: 2,000 creates on eight equal hosts that have room for all, by four replicas or
// by one of four, at once or in a second: the load ends even, but for what a view is old by.
func TestCrowdIsEven(t *testing.T) {
	for _, c := range []struct {
		alone        bool
		turn, within time.Duration
		apart        int64
	}{
		{false, time.Millisecond, 0, 2},
		{false, time.Millisecond, time.Second, 1},
		{false, 10 * time.Millisecond, time.Second, 1},
		{false, 50 * time.Millisecond, time.Second, 6},
		{true, time.Millisecond, 0, 1},
		{true, time.Millisecond, time.Second, 2},
		{true, 10 * time.Millisecond, time.Second, 4},
		{true, 50 * time.Millisecond, time.Second, 14},
	} {
		for seed := range uint64(5) {
			ask := stateful(2 * gate.GiB)
			b := crowd{turn: c.turn, alone: c.alone, burst: burst{
				hosts: 8, replicas: 4, creates: 2000, within: c.within, size: 640 * gate.GiB, cores: 16_000, shares: true,
				oneWay: 200 * time.Microsecond, news: 20 * time.Millisecond, ask: ask, rng: query{rand: seed},
			}}
			least, most := b.play()
			what := fmt.Sprintf("one alone %v, turns of %v, within %v, seed %d: %d to %d on a host", c.alone, c.turn, c.within, seed, least, most)
			t.Log(what)
			if b.got.admitted != 2000 || b.got.over > 0 {
				t.Errorf("%s: %+v", what, b.got)
			}
			if most-250 > c.apart || 250-least > c.apart {
				t.Error(what)
			}
		}
	}
}
