package pool

import (
	"testing"
	"time"
)

// What no host holds has nowhere to move from, and keeps its ticket.
func TestMoveWithoutHost(t *testing.T) {
	m := NewModel()
	m.Advance(start)
	m.Configure(Settings{Pools: map[string]Limits{"p": {Cap: 1, Audience: "cloud", SlotTTL: time.Minute}}, DefaultQuota: Unlimited})
	c := m.Claim(Claim{ID: "a", Consumer: "c", Key: "k", Pool: "p", Mode: Refuse})
	m.Advance(start.Add(time.Hour))
	if r, ok := m.Move("a", c.Row.Epoch, true); ok || r != c.Row {
		t.Errorf("moved: %+v", r)
	}
	if err := m.CheckInvariants(); err != nil {
		t.Error(err)
	}
}
