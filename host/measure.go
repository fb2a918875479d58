package host

import (
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pressure"
)

// BudgetLimit is the name of the limit that an operator set for the agent's own sandboxes.
const BudgetLimit = "budget"

// meter is what the last samples said.
type meter struct {
	seen     bool // a sound sample has come; before that nothing is free
	limits   []gate.Limit
	free     gate.Bytes
	binding  string // the limit with the least room
	headroom gate.Bytes
	reading  pressure.Reading
	whole    []gate.Limit // as the last full sample had them
	gone     gate.Bytes   // resident of sandboxes that ended since
	under    string       // the cgroup whose growth since is told
	left     gate.Bytes   // of gone, what was in there
	growth   []trend      // of each limit: the use under it that no charge answers for
	refaults Counter      // of the whole machine
	dims     []gate.Dim   // units of declared dimensions that nobody has, where that was measured
}

// sample takes over what was measured and lets the valve look at it. What cannot be a
// measurement is refused whole, and until a sound one comes nothing is free.
func (h *Host) sample(e Sample) {
	if fault := e.fault(); fault != "" {
		h.meter.seen, h.meter.limits, h.meter.free = false, h.meter.limits[:0], 0
		h.answer(Answer{Denial: Invalid, Detail: fault})
		return
	}
	for _, r := range e.Sandboxes {
		if s := h.sandboxes[r.ID]; s != nil {
			h.see(s, r)
		}
	}
	if e.Full {
		h.recount(e.Counted)
	}
	h.measure(e)
	if !h.meter.seen {
		return
	}
	if e.Full {
		h.watchGrowth()
	}
	h.read(e)
	h.valve.Step(h.now, h.meter.reading)
	if e.Full {
		h.weigh()
	}
	h.reclaim(e.Full)
}

// recount lets a reservation promise nothing beside what the limits have of it already, and all
// of its need again once they no longer do. A restarted agent begins with the whole.
func (h *Host) recount(ids []string) {
	for id := range h.counted {
		h.counted[id] = false
	}
	for _, id := range ids {
		if _, open := h.ledger.Open(id); open {
			h.ledger.Restate(id, 0, 0)
			h.counted[id] = true
		}
	}
	for id, still := range h.counted {
		if still {
			continue
		}
		delete(h.counted, id)
		if e, open := h.ledger.Open(id); open {
			h.ledger.Restate(id, gate.Need(e.Ask, h.cfg.Mode), gate.Need(e.Ask, h.cfg.Mode.Other()))
		}
	}
}

// fault names the figure that is no measurement, or "".
func (e *Sample) fault() string {
	for _, l := range e.Limits {
		if l.Size < 0 || l.Used < 0 {
			return l.Name
		}
	}
	for _, r := range e.Sandboxes {
		if r.Bytes < 0 || r.Bytes > gate.PiB || r.Swapped < 0 || r.FileCache < 0 || faulty(r.Dims) {
			return r.ID
		}
	}
	if faulty(e.Dims) {
		return "dimensions"
	}
	switch {
	case e.Budget < 0:
		return BudgetLimit
	case e.Some < 0 || e.FullPSI < 0:
		return "psi"
	}
	return ""
}

func faulty(dims []gate.Dim) bool {
	return slices.ContainsFunc(dims, func(d gate.Dim) bool { return d.N < 0 || d.N > maxUnits })
}

// maxUnits is more than any dimension has, so that no sum of them can wrap.
const maxUnits = 1 << 50

// measure takes the limits over, the operator's budget as one more.
func (h *Host) measure(e Sample) {
	m := &h.meter
	m.limits = append(m.limits[:0], e.Limits...)
	if e.Full {
		m.whole, m.gone = append(m.whole[:0], e.Limits...), 0
		m.dims, m.refaults = append(m.dims[:0], e.Dims...), e.Refaults
		m.under, m.left, e.Grown = e.Under, 0, 0
	} else {
		m.distrust()
	}
	if e.Budget > 0 {
		grown := e.Grown.Add(m.left).Positive()
		m.limits = append(m.limits, gate.Limit{Name: BudgetLimit, Size: e.Budget, Used: h.inBudget().Add(grown)})
	}
	m.seen = len(m.limits) > 0
	m.free, m.binding = gate.Free(m.limits)
	m.headroom = h.cfg.Headroom
	if m.headroom <= 0 {
		m.headroom = gate.DefaultHeadroom(m.limits)
	}
}

// leave brings the budget up to date when a sandbox ended: its use is the agent's own sum,
// so nobody has to wait for a sample to be told yes.
func (m *meter) leave(s *Sandbox) {
	m.gone += s.Usage.Resident
	if m.under != "" && strings.HasPrefix(s.Process.Cgroup, m.under+"/") {
		m.left += s.Usage.Resident
	}
	m.spends(-s.Usage.Resident)
}

// spends adds to what counts against the budget, or takes it out again.
func (m *meter) spends(more gate.Bytes) {
	for i := range m.limits {
		if m.limits[i].Name == BudgetLimit {
			m.limits[i].Used = m.limits[i].Used.Add(more).Positive()
			m.free, m.binding = gate.Free(m.limits)
		}
	}
}

// distrust keeps a sample of limits alone from freeing more than ended sandboxes held:
// what a running one gave back is still counted as resident, and would be promised twice
// until the next full sample.
func (m *meter) distrust() {
	for i := range m.limits {
		for _, w := range m.whole {
			if l := &m.limits[i]; l.Name == w.Name {
				l.Used = max(l.Used, min(w.Used.Sub(m.gone).Positive(), l.Size))
			}
		}
	}
}

// read makes of the account what the valve looks at.
func (h *Host) read(e Sample) {
	m := &h.meter
	m.reading = pressure.Reading{
		Free: m.free, Headroom: m.headroom,
		Spare:  m.free.Sub(h.unresident).Sub(h.ledger.Total()),
		Growth: h.growth(),
		PSI:    e.PSI, Some: e.Some, Full: e.FullPSI,
	}
}

// watchGrowth notes, under each limit, the use that no charge answers for: what sandboxes
// hold above their cover, and whatever else lives there. Each limit has its own history,
// so one that binds by turns with another forgets nothing.
func (h *Host) watchGrowth() {
	m := &h.meter
	var above gate.Bytes
	for _, s := range h.sandboxes {
		above = above.Add(s.Usage.Resident.Sub(gate.Cover(s.Ask, h.cfg.Mode, s.Usage)).Positive())
	}
	if len(m.growth) != len(m.limits) {
		m.growth = make([]trend, len(m.limits))
	}
	for i, l := range m.limits {
		if m.growth[i].of != l.Name {
			m.growth[i] = trend{of: l.Name}
		}
		m.growth[i].add(h.now, above.Add(l.Used.Sub(h.resident).Positive()))
	}
}

// growth is the rise a second, under the binding limit, that no charge covers. A boot that
// no sample has seen yet grows as other use, within what it is charged.
func (h *Host) growth() gate.Bytes {
	for i := range h.meter.growth {
		if t := &h.meter.growth[i]; t.of == h.meter.binding && t.perSecond(h.now, 0) > 0 {
			return t.perSecond(h.now, h.unseen())
		}
	}
	return 0
}

// unseen is what boots that no sample has seen yet may grow by.
func (h *Host) unseen() (sum gate.Bytes) {
	for _, s := range h.sandboxes {
		if s.Usage.Resident == 0 {
			sum = sum.Add(s.unresident)
		}
	}
	return sum
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
	of     string // the limit's name
	at     [trendPoints]Instant
	amount [trendPoints]gate.Bytes
	n      int // points held, oldest first
}

const (
	trendPoints = 24
	trendSpan   = time.Second
)

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

// perSecond is the rise a second over what is held, beyond what is covered; zero below
// half a span of history, or when the last point is stale: a rate of long ago would keep a
// host shut for as long as its sandboxes cannot be read.
func (t *trend) perSecond(now Instant, covered gate.Bytes) gate.Bytes {
	if t.n < 2 || now-t.at[t.n-1] > 2*trendSpan {
		return 0
	}
	span := t.at[t.n-1] - t.at[0]
	if span < trendSpan/2 {
		return 0
	}
	rise := t.amount[t.n-1].Sub(t.amount[0]).Sub(covered).Positive()
	return rise.Scale(int64(time.Second), int64(span))
}
