package host

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pressure"
)

// meter is what the last samples said.
type meter struct {
	seen     bool // a sample has come; before that nothing is free
	limits   []gate.Limit
	free     gate.Bytes
	binding  string // the limit with the least room
	headroom gate.Bytes
	reading  pressure.Reading
	growth   trend
}

// sample takes over what was measured and lets the valve look at it.
func (h *Host) sample(e Sample) {
	for _, r := range e.Sandboxes {
		if s := h.sandboxes[r.ID]; s != nil {
			h.see(s, r)
		}
	}
	m := &h.meter
	m.seen = len(e.Limits) > 0 || e.Budget > 0
	m.limits = append(m.limits[:0], e.Limits...)
	if e.Budget > 0 {
		m.limits = append(m.limits, gate.Limit{Name: BudgetLimit, Size: e.Budget, Used: h.resident})
	}
	m.headroom = h.cfg.Headroom
	if m.headroom == 0 {
		m.headroom = gate.DefaultHeadroom(m.limits)
	}
	was := m.binding
	m.free, m.binding = gate.Free(m.limits)
	if m.binding != was {
		m.growth.reset()
	}
	if e.Full {
		m.growth.add(h.now, h.uncovered())
	}
	h.read(e)
}

// BudgetLimit is the name of the limit that an operator set for the agent's own sandboxes.
const BudgetLimit = "budget"

func (h *Host) read(e Sample) {
	m := &h.meter
	m.reading = pressure.Reading{
		Free: m.free, Headroom: m.headroom,
		Spare:  m.free.Sub(h.unresident).Sub(h.ledger.Total()),
		Growth: m.growth.perSecond(),
		PSI:    e.PSI, Some: e.Some, Full: e.FullPSI,
	}
	if m.seen {
		h.valve.Step(h.now, m.reading)
	}
}

// uncovered is the use under the binding limit that no charge answers for: what sandboxes
// hold above their reserve, and whatever else lives under that limit.
func (h *Host) uncovered() gate.Bytes {
	var above gate.Bytes
	for _, s := range h.sandboxes {
		above = above.Add(s.Usage.Resident.Sub(gate.Need(s.Ask, h.cfg.Mode)).Positive())
	}
	for _, l := range h.meter.limits {
		if l.Name == h.meter.binding {
			return above.Add(l.Used.Sub(h.resident).Positive())
		}
	}
	return above
}

// account is what the load line is drawn from.
func (h *Host) account() gate.Account {
	return gate.Account{
		Free: h.meter.free, Headroom: h.meter.headroom,
		Unresident: h.unresident, Reserved: h.ledger.Total(),
	}
}

// trend is the rise of an amount over the last second.
type trend struct {
	at     [trendPoints]Instant
	amount [trendPoints]gate.Bytes
	n      int // points held, oldest first
}

const (
	trendPoints = 24
	trendSpan   = time.Second
)

func (t *trend) reset() { t.n = 0 }

// add notes a point and drops those that are no longer needed to look back one span.
func (t *trend) add(now Instant, amount gate.Bytes) {
	drop := 0
	for drop+1 < t.n && now-t.at[drop+1] >= trendSpan {
		drop++
	}
	if t.n-drop == trendPoints {
		drop++
	}
	copy(t.at[:], t.at[drop:t.n])
	copy(t.amount[:], t.amount[drop:t.n])
	t.n -= drop
	t.at[t.n], t.amount[t.n] = now, amount
	t.n++
}

// perSecond is the rise a second over what is held, zero below half a span of history.
func (t *trend) perSecond() gate.Bytes {
	if t.n < 2 {
		return 0
	}
	span := t.at[t.n-1] - t.at[0]
	if span < trendSpan/2 {
		return 0
	}
	rise := t.amount[t.n-1].Sub(t.amount[0]).Positive()
	return gate.Bytes(float64(rise) / span.Seconds())
}
