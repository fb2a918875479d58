// Package played is a host in virtual time: package host, and sandboxes that live on it as runs
// did, second by second. What plays hosts (sim density, sim regimes) shares it, so that leaving,
// starting, measuring and being admitted are written once.
//
// It decides nothing: who is admitted, charged or told to go is package host's word, and who is
// asked for when is the player's. A Host has one owner and is not safe for concurrent use.
package played

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// incarnation is the only one that a played host has.
const incarnation = 1

// bootWithin is how long a reservation stands; here it is redeemed at once.
const bootWithin = time.Minute

// Host is one host, and what lives there.
type Host struct {
	*host.Host
	Now      host.Instant
	Lives    []Sandbox  // in the order in which they were admitted
	Resident gate.Bytes // Σ over them in this second
	Boots    bool       // a start takes until the next second, else no time

	sample host.Sample
}

// Sandbox is one that was admitted and has not ended.
type Sandbox struct {
	ID    string
	Epoch int64
	Of    int // the player's own number for it
	Life  Life
	Age   int        // seconds that it was seen in
	Holds gate.Bytes // in this second

	started, tracked bool
}

// New is an empty machine with so much memory.
func New(cfg host.Config, memory gate.Bytes, boots bool) *Host {
	return &Host{
		Host: host.New(cfg, incarnation), Boots: boots,
		sample: host.Sample{Limits: []gate.Limit{{Name: "machine", Size: memory}}, Full: true},
	}
}

// Memory is how much the machine has.
func (h *Host) Memory() gate.Bytes { return h.sample.Limits[0].Size }

// Limits are what the machine has, as a sample tells it.
func (h *Host) Limits() []gate.Limit { return h.sample.Limits }

// Leave ends the sandboxes whose lives are over, and tells each.
func (h *Host) Leave(told func(*Sandbox)) error {
	stay := h.Lives[:0]
	for i := range h.Lives {
		if s := &h.Lives[i]; s.Age < s.Life.Seconds {
			stay = append(stay, *s)
			continue
		}
		gone := h.Lives[i] // its place may be another's by now
		told(&gone)
		if err := h.end(&gone, host.Done{}); err != nil {
			return err
		}
	}
	h.Lives = stay
	return nil
}

// Remove ends a sandbox before its time, as how says.
func (h *Host) Remove(i int, how host.Done) error {
	s := h.Lives[i]
	h.Lives = append(h.Lives[:i], h.Lives[i+1:]...)
	h.Resident -= s.Holds
	return h.end(&s, how)
}

func (h *Host) end(s *Sandbox, how host.Done) error {
	how.ID, how.Epoch = s.ID, s.Epoch
	if err := h.step(how); err != nil {
		return err
	}
	return h.step(host.Acked{ID: s.ID, Epoch: s.Epoch})
}

// Track gives the starts back that were begun before, and tells each; whoever waits for one begins.
func (h *Host) Track(told func(*Sandbox)) error {
	begun := 0
	for begun < len(h.Lives) && h.Lives[begun].started {
		begun++
	}
	for i := range begun {
		s := &h.Lives[i]
		if s.tracked {
			continue
		}
		s.tracked = true
		told(s)
		if err := h.step(host.Track{ID: s.ID, Epoch: s.Epoch}); err != nil {
			return err
		}
	}
	return nil
}

// Touch lets every sandbox that has started hold what it holds in this second of its life.
func (h *Host) Touch() {
	h.Resident = 0
	for i := range h.Lives {
		s := &h.Lives[i]
		if !s.tracked {
			continue
		}
		s.Holds = s.Life.At(s.Age)
		s.Age++
		h.Resident += s.Holds
	}
}

// Measure is the agent's sample of what Touch made of this second. It returns the ids of whoever
// has to go for it, and which of them went is the player's to say.
func (h *Host) Measure() (evicted []string, err error) {
	h.sample.Sandboxes = h.sample.Sandboxes[:0]
	for i := range h.Lives {
		if s := &h.Lives[i]; s.tracked {
			h.sample.Sandboxes = append(h.sample.Sandboxes, host.Resident{ID: s.ID, Bytes: s.Holds, CPU: unknown})
		}
	}
	h.sample.Limits[0].Used = h.Resident
	fx := h.Step(h.Now, h.sample)
	for _, e := range fx.Evictions {
		evicted = append(evicted, e.ID)
	}
	return evicted, h.heed(h.sample, fx)
}

// unknown is the work of a sandbox: runs tell what they held, not what they did.
const unknown = -1

// Admit asks for a sandbox, and redeems what is given at once. A denial is the host's answer; an
// error is that it did not keep its word.
func (h *Host) Admit(s Sandbox, ask gate.Ask) (host.Denial, error) {
	reserve := host.Reserve{ID: s.ID, Gen: s.Epoch, Ask: ask, Until: h.Now + bootWithin, Incarnation: incarnation}
	if denial := h.Step(h.Now, reserve).Answer.Denial; denial != "" {
		return denial, nil
	}
	fx := h.Step(h.Now, host.Redeem{ID: s.ID, Epoch: s.Epoch})
	s.started, s.tracked = !fx.Answer.InLine, !h.Boots
	h.Lives = append(h.Lives, s)
	if err := h.heed(host.Redeem{}, fx); err != nil || h.Boots {
		return "", err
	}
	return "", h.step(host.Track{ID: s.ID, Epoch: s.Epoch})
}

// step steps the host. Whatever it denies here it had said before that it would not.
func (h *Host) step(ev host.Event) error { return h.heed(ev, h.Step(h.Now, ev)) }

// heed does what a step asks for.
func (h *Host) heed(ev host.Event, fx host.Effects) error {
	if a := fx.Answer; a.Denial != "" {
		return fmt.Errorf("the host denies %T: %s %s", ev, a.Denial, a.Detail)
	}
	for _, ref := range fx.Starts {
		for i := range h.Lives {
			if h.Lives[i].ID == ref.ID {
				h.Lives[i].started = true
			}
		}
	}
	return nil
}
