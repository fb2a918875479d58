package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// The specification itself has linear histories.
func TestMemoryIsLinear(t *testing.T) {
	clock := NewClock()
	testLinear(t, Opened{Clock: clock, Open: func(testing.TB) control.Store { return NewMemory(clock.Now) }})
}

// liar is a store that answers wrongly now and then.
type liar struct {
	control.Store
	claim  func(pool.Claimed) pool.Claimed
	redeem func(pool.RedeemVerdict) pool.RedeemVerdict
	leave  bool // says that it released what it did not
}

func (l *liar) Claim(ctx context.Context, c pool.Claim) (pool.Claimed, error) {
	got, err := l.Store.Claim(ctx, c)
	if l.claim != nil {
		got = l.claim(got)
	}
	return got, err
}

func (l *liar) Redeem(ctx context.Context, d pool.Redemption) (pool.RedeemVerdict, pool.Row, error) {
	v, r, err := l.Store.Redeem(ctx, d)
	if l.redeem != nil {
		v = l.redeem(v)
	}
	return v, r, err
}

func (l *liar) Leave(ctx context.Context, id string, of pool.Passage) (pool.Row, bool, error) {
	if !l.leave {
		return l.Store.Leave(ctx, id, of)
	}
	r, ok, err := l.Store.ByID(ctx, id)
	r.State = pool.Released
	return r, ok, err
}

// A store that lies is found out by what its callers saw.
func TestLiarsAreFound(t *testing.T) {
	for name, l := range map[string]*liar{
		"a full pool grants":          {claim: func(c pool.Claimed) pool.Claimed { return lie(c, pool.PoolFull, pool.Granted) }},
		"what is there is granted":    {claim: func(c pool.Claimed) pool.Claimed { return lie(c, pool.Existing, pool.Granted) }},
		"a free pool refuses":         {claim: func(c pool.Claimed) pool.Claimed { return lie(c, pool.Granted, pool.PoolFull) }},
		"a ticket boots twice":        {redeem: func(v pool.RedeemVerdict) pool.RedeemVerdict { return lieOf(v, pool.RedeemReplayed) }},
		"a released ticket boots":     {redeem: func(v pool.RedeemVerdict) pool.RedeemVerdict { return lieOf(v, pool.RedeemReleased) }},
		"a superseded ticket boots":   {redeem: func(v pool.RedeemVerdict) pool.RedeemVerdict { return lieOf(v, pool.RedeemSuperseded) }},
		"a release that did not last": {leave: true},
	} {
		l.Store = NewMemory(NewClock().Now)
		banks, settings := linearBanks(30)
		Configure(t, l, settings)
		if got := explained(banks, record([]control.Store{l}, banks)); got != porcupine.Illegal {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func lie(c pool.Claimed, from, to pool.Verdict) pool.Claimed {
	if c.Verdict == from {
		c.Verdict = to
	}
	return c
}

func lieOf(v, from pool.RedeemVerdict) pool.RedeemVerdict {
	if v == from {
		return pool.Redeemed
	}
	return v
}

// Histories by hand: what an unknown outcome may explain, and what it may not.
func TestUnknownOutcomes(t *testing.T) {
	banks := []bank{{cap: 1}}
	claim := func(key int, from, to int64, o outcome) porcupine.Operation {
		return porcupine.Operation{Input: call{key: key, do: "claim"}, Call: from, Return: to, Output: o}
	}
	granted := outcome{word: string(pool.Granted), state: pool.Placing, gen: 7}
	full, never := outcome{word: string(pool.PoolFull)}, int64(1)<<40
	unknown := outcome{unknown: true}
	for name, c := range map[string]struct {
		history []porcupine.Operation
		want    porcupine.CheckResult
	}{
		"it happened":         {[]porcupine.Operation{claim(0, 1, never, unknown), claim(1, 2, 3, full)}, porcupine.Ok},
		"it did not":          {[]porcupine.Operation{claim(0, 1, never, unknown), claim(1, 2, 3, granted)}, porcupine.Ok},
		"it happened later":   {[]porcupine.Operation{claim(0, 1, never, unknown), claim(1, 2, 3, granted), claim(0, 4, 5, full)}, porcupine.Ok},
		"nothing explains it": {[]porcupine.Operation{claim(1, 2, 3, full), claim(0, 4, never, unknown)}, porcupine.Illegal},
		"both at once":        {[]porcupine.Operation{claim(0, 1, 2, granted), claim(1, 1, 2, granted)}, porcupine.Illegal},
	} {
		if got := porcupine.CheckOperationsTimeout(bankModel(banks), c.history, time.Minute); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
