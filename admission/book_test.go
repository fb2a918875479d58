package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// FuzzByHost runs passages of a few keys, one after the other, over one book, against hosts
// that answer whatever the bytes say. No id is ever asked for twice, at no host; what was, or
// may have been, promised and is not the answer was released; and the book knows a key at
// the host that holds it, or not at all (§12.1, 4 and 5).
func FuzzByHost(f *testing.F) {
	f.Add([]byte{0, 1, 0})
	f.Add([]byte{0, 1, 2, 2, 0, 0, 1, 0, 0})
	f.Add([]byte{0, 1, 1, 2, 0, 1, 1, 1})
	f.Add([]byte{1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		x := &fleetOfOne{t: t, data: data, book: NewBook(3), asked: map[string]bool{}, held: map[string]string{}}
		for range 20 {
			x.now += pool.Time(x.next()) * 100
			x.passage(fmt.Sprint("k", x.next()%5))
		}
	})
}

type fleetOfOne struct {
	t     *testing.T
	data  []byte
	now   pool.Time
	book  *Book
	made  uint64
	asked map[string]bool
	held  map[string]string // id -> key, promised or perhaps promised
}

func (x *fleetOfOne) next() byte {
	if len(x.data) == 0 {
		return 0
	}
	b := x.data[0]
	x.data = x.data[1:]
	return b
}

func (x *fleetOfOne) passage(key string) {
	c := pool.Claim{Consumer: "c", Key: key, Contents: pool.Contents{Class: "alone"}, Mode: pool.Refuse}
	p := New(DefaultConfig(), Request{Claim: c, ByHost: true})
	step := p.Begin(0)
	for n := 0; step.Effect.Do != Reply; n++ {
		if n > 1000 {
			x.t.Fatal("the passage does not end")
		}
		step = p.Step(time.Duration(n)*10*time.Millisecond, x.perform(c, step))
		if d := step.Detached; d != nil {
			delete(x.held, d.ID)
		}
	}
	for id, k := range x.held {
		row, known := x.book.ByID(id)
		if known && (row.Key != k || row.Host != "" && !OfHost(id, row.Host)) {
			x.t.Fatalf("the book has %s as %+v", id, row)
		}
		if !known && k == key && step.Effect.Reply.Kind == Yes && step.Effect.Reply.Row.ID == id {
			x.t.Fatalf("a yes that the book does not know: %s", id)
		}
		if k == key && step.Effect.Reply.Kind == Yes && step.Effect.Reply.Row.ID != id && known {
			x.t.Fatalf("%s is held beside the answer %s", id, step.Effect.Reply.Row.ID)
		}
	}
	if x.book.Len() > 3 {
		x.t.Fatalf("the book knows %d", x.book.Len())
	}
}

func (x *fleetOfOne) perform(c pool.Claim, s Step) Event {
	e := s.Effect
	at := pool.Row{ID: e.ID, Consumer: c.Consumer, Key: c.Key, Gen: e.Gen, Host: e.Host}
	switch e.Do {
	case Claim:
		return Claimed{Result: x.book.Claim(x.now, c)}
	case Pick:
		name := []string{"", "h1", "h2", "h3"}[x.next()%4]
		x.made++
		return Picked{Host: name, ID: HostID(name, x.now, x.made)}
	case Reserve:
		return x.reserve(e, c.Key)
	case Settle:
		if x.next()%8 == 7 { // released meanwhile
			row, _ := x.book.Get(c.Consumer, c.Key)
			x.book.Leave(row)
		}
		row, ok := x.book.Settle(x.now, at, x.now+60_000)
		return Settled{Row: row, OK: ok}
	case NoRoom:
		return NoRoomed{Result: x.book.NoRoom(at)}
	case Keep:
		return x.keep(e)
	case Move:
		row, ok := x.book.Move(x.now, e.ID, e.Acked)
		if ok {
			delete(x.held, e.ID)
		}
		return Moved{Row: row, OK: ok}
	case Read:
		row, found := x.book.Get(c.Consumer, c.Key)
		return RowRead{Row: row, Found: found}
	case Vacate:
		delete(x.held, e.ID)
		return Vacated{}
	case Sweep:
		return Swept{}
	case Pause:
		return Paused{}
	}
	x.t.Fatalf("effect %s has no place here", e.Do)
	return nil
}

func (x *fleetOfOne) reserve(e Effect, key string) Event {
	if x.asked[e.ID] || e.Gen != ByHostEpoch || !OfHost(e.ID, e.Host) {
		x.t.Fatalf("%s was asked for %s/%d", e.Host, e.ID, e.Gen)
	}
	x.asked[e.ID] = true
	switch x.next() % 4 {
	case 0:
		x.held[e.ID] = key
		return Reserved{}
	case 1:
		x.held[e.ID] = key
		return Reserved{Unknown: true}
	}
	return Reserved{Denial: host.NoRoom}
}

func (x *fleetOfOne) keep(e Effect) Event {
	row, ok := x.book.Renew(e.ID, x.now+60_000)
	k := Kept{Row: row, Gone: !ok}
	switch x.next() % 8 {
	case 1:
		k.Silent = true
	case 2:
		k.Answer.Denial = host.LapsedOrNever
		delete(x.held, e.ID)
	case 3:
		k.Answer.Verdict.Intake = host.IntakeDraining
	case 4:
		x.book.End(e.ID)
		k.Gone = true
		delete(x.held, e.ID)
	}
	return k
}

// TestBookIsBounded: the oldest keys are not known any more; their admissions go on.
func TestBookIsBounded(t *testing.T) {
	b := NewBook(2)
	for i := range 5 {
		key := fmt.Sprint("k", i)
		c := b.Claim(1, pool.Claim{Consumer: "c", Key: key})
		id := HostID("h1", 1, uint64(i))
		if row, ok := b.Settle(2, pool.Row{ID: id, Consumer: "c", Key: key, Gen: c.Row.Gen, Host: "h1"}, 60_000); !ok || row.Epoch != 1 {
			t.Fatalf("%+v", row)
		}
	}
	_, first := b.Get("c", "k0")
	_, last := b.Get("c", "k4")
	if b.Len() != 2 || len(b.byID) != 2 || len(b.byKey) != 2 || first || !last {
		t.Errorf("%d, %v, %v", b.Len(), first, last)
	}
}

// TestHostIDs: an id tells its host, when it was made, and is never the store's.
func TestHostIDs(t *testing.T) {
	long := strings.Repeat("a", 127) + "b"
	other := strings.Repeat("a", 127) + "c"
	all := func() []string { return []string{other, long, "h1"} }
	known := func(h string) bool { return h == "h1" || h == long || h == other }
	for _, name := range []string{"h1", long} {
		id := HostID(name, 1_790_000_000_000, 7)
		made, ok := ByHost(id)
		at, found := RecorderOf(id, known, all)
		if !ok || made != 1_790_000_000_000 || len(id) > 128 || at != name || !found || !OfHost(id, name) || OfHost(id, other) {
			t.Errorf("%s: made %d, %v, at %s, %v", id, made, ok, at, found)
		}
	}
	for _, id := range []string{"", "adm-0123456789abcdef", "hst-", "hst-0123456789ab0123456789abcdef.", "hst-x123456789ab0123456789abcdef.h1"} {
		if _, ok := ByHost(id); ok {
			t.Errorf("%q is taken for a host's", id)
		}
	}
	if _, found := RecorderOf(HostID("h9", 1, 1), known, all); found {
		t.Error("a host that nobody knows is known")
	}
}
