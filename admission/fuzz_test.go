package admission

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// FuzzPassage answers every effect with whatever the bytes say, and keeps the obvious book
// of what hosts may hold. A passage always ends; it asks a host at most once a generation;
// it settles only what was promised; and what it leaves behind unsettled it has told the
// host to forget, or the store's word is unknown.
func FuzzPassage(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0})
	f.Add([]byte{0, 1, 3, 9, 1, 0, 0})
	f.Add([]byte{0, 1, 2, 0, 1, 1, 2, 0, 0, 0, 0, 0})
	f.Add([]byte{1, 2, 1, 1, 1, 0, 0, 1})
	f.Add([]byte{0, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0}) // an unknown answer, then another host
	f.Fuzz(func(t *testing.T, data []byte) { play(t, data, false) })
}

func FuzzHeartbeat(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3})
	f.Fuzz(func(t *testing.T, data []byte) { play(t, data, true) })
}

func play(t *testing.T, data []byte, keep bool) {
	b := &book{t: t, data: data, held: map[place]bool{}, asked: map[place]bool{}, unsure: map[int64]bool{}, gen: 100}
	p := New(DefaultConfig(), Request{Claim: pool.Claim{ID: "a", Key: "k"}, Ask: gate.Ask{Memory: 1}, Keep: keep})
	step := p.Begin(0)
	for n := 0; ; n++ {
		if n > 2000 {
			t.Fatal("the passage does not end")
		}
		b.detached(step.Detached)
		if step.Effect.Do == Reply {
			b.reckon(*step.Effect.Reply)
			return
		}
		step = p.Step(time.Duration(n)*10*time.Millisecond, b.answer(step.Effect))
	}
}

// place is one generation at one host.
type place struct {
	host string
	gen  int64
}

// book is what an onlooker knows.
type book struct {
	t       *testing.T
	data    []byte
	gen     int64
	held    map[place]bool // promised, or perhaps promised, and not released
	asked   map[place]bool
	unsure  map[int64]bool // generations that a host may hold without having said so
	unknown bool           // a store outcome is
	settled place
}

func (b *book) next() byte {
	if len(b.data) == 0 {
		return 0
	}
	x := b.data[0]
	b.data = b.data[1:]
	return x
}

func (b *book) failed() bool {
	if b.next()%16 == 7 {
		b.unknown = true
		return true
	}
	return false
}

func (b *book) row() pool.Row {
	states := pool.States()
	r := pool.Row{ID: "a", Key: "k", State: states[int(b.next())%len(states)]}
	r.Stateful = b.next()%4 == 1
	b.gen++
	r.Gen = b.gen
	if r.State.OnHost() {
		r.Epoch, r.Host = b.gen, "other"
	}
	switch b.next() % 8 {
	case 1:
		r.Host, r.Audience = "", r.Host
	case 2:
		r.HoldOnExit = true
	case 3:
		r.StandAt, r.PresentUntil, r.HostlessSince, r.HostlessAt = "h2", 1, 1, pool.Time(1).Add(pool.StandAfter)
	}
	return r
}

func (b *book) answer(e Effect) Event {
	switch e.Do {
	case Claim:
		return b.claimed()
	case Pick:
		return b.picked(e)
	case Reserve:
		return b.reserved(e)
	case Regen:
		b.gen++
		gen := b.gen
		if b.next()%8 == 5 {
			gen = 0
		}
		return Regened{Gen: gen, Failed: b.failed()}
	case Settle:
		return b.settle(e)
	case NoRoom:
		verdicts := []pool.Verdict{pool.Queued, pool.PoolFull, pool.QueueFull, pool.PatienceOut, pool.NoSuchKey}
		return NoRoomed{Result: pool.Claimed{Verdict: verdicts[int(b.next())%len(verdicts)], Row: b.row()}, Failed: b.failed()}
	case Keep:
		return b.kept()
	case Vacate:
		return Vacated{Running: b.next()%4 == 1, Unknown: b.next()%4 == 1}
	case Move:
		r := b.row()
		ok := b.next()%2 == 0
		if ok {
			r.State, r.Host, r.Audience, r.Epoch = pool.Placing, "", "", 0
		}
		return Moved{Row: r, OK: ok, Failed: b.failed()}
	case Hear:
		return Heard{Row: b.row(), OK: b.next()%2 == 0, Failed: b.failed()}
	case PickStand:
		return StandPicked{Host: []string{"", "h1", "h2"}[b.next()%3]}
	case Stand:
		return Stood{OK: b.next()%2 == 0}
	case NoteStand:
		return StandNoted{}
	case Read:
		return RowRead{Row: b.row(), Found: b.next()%4 != 1, Failed: b.failed()}
	case Sweep:
		return Swept{}
	case Pause:
		return Paused{}
	}
	b.t.Fatalf("effect %s has no place in a passage", e.Do)
	return nil
}

func (b *book) claimed() Event {
	verdicts := []pool.Verdict{pool.Granted, pool.Existing, pool.BusyPlacing, pool.Queued, pool.PoolFull, pool.HasEnded}
	c := pool.Claimed{Verdict: verdicts[int(b.next())%len(verdicts)], Row: b.row()}
	switch c.Verdict {
	case pool.Granted, pool.BusyPlacing:
		c.Row.State, c.Row.Host, c.Row.Audience, c.Row.Epoch = pool.Placing, "", "", 0
	case pool.Existing:
		c.Row.State, c.Row.Epoch = pool.Admitted, c.Row.Gen
		if c.Row.Audience == "" {
			c.Row.Host = "other"
		}
	}
	return Claimed{Result: c, Failed: b.failed()}
}

func (b *book) picked(e Effect) Event {
	id := []string{"", "h1", "h2", "h3", "h4", "h5", "h6", "h7"}[b.next()%8]
	if e.Host != "" && id != "" {
		id = e.Host
	}
	for _, x := range e.Exclude {
		if x == id {
			id = ""
		}
	}
	return Picked{Host: id}
}

func (b *book) reserved(e Effect) Event {
	at := place{e.Host, e.Gen}
	if b.asked[at] {
		b.t.Fatalf("%s was asked for generation %d twice", e.Host, e.Gen)
	}
	if b.unsure[e.Gen] {
		b.t.Fatalf("%s was asked for generation %d, which another host may hold", e.Host, e.Gen)
	}
	b.asked[at] = true
	switch b.next() % 4 {
	case 0:
		b.held[at] = true
		return Reserved{}
	case 1:
		b.held[at], b.unsure[e.Gen] = true, true
		return Reserved{Unknown: true}
	}
	return Reserved{Denial: host.NoRoom}
}

func (b *book) settle(e Effect) Event {
	at := place{e.Host, e.Gen}
	if !b.held[at] {
		b.t.Fatalf("settled generation %d at %s, which never promised it", e.Gen, e.Host)
	}
	failed := b.failed()
	if b.next()%2 == 0 {
		b.settled = at
		return Settled{Row: pool.Row{ID: "a", State: pool.Admitted, Epoch: e.Gen, Gen: e.Gen, Host: e.Host}, OK: true, Failed: failed}
	}
	return Settled{Row: b.row(), Failed: failed}
}

func (b *book) kept() Event {
	k := Kept{Row: b.row(), Gone: b.next()%8 == 1, Silent: b.next()%8 == 1, Unknown: b.next()%8 == 1, Failed: b.failed()}
	k.Answer.Running = b.next()%8 == 1
	if b.next()%3 == 1 {
		k.Answer.Denial = [...]host.Denial{host.LapsedOrNever, host.OtherLife}[b.next()%2]
	}
	if b.next()%3 == 1 {
		k.Answer.Verdict.Intake = host.IntakeDraining
	}
	return k
}

func (b *book) detached(e *Effect) {
	if e == nil {
		return
	}
	if at := (place{e.Host, e.Gen}); at == b.settled && !b.unknown {
		b.t.Fatalf("released %v, which is settled", at)
	}
	delete(b.held, place{e.Host, e.Gen})
}

// reckon is the end: nothing may stay promised that the answer does not stand on.
func (b *book) reckon(a Answer) {
	if a.Kind == Yes && a.New {
		delete(b.held, b.settled)
	}
	if len(b.held) > 0 && !b.unknown {
		b.t.Fatalf("answered %+v and left %v promised", a, b.held)
	}
	if a.Kind == No && a.Code == "" {
		b.t.Fatalf("a no without a code: %+v", a)
	}
}
