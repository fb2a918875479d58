package host_test

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// This file is what the model knows of places that are kept: for the next start of a sandbox
// that ended, and for a waiter.

// keeps says what is promised from now on of a sandbox that is about to end; nothing, if its
// end is for good.
func (m *model) keeps(e host.Done) promise {
	g := m.guest(e.ID)
	if g == nil || g.epoch != e.Epoch || !g.ask.HoldOnExit || g.phase != host.Running {
		return promise{}
	}
	if e.Evicted || g.finally || m.order == host.IntakeDraining || m.told[host.Ref{ID: e.ID, Epoch: e.Epoch}] {
		return promise{}
	}
	need := m.reserveOf(g.ask)
	if need > m.charge(*g) && need-m.charge(*g) > m.admittable() {
		return promise{}
	}
	if p := m.promise(g.id); p.id != "" && p.gen == g.epoch && p.state != "redeemed" {
		return promise{}
	}
	return promise{id: g.id, gen: g.epoch, state: "open", need: need, until: m.now + m.cfg.BootWithin, ask: g.ask, again: true}
}

// aside is what is set aside for a waiter.
type aside struct {
	id    string
	ask   gate.Ask
	need  int64
	until host.Instant
}

// share is what one may have, of what was free and now is, for it holds nothing any more:
// what it held, and of the rest what is not set aside for another.
func (m *model) share(id string, was, is, aside int64) int64 {
	if m.stand.id == "" || m.stand.id == id {
		return is
	}
	return min(is, is-was+max(0, was-aside))
}

// setAside is what a Stand does.
func (m *model) setAside(e host.Stand) host.Denial {
	need := m.reserveOf(e.Ask)
	switch {
	case e.Ask.Memory < 0:
		return host.Invalid
	case e.Incarnation != incarnation:
		return host.OtherLife
	case e.Until <= m.now:
		return host.LapsedOrNever
	case m.stand.id != "" && m.stand.id != e.ID:
		return host.StandTaken
	case m.guest(e.ID) != nil:
		return host.StillRunning
	case m.promise(e.ID).state == "open":
		return host.Used
	case m.order == host.IntakeDraining:
		return host.Draining
	case m.order == host.IntakeCordoned:
		return host.Cordoned
	}
	for _, d := range m.cfg.Dims {
		if want(e.Ask, d.Name) > d.N {
			return host.LacksDim
		}
	}
	if len(m.limits) == 0 || need > m.smallest()-m.headroom() {
		return host.NoRoom
	}
	until := min(e.Until, m.now+10*time.Second)
	m.stand = aside{id: e.ID, ask: e.Ask, need: need, until: max(until, m.stand.until)}
	return ""
}

// offered is what others than the waiter may have of it.
func (m *model) offered() (left []gate.Dim) {
	for _, d := range m.left() {
		if m.stand.id != "" {
			d.N -= want(m.stand.ask, d.Name)
		}
		left = append(left, gate.Dim{Name: d.Name, N: max(0, d.N)})
	}
	return left
}
