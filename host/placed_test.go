package host

import (
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

// TestPlaced: of an admission that no store keeps, the host says whose it is and how far it
// is, through its boot, its end and a restart of the agent.
func TestPlaced(t *testing.T) {
	h := New(DefaultConfig("h1", 4), 7)
	h.Step(1, Sample{Limits: []gate.Limit{{Name: "machine", Size: 4 * gate.GiB}}, Full: true})
	whose := Identity{Consumer: "alice", Key: "k", Tenant: "alice", Pool: "p", Class: "c"}
	ask := gate.Ask{Class: "c", Memory: 512 * gate.MiB, Rule: gate.DefaultReserveRule()}
	if p := h.Placed("a"); p.Epoch != 0 {
		t.Errorf("before: %+v", p)
	}
	h.Step(2, Reserve{ID: "a", Gen: 1, Ask: ask, Until: DefaultConfig("", 1).BootWithin, Incarnation: 7, Whose: whose})
	p := h.Placed("a")
	if p.Epoch != 1 || !p.Reserved || p.Running || p.Identity != whose || p.Ask.Memory != ask.Memory || p.Until == 0 {
		t.Errorf("reserved: %+v", p)
	}
	h = Restore(DefaultConfig("h1", 4), 7, 3, h.Records())
	if again := h.Placed("a"); again.Identity != whose || !again.Reserved {
		t.Errorf("restored: %+v", again)
	}
	h.Step(4, Redeem{ID: "a", Epoch: 1, Identity: whose})
	if p := h.Placed("a"); !p.Running || p.Reserved || p.Identity != whose {
		t.Errorf("running: %+v", p)
	}
	h.Step(5, Done{ID: "a", Epoch: 1})
	if p := h.Placed("a"); p.Epoch != 1 || p.Running || p.Reserved || p.Identity != whose {
		t.Errorf("ended: %+v", p)
	}
}
