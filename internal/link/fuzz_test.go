package link

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
)

type agentVerdict struct{ host.Verdict }

// fuzzAsks has a host take what a frame asks, and looks that it is as sound as before.
func fuzzAsks(t *testing.T, f *agentv1.ReplicaFrame) {
	h := host.New(host.DefaultConfig("h1", 2), life)
	h.Step(0, host.Sample{Limits: []gate.Limit{{Name: "machine", Size: gate.GiB}}, Full: true, Sandboxes: []host.Resident{}})
	for i, a := range f.GetAsks() {
		var p place
		if _, look := p.look(&kernel{}, a); look != nil {
			look(h)
			p.finish(new(agentv1.Answer))
			continue
		}
		ev, err := eventOf(a)
		if err != nil {
			continue
		}
		h.Step(time.Duration(i)*time.Millisecond, ev)
		if err := h.CheckInvariants(); err != nil {
			t.Fatalf("%#v: %v", ev, err)
		}
	}
}

// fuzzWords has a replica's end take what a host says.
func fuzzWords(f *agentv1.AgentFrame) {
	checkHello(f.GetHello())
	c := &Conn{
		host: "h1", incarnation: f.GetVerdict().GetStamp().GetIncarnation(), feed: agent.NewFeed(), words: listener{host: "h1"},
		calls: map[uint64]chan<- result{}, heldOnce: make(chan struct{}), changed: func() {},
	}
	for _, a := range f.GetAnswers() {
		c.calls[a.GetId()] = make(chan result, 1)
	}
	if err := c.hear(f); err == nil && f.GetNews() && f.GetVerdict() != nil {
		c.feed.Take()
	}
	for _, a := range f.GetAnswers() {
		answerFrom(a, host.Verdict{})
		heldFrom(a.GetHeld())
		viewFrom(a.GetView(), host.Verdict{})
		if lore, err := loreFrom(a.GetLore()); err == nil {
			loreOf(&lore)
		}
	}
}
