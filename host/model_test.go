package host_test

import (
	"math/big"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pressure"
)

// model is a host as one would write it at first: lists, every sum taken anew, nothing
// cached. Of the real one it shares the words and the valve, which has a model of its own.
type model struct {
	cfg      host.Config
	now      host.Instant
	promises []promise
	guests   []guest // in the order in which they were redeemed
	limits   []gate.Limit
	whole    []gate.Limit // of the last full sample
	gone     int64        // resident of those that ended since
	history  []use        // of full samples
	valve    *pressure.Valve
	reading  pressure.Reading
	order    host.Intake
	told     map[host.Ref]bool // ends that nobody has written
	stand    aside
	shadow   bool
	bypass   host.Instant // until when; zero: there is none
}

type promise struct {
	id    string
	gen   int64
	state string // open, redeemed, released, lapsed, denied
	need  int64
	until host.Instant
	ask   gate.Ask
	again bool // open since its sandbox ended
}

type guest struct {
	id       string
	epoch    int64
	ask      gate.Ask
	phase    host.Phase
	tracked  host.Instant
	resident int64
	settled  bool
	finally  bool // released or superseded: its end is for good
}

type use struct {
	at      host.Instant
	outside map[string]int64 // limit -> use that no charge covers
}

func newModel(cfg host.Config) *model {
	return &model{cfg: cfg, valve: pressure.NewValve(cfg.Marks), told: map[host.Ref]bool{}}
}

// step says what the answer is, which ends there are, and whose place is kept.
func (m *model) step(now host.Instant, ev host.Event) (denial host.Denial, ends, kept []host.Ref) {
	m.now = max(m.now, now)
	if m.bypass <= m.now {
		m.bypass = 0
	}
	if m.stand.until <= m.now {
		m.stand = aside{}
	}
	ends = m.lapse()
	switch e := ev.(type) {
	case host.Reserve:
		denial = m.reserve(e)
	case host.Renew:
		denial = m.renew(e)
	case host.Release:
		m.release(e)
	case host.Redeem:
		denial = m.redeem(e)
	case host.Track:
		denial = m.track(e)
	case host.Done:
		ref := host.Ref{ID: e.ID, Epoch: e.Epoch}
		again := m.keeps(e)
		denial = m.done(e)
		switch {
		case denial == "" && again.id != "":
			m.write(again)
			kept = append(kept, ref)
		case denial == "":
			ends = append(ends, ref)
		}
	case host.Sample:
		m.sample(e)
	case host.SetIntake:
		m.order = e.Intake
		if m.order != host.IntakeOpen {
			m.stand = aside{}
		}
	case host.SetEnforcement:
		m.shadow = e.To == host.Shadow
	case host.SetBypass:
		m.bypass = 0
		if e.For > 0 {
			m.bypass = m.now + e.For
		}
	case host.Boot:
		denial = m.boot(e)
	case host.Stand:
		denial = m.setAside(e)
	case host.Unstand:
		if m.stand.id == e.ID {
			m.stand = aside{}
		}
	}
	for _, ref := range ends {
		m.told[ref] = true
	}
	m.start()
	return denial, ends, kept
}

func (m *model) lapse() (ends []host.Ref) {
	var kept []promise
	for _, p := range m.promises {
		if p.until <= m.now && p.state == "open" {
			ends = append(ends, host.Ref{ID: p.id, Epoch: p.gen})
			p = promise{id: p.id, gen: p.gen, state: "lapsed", until: m.now + 2*m.cfg.BootWithin}
		}
		if p.until > m.now {
			kept = append(kept, p)
		}
	}
	m.promises = kept
	return ends
}

func (m *model) promise(id string) promise {
	for _, p := range m.promises {
		if p.id == id {
			return p
		}
	}
	return promise{}
}

func (m *model) write(p promise) {
	var kept []promise
	for _, old := range m.promises {
		if old.id != p.id {
			kept = append(kept, old)
		}
	}
	m.promises = append(kept, p)
}

func (m *model) close(id string, gen int64, state string) {
	until := m.now + m.cfg.BootWithin
	if p := m.promise(id); p.gen == gen && p.until > until {
		until = p.until
	}
	m.write(promise{id: id, gen: gen, state: state, until: until + m.cfg.BootWithin})
}

func (m *model) guest(id string) *guest {
	for i := range m.guests {
		if m.guests[i].id == id {
			return &m.guests[i]
		}
	}
	return nil
}

func (m *model) reserve(e host.Reserve) host.Denial {
	p := m.promise(e.ID)
	switch {
	case e.Ask.Memory < 0:
		return host.Invalid
	case e.Incarnation != incarnation:
		return host.OtherLife
	case p.id != "" && p.gen > e.Gen:
		return host.Superseded
	case p.id != "" && p.gen == e.Gen && p.state == "open":
		return ""
	case p.id != "" && p.gen == e.Gen:
		return host.Closed
	case e.Until <= m.now:
		return host.LapsedOrNever
	}
	before, free := m.left(), m.room()
	if p.state == "open" {
		m.close(p.id, p.gen, "released") // it is replaced, whatever comes now
	}
	for i := range before {
		before[i].N = m.share(e.ID, before[i].N, m.left()[i].N, want(m.stand.ask, before[i].Name))
	}
	need := m.reserveOf(e.Ask)
	if denial := m.refuses(e, need, m.share(e.ID, free, m.room(), m.stand.need), before); denial != "" && !m.waives(denial, e.Ask) {
		if g := m.guest(e.ID); g != nil && g.epoch < e.Gen {
			g.finally = true
		}
		m.close(e.ID, e.Gen, "denied")
		return denial
	}
	if m.stand.id == e.ID {
		m.stand = aside{}
	}
	m.write(promise{id: e.ID, gen: e.Gen, state: "open", need: need, until: min(e.Until, m.now+m.cfg.BootWithin), ask: e.Ask})
	return ""
}

func (m *model) refuses(e host.Reserve, need, room int64, dims []gate.Dim) host.Denial {
	switch {
	case m.guest(e.ID) != nil:
		return host.StillRunning
	case m.order == host.IntakeDraining:
		return host.Draining
	case m.order == host.IntakeCordoned:
		return host.Cordoned
	case m.valve.Shut() != pressure.None:
		return host.Pressure
	case m.starts() >= m.cfg.MaxStarts+m.cfg.MaxWaitingStarts:
		return host.StartsFull
	case lacks(e.Ask, dims):
		return host.LacksDim
	case need > max(0, room)>>20<<20 || len(m.limits) == 0:
		return host.NoRoom
	}
	return ""
}

// starts counts those that were promised: none to who was started before.
func (m *model) starts() (n int) {
	for _, p := range m.promises {
		if p.state == "open" && !p.again {
			n++
		}
	}
	for _, g := range m.guests {
		if g.phase != host.Running {
			n++
		}
	}
	return n
}

func lacks(a gate.Ask, left []gate.Dim) bool {
	for _, d := range left {
		if want := want(a, d.Name); want > 0 && want > d.N {
			return true
		}
	}
	return false
}

func (m *model) left() (left []gate.Dim) {
	for _, d := range m.cfg.Dims {
		for _, p := range m.promises {
			if p.state == "open" {
				d.N -= want(p.ask, d.Name)
			}
		}
		for _, g := range m.guests {
			d.N -= want(g.ask, d.Name)
		}
		left = append(left, d)
	}
	return left
}

func want(a gate.Ask, name string) int64 {
	for _, d := range a.Dims {
		if d.Name == name {
			return d.N
		}
	}
	if name == host.SandboxDim {
		return 1
	}
	return 0
}

func (m *model) renew(e host.Renew) host.Denial {
	if e.Incarnation != incarnation {
		return host.OtherLife
	}
	if g := m.guest(e.ID); g != nil && g.epoch == e.Epoch {
		return ""
	}
	p := m.promise(e.ID)
	if p.state != "open" || p.gen != e.Epoch {
		return m.why(e.ID, e.Epoch)
	}
	p.until = max(p.until, min(e.Until, m.now+m.cfg.BootWithin))
	m.write(p)
	return ""
}

func (m *model) release(e host.Release) {
	p := m.promise(e.ID)
	if p.id == "" || p.gen < e.Gen || (p.gen == e.Gen && p.state == "open") {
		m.close(e.ID, e.Gen, "released")
	}
	if g := m.guest(e.ID); g != nil && g.epoch <= e.Gen {
		g.finally = true
	}
}

func (m *model) why(id string, epoch int64) host.Denial {
	p := m.promise(id)
	switch g := m.guest(id); {
	case g != nil && g.epoch == epoch:
		return host.Used
	case p.id == "" || p.gen < epoch || (p.gen == epoch && p.state == "lapsed"):
		return host.LapsedOrNever
	case p.gen > epoch:
		return host.Superseded
	case p.state == "redeemed":
		return host.Used
	}
	return host.Closed
}

func (m *model) redeem(e host.Redeem) host.Denial {
	p := m.promise(e.ID)
	switch {
	case p.state != "open" || p.gen != e.Epoch:
		return m.why(e.ID, e.Epoch)
	case m.order == host.IntakeDraining:
		return host.Draining
	case m.shadow:
	case len(m.limits) > 0 && m.reading.Lost(m.cfg.Marks):
		return host.Pressure
	case m.count(host.Starting) >= m.cfg.MaxStarts && m.count(host.InLine) >= m.cfg.MaxWaitingStarts:
		return host.StartsFull
	case p.again && m.starts() >= m.cfg.MaxStarts+m.cfg.MaxWaitingStarts:
		return host.StartsFull
	}
	m.close(e.ID, e.Epoch, "redeemed")
	m.guests = append(m.guests, guest{id: e.ID, epoch: e.Epoch, ask: p.ask, phase: host.InLine})
	return ""
}

func (m *model) count(phase host.Phase) (n int) {
	for _, g := range m.guests {
		if g.phase == phase {
			n++
		}
	}
	return n
}

// start lets the first in line start while there are starts.
func (m *model) start() {
	for i := range m.guests {
		if m.guests[i].phase == host.InLine && (m.shadow || m.count(host.Starting) < m.cfg.MaxStarts) {
			m.guests[i].phase = host.Starting
		}
	}
}

func (m *model) track(e host.Track) host.Denial {
	g := m.guest(e.ID)
	switch {
	case g == nil || g.epoch != e.Epoch:
		return host.NotSuch
	case g.phase == host.InLine:
		return host.StartsFull
	case g.phase == host.Starting:
		g.phase, g.tracked = host.Running, m.now
	}
	return ""
}

func (m *model) done(e host.Done) host.Denial {
	var kept []guest
	for _, g := range m.guests {
		if g.id != e.ID || g.epoch != e.Epoch {
			kept = append(kept, g)
			continue
		}
		m.gone += g.resident
	}
	if len(kept) == len(m.guests) {
		return host.NotSuch
	}
	m.guests = kept
	for i := range m.limits {
		if m.limits[i].Name == host.BudgetLimit {
			m.limits[i].Used = gate.Bytes(m.residents())
		}
	}
	return ""
}

func (m *model) sample(e host.Sample) {
	for _, r := range e.Sandboxes {
		if g := m.guest(r.ID); g != nil {
			g.resident = int64(r.Bytes)
			g.settled = g.phase == host.Running && m.now-g.tracked >= g.ask.Rule.SettleAfter
		}
	}
	m.limits = slices.Clone(e.Limits)
	if e.Full {
		m.whole, m.gone = slices.Clone(e.Limits), 0
	}
	for i, l := range m.limits { // limits alone free no more than ended sandboxes held
		for _, w := range m.whole {
			if floor := min(max(int64(w.Used)-m.gone, 0), int64(l.Size)); l.Name == w.Name && !e.Full {
				m.limits[i].Used = gate.Bytes(max(int64(l.Used), floor))
			}
		}
	}
	if e.Budget > 0 {
		m.limits = append(m.limits[:len(m.limits):len(m.limits)], gate.Limit{Name: "budget", Size: e.Budget, Used: gate.Bytes(m.residents())})
	}
	if e.Full {
		m.note()
	}
	m.reading = pressure.Reading{
		Free: gate.Bytes(m.free()), Headroom: gate.Bytes(m.headroom()), Spare: gate.Bytes(m.free() - m.unresident() - m.reserved()),
		Growth: gate.Bytes(m.growth()), PSI: e.PSI, Some: e.Some, Full: e.FullPSI,
	}
	m.valve.Step(m.now, m.reading)
}

// note keeps the use under each limit that no charge covers.
func (m *model) note() {
	outside := map[string]int64{}
	for _, l := range m.limits {
		n := max(0, int64(l.Used)-m.residents())
		for _, g := range m.guests {
			n += max(0, g.resident-m.cover(g))
		}
		outside[l.Name] = n
	}
	m.history = append(m.history, use{m.now, outside})
	m.history = m.history[max(0, len(m.history)-24):]
}

// growth compares the last full sample with the newest that is a second older, or the
// oldest there is, under the limit that binds now.
func (m *model) growth() int64 {
	if len(m.history) == 0 {
		return 0
	}
	last := m.history[len(m.history)-1]
	if m.now-last.at > 2*time.Second {
		return 0
	}
	first := m.history[0]
	for _, u := range m.history {
		if last.at-u.at >= time.Second {
			first = u
		}
	}
	span := int64(last.at - first.at)
	if span < int64(time.Second)/2 {
		return 0
	}
	_, binding := gate.Free(m.limits)
	rise := last.outside[binding] - first.outside[binding]
	for _, g := range m.guests {
		if g.resident == 0 {
			rise -= m.charge(g)
		}
	}
	perSecond := new(big.Int).Mul(big.NewInt(max(0, rise)), big.NewInt(int64(time.Second)))
	return perSecond.Quo(perSecond, big.NewInt(span)).Int64()
}

func (m *model) residents() (n int64) {
	for _, g := range m.guests {
		n += g.resident
	}
	return n
}

// reserveOf is the design's sentence: configured where it must be, else what was
// learned, else the larger of a fraction and a floor, never above configured, in whole MiB.
func (m *model) reserveOf(a gate.Ask) int64 {
	n := int64(a.Memory) * a.Rule.Permille / 1000
	if n < int64(a.Rule.Floor) {
		n = int64(a.Rule.Floor)
	}
	if a.Rule.Learned != 0 {
		n = int64(a.Rule.Learned)
	}
	if n > int64(a.Memory) || a.Stateful || m.cfg.Mode == gate.Committed {
		n = int64(a.Memory)
	}
	const mib = 1 << 20
	return (n + mib - 1) / mib * mib
}

func (m *model) cover(g guest) int64 {
	if g.ask.Rule.Until == gate.UntilSettled && g.settled && !g.ask.Stateful && m.cfg.Mode != gate.Committed {
		return 0
	}
	return m.reserveOf(g.ask)
}

func (m *model) charge(g guest) int64 { return max(g.resident, m.cover(g)) }

func (m *model) unresident() (n int64) {
	for _, g := range m.guests {
		n += m.charge(g) - g.resident
	}
	return n
}

func (m *model) reserved() (n int64) {
	for _, p := range m.promises {
		if p.state == "open" {
			n += p.need
		}
	}
	return n
}

func (m *model) free() int64 {
	free := int64(1) << 62
	for _, l := range m.limits {
		free = min(free, int64(l.Size-l.Used))
	}
	return free
}

func (m *model) smallest() int64 {
	smallest := int64(1) << 62
	for _, l := range m.limits {
		smallest = min(smallest, int64(l.Size))
	}
	return smallest
}

func (m *model) headroom() int64 {
	const mib = 1 << 20
	return max((m.smallest()*50/1000+mib-1)/mib*mib, 256*mib)
}

// room is what is left of the load line, below zero when the load has passed it.
func (m *model) room() int64 { return m.free() - m.headroom() - m.unresident() - m.reserved() }

// admittable is what anybody may be promised: not what is set aside.
func (m *model) admittable() int64 {
	if m.order != host.IntakeOpen || m.valve.Shut() != pressure.None || len(m.limits) == 0 {
		return 0
	}
	return max(0, m.room()-m.stand.need) >> 20 << 20
}
