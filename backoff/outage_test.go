package backoff_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/backoff"
)

// outage is one client with many callers, each of which wants one yes, and a gate that answers
// nobody for a while and everybody afterwards.
type outage struct {
	callers int
	lasts   time.Duration
	budget  *backoff.Budget // nil: none
	rng     *rand.Rand

	into int           // retries that were sent into it
	most int           // of them in any one second
	back time.Duration // from its end to the last yes
}

// turn is the next moment of one caller.
type turn struct {
	at      time.Duration
	b       *backoff.Backoff
	retries int
	asks    bool // for a token, and not yet for a sandbox
}

type turns []turn

func (t turns) Len() int           { return len(t) }
func (t turns) Less(i, j int) bool { return t[i].at < t[j].at }
func (t turns) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *turns) Push(x any)        { *t = append(*t, x.(turn)) }
func (t *turns) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

const trip = 5 * time.Millisecond

func (o *outage) play(t *testing.T) {
	t.Helper()
	var due turns
	answered := []time.Duration{}
	perSecond := map[time.Duration]int{}
	for range o.callers {
		at := time.Duration(o.rng.Int64N(int64(time.Second)))
		heap.Push(&due, turn{at: at, b: backoff.New(backoff.Policy{}, noon.Add(at))})
	}
	for due.Len() > 0 {
		next := heap.Pop(&due).(turn)
		now := noon.Add(next.at)
		for o.budget != nil && len(answered) > 0 && answered[0] <= next.at {
			o.budget.Answered(noon.Add(answered[0]))
			answered = answered[1:]
		}
		if next.asks && o.budget != nil && !o.budget.Take(now) {
			next.at += backoff.PutOff(o.rng.Uint64())
			heap.Push(&due, next)
			continue
		}
		if next.at >= o.lasts {
			answered = append(answered, next.at+trip)
			o.back = max(o.back, next.at+trip-o.lasts)
			continue
		}
		if next.retries > 0 {
			o.into++
			perSecond[next.at/time.Second]++
			o.most = max(o.most, perSecond[next.at/time.Second])
		}
		delay, what := next.b.Next(now.Add(trip), backoff.Outcome{}, o.rng.Uint64())
		if what != backoff.Retry {
			t.Fatal("out of patience")
		}
		next.at, next.retries, next.asks = next.at+trip+delay, next.retries+1, true
		heap.Push(&due, next)
	}
}

// A client with a thousand callers, and an outage of 30 s: what the budget changes of what is
// sent into it, and what it costs afterwards. go test -v ./backoff -run AThousandCallers prints it.
func TestAThousandCallersInAnOutage(t *testing.T) {
	for seed := range uint64(5) {
		without := &outage{callers: 1000, lasts: 30 * time.Second, rng: rand.New(rand.NewPCG(seed, 1))}
		without.play(t)
		with := &outage{callers: 1000, lasts: 30 * time.Second, budget: backoff.NewBudget(noon), rng: rand.New(rand.NewPCG(seed, 1))}
		with.play(t)
		t.Logf("full jitter alone: %5d retries into it, %4d in the worst second, all back after %4.1f s", without.into, without.most, without.back.Seconds())
		t.Logf("with the budget:   %5d retries into it, %4d in the worst second, all back after %4.1f s", with.into, with.most, with.back.Seconds())
		if with.into > 10+30 || without.into < 10*with.into {
			t.Errorf("%d retries into an outage of 30 s, %d without a budget", with.into, without.into)
		}
		if with.back > without.back {
			t.Errorf("all were back %s after it, %s without a budget", with.back, without.back)
		}
	}
}
