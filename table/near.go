package table

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Room is what one host has for an ask, and what the ask needs there.
type Room struct {
	Host       string
	Why        Reason // Candidate: it takes the ask
	What       string // of Dimension: which
	Mode       gate.Mode
	Admittable gate.Bytes // as its agent said, or net of this replica's unanswered reserves
	Need       gate.Bytes
	MaxAsk     gate.Bytes // the largest need that could ever fit there
	Dims       []DimRoom  // those that the ask takes, and sandbox slots where it declares them
}

// DimRoom is one dimension of a Room.
type DimRoom struct {
	Name       string
	Have, Need int64
}

// Near returns up to n hosts that are heard, open and labelled for the ask, in quarantine or not,
// as Promising finds them: those with the most room first, whether they take it or not. With
// Require it is that host alone, whatever keeps it from the ask. It reads every host.
func (t *Table) Near(now time.Duration, a *gate.Ask, o *PickOptions, n int) []Room {
	q := query{ask: a, opts: o}
	t.prepare(&q)
	if o.Require != "" {
		t.advance(now)
		i, known := t.byID[o.Require]
		if !known || n < 1 {
			return nil
		}
		return []Room{t.roomAt(i, &q)}
	}
	var rooms []Room
	for _, c := range t.Promising(now, a, o, nil, n) {
		rooms = append(rooms, t.roomAt(c.Ref.index, &q))
	}
	return rooms
}

func (t *Table) roomAt(i int32, q *query) Room {
	h := &t.hosts[i]
	r := Room{
		Host: h.id, Mode: h.mode, MaxAsk: t.rests[i].maxAsk,
		Admittable: gate.FromMiB(int64(h.roomFor(q))).Positive(), Need: q.ask.NeedOn(h.mode),
	}
	r.Why, r.What = t.judge(i, q)
	dims := h.dims()
	for k := range dims {
		if d := &dims[k]; q.ask.Takes(d.name) > 0 {
			r.Dims = append(r.Dims, DimRoom{Name: d.name, Have: max(d.left(q), 0), Need: q.ask.Takes(d.name)})
		}
	}
	return r
}
