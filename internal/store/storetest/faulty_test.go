package storetest

import (
	"errors"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// A fault before a call leaves nothing; one after it leaves the row and loses the answer.
func TestFaulty(t *testing.T) {
	clock := NewClock()
	s := Faulty(NewMemory(clock.Now), Fault{"Claim", 1, false}, Fault{"Claim", 2, true})
	Configure(t, s, OnePool(5, 5))
	for i, want := range []struct {
		err  error
		busy int
	}{{ErrInjected, 0}, {ErrInjected, 1}, {nil, 2}} {
		c, err := s.Claim(t.Context(), newClaim(i))
		if !errors.Is(err, want.err) || (err == nil) != (c.Verdict == pool.Granted) || busy(t, s) != want.busy {
			t.Errorf("claim %d: %v %v, busy %d", i, c.Verdict, err, busy(t, s))
		}
	}
	if s.Calls("Claim") != 3 {
		t.Errorf("%d calls", s.Calls("Claim"))
	}
}

// The model in memory passes what is asked of stores that can be closed and opened again.
func TestMemory(t *testing.T) {
	fresh := func() Opened {
		clock := NewClock()
		kept := NewMemory(clock.Now)
		return Opened{Clock: clock, Open: func(testing.TB) control.Store { return kept }}
	}
	for name, part := range map[string]func(*testing.T, Opened){
		"config": testConfig, "list": testList, "not loaded": testNotLoaded, "last slot": testLastSlot,
		"quota over pools": testQuotaOverPools, "same key": testSameKey, "churn": testChurn, "crowd": testCrowd,
		"burst against a share": testBurstAgainstAShare,
	} {
		t.Run(name, func(t *testing.T) { part(t, fresh()) })
	}
}
