// Package storetest is what every store must pass: the same steps as pool.Model with the
// same clock, compared after each one, and crowds of callers whom no model can follow but
// whose sum is known.
package storetest

import (
	"context"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Opened is one empty database under test.
type Opened struct {
	Clock *Clock
	// Open opens the database, again if it was open before, and runs its writer until the
	// test ends. A store of one writer closes the former one first.
	Open func(testing.TB) control.Store
	// Halting opens the database for a store that stops in the middle of its transactions now
	// and then, for longer than the server waits for it; nil: there is none.
	Halting func(testing.TB) control.Store
	// Disturb does to the database, once, what production does; nil: nothing.
	Disturb func(testing.TB)
	// Shared says that several stores may be open on the database at once.
	Shared bool
}

// Run holds a store to the contract. fresh makes an empty database.
func Run(t *testing.T, fresh func(testing.TB) Opened) {
	t.Run("model", func(t *testing.T) { Compare(t, fresh) })
	t.Run("config", func(t *testing.T) { testConfig(t, fresh(t)) })
	t.Run("list", func(t *testing.T) { testList(t, fresh(t)) })
	t.Run("reopen", func(t *testing.T) { testReopen(t, fresh(t)) })
	t.Run("not loaded", func(t *testing.T) { testNotLoaded(t, fresh(t)) })
	t.Run("last slot", func(t *testing.T) { testLastSlot(t, fresh(t)) })
	t.Run("quota over pools", func(t *testing.T) { testQuotaOverPools(t, fresh(t)) })
	t.Run("same key", func(t *testing.T) { testSameKey(t, fresh(t)) })
	t.Run("churn below the cap", func(t *testing.T) { testChurn(t, fresh(t)) })
	t.Run("crowd", func(t *testing.T) { testCrowd(t, fresh(t)) })
	t.Run("burst against a share", func(t *testing.T) { testBurstAgainstAShare(t, fresh(t)) })
	t.Run("linear", func(t *testing.T) { testLinear(t, fresh(t)) })
	t.Run("note once", func(t *testing.T) { testNoteOnce(t, fresh(t)) })
	t.Run("join once", func(t *testing.T) { testJoinOnce(t, fresh(t)) })
	t.Run("bury", func(t *testing.T) { testBury(t, fresh(t)) })
	t.Run("observed", func(t *testing.T) { testObserved(t, fresh(t)) })
	t.Run("learned", func(t *testing.T) { testLearned(t, fresh(t)) })
	t.Run("decisions", func(t *testing.T) { testDecisions(t, fresh(t)) })
	t.Run("left", func(t *testing.T) { testLeft(t, fresh(t)) })
	t.Run("outage", func(t *testing.T) { testOutage(t, fresh(t)) })
	t.Run("gone callers", func(t *testing.T) { testGoneCallers(t, fresh(t)) })
	t.Run("close", func(t *testing.T) { testClose(t, fresh(t)) })
}

// Configure puts limits in force as the next generation.
func Configure(t testing.TB, s control.Store, limits pool.Settings) {
	t.Helper()
	c, err := s.Config(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Apply(context.Background(), c, limits); err != nil || !ok {
		t.Fatalf("apply: %v %v", ok, err)
	}
}

// OnePool are the limits of a single pool and no quota.
func OnePool(cap, maxWaiting int64) pool.Settings {
	return pool.Settings{Pools: map[string]pool.Limits{"p": {Cap: cap, MaxWaiting: maxWaiting}}, DefaultQuota: pool.Unlimited}
}
