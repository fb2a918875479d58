package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// The histories: so many callers make so many calls each, in each of several rounds with
// pools of their own.
const (
	linearRounds  = 6
	linearCallers = 6
	linearCalls   = 24
	linearPeace   = 200 * time.Millisecond // between two disturbances
	linearFor     = 20 * time.Second       // to explain all of them; they take far less
)

// testLinear has callers claim, renew and release through several stores at once, while
// their contexts end, connections break and a store stops in the middle of its transactions.
// Each history must be one that a bank could have had in some order.
func testLinear(t *testing.T, o Opened) {
	stores := o.stores(t)
	if o.Halting != nil {
		stores = append(stores, o.Halting(t))
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for o.Disturb != nil {
			select {
			case <-stop:
				return
			case <-time.After(linearPeace):
				o.Disturb(t)
			}
		}
	}()
	banks, settings := linearBanks(linearRounds)
	Configure(t, stores[0], settings)
	history := record(stores, banks)
	close(stop)
	<-ended
	mustBeLinear(t, banks, history)
}

// linearBanks are two pools a round: one on hosts, and one without.
func linearBanks(rounds int) (banks []bank, s pool.Settings) {
	s = pool.Settings{Pools: map[string]pool.Limits{}, DefaultQuota: pool.Unlimited}
	for i := range 2 * rounds {
		b := bank{cap: 2, audience: i%2 == 1}
		l := pool.Limits{Cap: int64(b.cap)}
		if b.audience {
			l.Audience, l.SlotTTL, l.TicketTTL = "cloud", time.Hour, time.Hour
		}
		s.Pools[poolName(i)] = l
		banks = append(banks, b)
	}
	return banks, s
}

func poolName(i int) string { return fmt.Sprintf("pool%02d", i) }

// record lets the callers loose, one round after the other.
func record(stores []control.Store, banks []bank) []porcupine.Operation {
	var mu sync.Mutex // guards history
	var history []porcupine.Operation
	began := time.Now()
	for round := range len(banks) / 2 {
		crowd(linearCallers, func(i int) {
			c := &caller{
				store: stores[i%len(stores)], began: began, round: round, id: i,
				random: rand.New(rand.NewPCG(uint64(round), uint64(i))),
			}
			c.run(banks)
			mu.Lock()
			defer mu.Unlock()
			history = append(history, c.history...)
		})
	}
	return history
}

// caller makes calls and notes what they answered.
type caller struct {
	store   control.Store
	began   time.Time
	round   int
	id      int
	random  *rand.Rand
	seen    [2][bankKeys][]int64 // the generations of each key that it was told, in that order
	history []porcupine.Operation
}

func (c *caller) run(banks []bank) {
	for range linearCalls {
		which, key := c.random.IntN(2), c.random.IntN(bankKeys)
		in := call{pool: 2*c.round + which, key: key, do: "claim", gen: c.generation(c.seen[which][key]), instance: fmt.Sprint("i", c.random.IntN(2))}
		if in.gen > 0 {
			calls := []string{"claim", "settle", "settle", "renew", "leave", "end"}
			if banks[in.pool].audience {
				calls = []string{"claim", "hear", "redeem", "redeem", "leave", "leave"}
			}
			in.do = calls[c.random.IntN(len(calls))]
		}
		c.call(in)
	}
}

// generation is most often the newest, and zero when there is none.
func (c *caller) generation(seen []int64) int64 {
	switch {
	case len(seen) == 0:
		return 0
	case c.random.IntN(6) == 0:
		return seen[c.random.IntN(len(seen))]
	}
	return seen[len(seen)-1]
}

// call makes one call; now and then the caller goes while it is under way.
func (c *caller) call(in call) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if c.random.IntN(8) == 0 {
		gone := time.AfterFunc(time.Duration(c.random.IntN(2000))*time.Microsecond, cancel)
		defer gone.Stop()
	}
	op := porcupine.Operation{ClientId: c.id, Input: in, Call: int64(time.Since(c.began))}
	out, err := c.ask(ctx, in)
	op.Output, op.Return = out, int64(time.Since(c.began))
	if err != nil { // it may have happened, or may still
		op.Output, op.Return = outcome{unknown: true}, math.MaxInt64
	}
	if seen := &c.seen[in.pool%2][in.key]; out.gen > 0 {
		*seen = append(*seen, out.gen)
	}
	c.history = append(c.history, op)
}

func (c *caller) ask(ctx context.Context, in call) (outcome, error) {
	id := fmt.Sprint(poolName(in.pool), "-", in.key)
	switch in.do {
	case "claim":
		got, err := c.store.Claim(ctx, pool.Claim{ID: id, Consumer: "c", Key: id, Pool: poolName(in.pool), Mode: pool.Refuse})
		if got.Verdict == pool.PoolFull {
			return outcome{word: string(got.Verdict)}, err
		}
		return told(string(got.Verdict), got.Row), err
	case "settle":
		r, ok, err := c.store.Settle(ctx, id, in.gen, "h1", time.Hour)
		return told(yes(ok), r), err
	case "renew":
		r, ok, err := c.store.Renew(ctx, id, in.gen, time.Hour)
		return told(yes(ok), r), err
	case "hear":
		r, ok, err := c.store.Hear(ctx, id, in.gen)
		return told(yes(ok), r), err
	case "redeem":
		v, r, err := c.store.Redeem(ctx, pool.Redemption{
			ID: id, Epoch: in.gen, Audience: "cloud", Expires: math.MaxInt64 / 2, Instance: in.instance,
		})
		return told(string(v), r), err
	case "leave":
		r, ok, err := c.store.Leave(ctx, id, pool.Passage{})
		return told(yes(ok), r), err
	}
	written, again, err := c.store.End(ctx, id, in.gen, pool.Released, "")
	if again {
		return outcome{word: "again"}, err
	}
	return outcome{word: yes(written)}, err
}

func told(word string, r pool.Row) outcome {
	return outcome{word: word, state: r.State, gen: r.Gen, epoch: r.Epoch}
}

func mustBeLinear(t *testing.T, banks []bank, history []porcupine.Operation) {
	t.Helper()
	unknown := 0
	for _, op := range history {
		if op.Output.(outcome).unknown {
			unknown++
		}
	}
	t.Logf("%d calls, of %d the outcome is unknown", len(history), unknown)
	for i := range banks {
		part := slices.DeleteFunc(slices.Clone(history), func(op porcupine.Operation) bool { return op.Input.(call).pool != i })
		if got := explained(banks, part); got != porcupine.Ok {
			t.Errorf("%s: %s:\n%s", poolName(i), got, tale(part))
		}
	}
}

func explained(banks []bank, history []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(bankModel(banks), history, linearFor)
}

// tale is a history for people, by the order of the calls.
func tale(history []porcupine.Operation) (text string) {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, op := range history {
		text += fmt.Sprintf("%9d-%-9d caller %d: %+v -> %+v\n", op.Call/1000, op.Return/1000, op.ClientId, op.Input, op.Output)
	}
	return text
}
