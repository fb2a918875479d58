package table

import (
	"slices"
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

// mostShut is how many cordoned hosts Near adds.
const mostShut = 2

// Near returns up to n hosts that are heard, open and labelled for the ask, in quarantine or not:
// those that lack the least of it first, whether they lack any of it or not. After them come a few
// that are cordoned and would take it, were they open: of these Admittable is what they have then.
// With Require it is that host alone, whatever keeps it from the ask. It reads every host.
func (t *Table) Near(now time.Duration, a *gate.Ask, o *PickOptions, n int) []Room {
	t.advance(now)
	q := query{ask: a, opts: o, lenient: true}
	t.prepare(&q)
	if o.Require != "" {
		i, known := t.byID[o.Require]
		if !known || n < 1 {
			return nil
		}
		return []Room{t.roomAt(i, &q)}
	}
	var open, shut []Room
	for i := range t.hosts {
		if !t.hosts[i].live() {
			continue
		}
		switch why, _ := t.judge(int32(i), &q); {
		case why == Candidate || why >= NoRoom:
			open = nearest(open, t.roomAt(int32(i), &q), n)
		case why == Cordoned && t.wouldTake(int32(i), &q):
			shut = nearest(shut, t.roomAt(int32(i), &q), mostShut)
		}
	}
	return append(open, shut...)
}

// nearest keeps the n rooms that lack the least, in order.
func nearest(rooms []Room, r Room, n int) []Room {
	k := len(rooms)
	for k > 0 && rooms[k-1].spare() < r.spare() {
		k--
	}
	if k >= n {
		return rooms
	}
	if len(rooms) == n {
		rooms = rooms[:n-1]
	}
	return slices.Insert(rooms, k, r)
}

// spare is what is left beyond the ask: below zero by what is missing, a dimension's as if what is
// short of it were so much of the memory.
func (r *Room) spare() gate.Bytes {
	left := r.Admittable.Sub(r.Need)
	for _, d := range r.Dims {
		if d.Have < d.Need {
			left = min(left, 0).Sub(max(r.Need.Scale(d.Need-d.Have, d.Need), gate.MiB))
		}
	}
	return left
}

// wouldTake says whether a cordoned host would take the ask, were it open.
func (t *Table) wouldTake(i int32, q *query) bool {
	h := &t.hosts[i]
	_, lacks := t.lacks(h, q)
	return !lacks && carries(t.rests[i].labels, q.ask.Labels) && h.free >= q.need[h.mode]
}

func (t *Table) roomAt(i int32, q *query) Room {
	h := &t.hosts[i]
	r := Room{Host: h.id, Mode: h.mode, MaxAsk: t.rests[i].maxAsk, Need: q.ask.NeedOn(h.mode)}
	r.Why, r.What = t.judge(i, q)
	if r.Admittable = gate.FromMiB(int64(h.roomFor(q))).Positive(); r.Why == Cordoned {
		r.Admittable = gate.FromMiB(int64(h.free))
	}
	dims := h.dims()
	for k := range dims {
		if d := &dims[k]; q.ask.Takes(d.name) > 0 {
			r.Dims = append(r.Dims, DimRoom{Name: d.name, Have: max(d.left(q), 0), Need: q.ask.Takes(d.name)})
		}
	}
	return r
}
