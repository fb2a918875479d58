package host_test

import (
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// waives says that a host in shadow says yes all the same. What it has nothing of at all it
// cannot give.
func (m *model) waives(d host.Denial, a gate.Ask) bool {
	switch d {
	case host.NoRoom, host.Pressure, host.StartsFull, host.LacksDim:
		return m.shadow && !m.lacksAltogether(a)
	}
	return false
}

func (m *model) lacksAltogether(a gate.Ask) bool {
	for _, d := range a.Dims {
		if d.N > 0 && want(gate.Ask{Dims: m.cfg.Dims}, d.Name) == 0 {
			return true
		}
	}
	return false
}

// boot lets in what has no reservation: in shadow, and under a bypass as far as there is room.
func (m *model) boot(e host.Boot) host.Denial {
	switch {
	case e.Ask.Memory < 0:
		return host.Invalid
	case !m.shadow && m.bypass == 0:
		return host.NoTicket
	case m.promise(e.ID).id != "":
		return host.Used
	}
	left := m.left()
	for i := range left {
		left[i].N = m.share(e.ID, left[i].N, left[i].N, want(m.stand.ask, left[i].Name))
	}
	need, room := m.reserveOf(e.Ask), m.share(e.ID, m.room(), m.room(), m.stand.need)
	denial := m.refuses(host.Reserve{ID: e.ID, Ask: e.Ask}, need, room, left)
	switch {
	case denial != "" && !m.waives(denial, e.Ask):
		return denial
	case !m.shadow && len(m.limits) > 0 && m.reading.Lost(m.cfg.Marks):
		return host.Pressure
	case !m.shadow && m.count(host.Starting) >= m.cfg.MaxStarts && m.count(host.InLine) >= m.cfg.MaxWaitingStarts:
		return host.StartsFull
	}
	if m.stand.id == e.ID {
		m.stand = aside{}
	}
	e.Ask.HoldOnExit = false
	m.guests = append(m.guests, guest{id: e.ID, epoch: host.UnticketedEpoch, ask: e.Ask, phase: host.InLine})
	return ""
}
