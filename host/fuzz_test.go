package host_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// FuzzHost plays any events at any times to a host and to its model: the same answers, the
// same admittable, the same ends, and after each step what always holds. At the end all
// ends come and a time to live passes: nothing is reserved, nothing is charged, and
// admittable is an empty host's (design §12.1, 3, 4, 5; T28, T35, T37, T43).
func FuzzHost(f *testing.F) {
	f.Add([]byte{0, 0, 1, 9, 0, 0, 0, 1, 9, 0, 3, 0, 1, 0, 1, 4, 0, 1, 0, 1, 5, 0, 1, 0, 1})
	f.Add([]byte{1, 0, 1, 40, 0, 0, 5, 1, 40, 0, 0, 10, 1, 40, 0, 3, 0, 1, 0, 1, 3, 5, 1, 0, 1, 6, 200, 90, 99, 40, 6, 200, 90, 99, 80})
	f.Add([]byte{2, 0, 1, 255, 0, 0, 5, 2, 255, 0, 2, 0, 1, 0, 9, 1, 5, 2, 99, 200, 0, 5, 2, 255, 9, 0, 5, 3, 255, 255})
	f.Add([]byte{4, 7, 2, 0, 1, 0, 0, 1, 9, 0, 7, 1, 0, 0, 0, 0, 1, 1, 9, 0, 3, 0, 1, 0, 1, 7, 0, 0, 0, 1, 3, 0, 1, 0, 1})
	f.Add([]byte{
		0, 0, 5, 88, 40, 0, 3, 5, 0, 0, 0, 4, 5, 0, 0, 0, 5, 5, 0, 0, 9, 3, 5, 0, 0, 0, 4, 5, 0, 0, 0, 5, 5, 0, 0, 9,
		1, 5, 90, 0, 70, 0, 10, 90, 40, 0, 2, 5, 0, 0, 0, 3, 5, 0, 0, 0,
	})
	f.Add([]byte{
		2, 9, 6, 60, 255, 0, 0, 5, 44, 255, 0, 9, 5, 44, 90, 0, 0, 7, 44, 255, 0, 0, 12, 44, 90, 0, 10, 6, 0, 0, 1, 0, 17, 44, 255, 0,
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 0 {
			playAll(t, data)
		}
	})
}

func playAll(t *testing.T, data []byte) {
	p := newPlay(t, data[0])
	for data = data[1:]; len(data) >= 5; data = data[5:] {
		p.rig.now += wait(data[4])
		p.both(p.event(data[0], data[1], data[2], data[3]))
	}
	p.allEnds()
}

// TestHostEqualsModel plays whole lives, with any events in between, so that all that a host
// does comes to pass.
func TestHostEqualsModel(t *testing.T) {
	came := map[string]int{}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPlay(t, byte(r.Uint32()))
		p.came = came
		for range 300 {
			p.rig.now += wait(byte(r.IntN(140)))
			if r.IntN(4) == 0 {
				p.both(p.event(byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32()), byte(r.Uint32())))
			} else {
				p.both(p.next(r))
			}
		}
		p.allEnds()
	}
	for _, what := range []string{
		"end", "re-opened", "started again",
		"host.Reserve past a no", "host.Redeem past a no", "host.Boot past a no", "boot under a bypass",
		"host.Stand beside what is set aside", "host.Reserve beside what is set aside", "host.Done beside what is set aside",
	} {
		if came[what] < 20 {
			t.Errorf("%q came to pass %d times", what, came[what])
		}
	}
}

// next is what comes next in the life of one of a few.
func (p *play) next(r *rand.Rand) host.Event {
	id := string('a' + rune(r.IntN(8))) // the last three never have a ticket
	open := p.model.promise(id)
	switch g := p.model.guest(id); {
	case g != nil && g.phase == host.Running:
		return host.Done{ID: id, Epoch: g.epoch, Evicted: r.IntN(8) == 0}
	case g != nil:
		return host.Track{ID: id, Epoch: g.epoch}
	case open.state == "open":
		return host.Redeem{ID: id, Epoch: open.gen}
	case id > "e":
		return p.order(byte(11+r.IntN(3)), id, byte(r.Uint32()), byte(r.Uint32()))
	case r.IntN(4) == 0:
		return p.limits(int64(r.IntN(2000)), int64(r.IntN(1000))) // or whatever was seen would keep it shut
	}
	a := p.ask(byte(r.Uint32()), byte(r.Uint32()))
	if r.IntN(3) == 0 {
		return host.Stand{ID: id, Ask: a, Until: p.rig.now + time.Minute, Incarnation: incarnation}
	}
	return host.Reserve{ID: id, Gen: open.gen + 1, Ask: a, Until: p.rig.now + time.Minute, Incarnation: incarnation}
}

// play is a host and its model side by side.
type play struct {
	t     *testing.T
	rig   *rig
	model *model
	bits  byte           // of the configuration
	came  map[string]int // how often something came to pass
}

func newPlay(t *testing.T, bits byte) *play {
	cfg := config()
	cfg.Mode = gate.Mode(bits & 1)
	if bits&2 != 0 {
		cfg.Dims = []gate.Dim{{Name: "gpu", N: 2}, {Name: host.SandboxDim, N: 3}}
	}
	p := &play{t: t, rig: newRig(t, cfg), model: newModel(cfg), bits: bits, came: map[string]int{}}
	p.both(p.limits(0, 0))
	return p
}

// wait makes of a byte a time from a millisecond to a minute.
func wait(b byte) time.Duration {
	return time.Duration(b&63) * []time.Duration{0, time.Millisecond, 50 * time.Millisecond, time.Second}[b>>6]
}

func (p *play) event(verb, who, x, y byte) host.Event {
	id, gen := string('a'+rune(who%5)), int64(who/5%4)
	until := p.rig.now + time.Duration(x)*time.Second/2 - 10*time.Second
	life := int64(incarnation)
	if x == 255 {
		life--
	}
	switch verb % 14 {
	case 0:
		return host.Reserve{ID: id, Gen: gen, Ask: p.ask(x, y), Until: until, Incarnation: life}
	case 1:
		return host.Renew{ID: id, Epoch: gen, Until: until, Incarnation: life}
	case 2:
		return host.Release{ID: id, Gen: gen}
	case 3:
		return host.Redeem{ID: id, Epoch: gen}
	case 4:
		return host.Track{ID: id, Epoch: gen}
	case 5:
		return host.Done{ID: id, Epoch: gen, Evicted: x&1 != 0}
	case 6:
		return p.seen(who, x, y)
	case 7:
		return host.SetIntake{Intake: []host.Intake{host.IntakeOpen, host.IntakeCordoned, host.IntakeDraining}[who%3]}
	case 9:
		return host.Stand{ID: id, Ask: p.ask(x, y), Until: until, Incarnation: life}
	case 10:
		return host.Unstand{ID: id}
	}
	return p.order(verb%14, id, x, y)
}

// order is what somebody does past every replica, or nothing.
func (p *play) order(verb byte, id string, x, y byte) host.Event {
	switch verb {
	case 11:
		return host.SetEnforcement{To: host.Enforcement(x & 3 / 3)}
	case 12:
		return host.Boot{ID: id, Ask: p.ask(x, y), Ticket: host.NoTicket}
	case 13:
		return host.SetBypass{For: time.Duration(x) * time.Second, By: "uid-0", Reason: "fuzz"}
	}
	return host.Tick{}
}

func (p *play) ask(x, y byte) gate.Ask {
	a := ask(int64(y) * 16)
	a.Stateful, a.HoldOnExit = x&1 != 0, x&8 != 0
	a.Rule.Until = gate.ReserveUntil(x >> 1 & 1)
	if x&48 == 48 {
		a.Rule.Learned = gate.FromMiB(int64(x) * 8)
	}
	if p.bits&2 != 0 && x&4 != 0 {
		a.Dims = []gate.Dim{{Name: "gpu", N: int64(y & 3)}}
	}
	return a
}

// limits is a machine of 8 GiB and a slice of half that, by turns the narrower one.
func (p *play) limits(machine, slice int64) host.Sample {
	s := host.Sample{Limits: []gate.Limit{
		{Name: "machine", Size: 8 * gate.GiB, Used: gate.FromMiB(machine)},
		{Name: "slice", Size: 4 * gate.GiB, Used: gate.FromMiB(slice)},
	}}
	if p.bits&4 != 0 {
		s.Budget = 3 * gate.GiB
	}
	return s
}

func (p *play) seen(who, x, y byte) host.Event {
	s := p.limits(int64(x)*32+int64(y), int64(y)*16)
	s.PSI, s.Some, s.FullPSI = who&1 != 0, int64(who)*10, int64(x)*4
	s.Full = who&2 != 0
	if who&4 != 0 {
		s.Sandboxes = append(s.Sandboxes, host.Resident{ID: "a", Bytes: gate.FromMiB(int64(x) * 8)})
	}
	if who&8 != 0 {
		s.Sandboxes = append(s.Sandboxes, host.Resident{ID: "b", Bytes: gate.FromMiB(int64(y) * 8)})
	}
	return s
}

// both plays one event to both and compares.
func (p *play) both(ev host.Event) {
	p.t.Helper()
	if e, ok := ev.(host.Redeem); ok && p.model.promise(e.ID).again {
		p.came["started again"]++
	}
	fx := p.rig.step(ev)
	ends := make([]host.Ref, 0, len(fx.Ends))
	for _, e := range fx.Ends {
		ends = append(ends, host.Ref{ID: e.ID, Epoch: e.Epoch})
	}
	kept := slices.Clone(fx.Reopens)
	denial, want, again := p.model.step(p.rig.now, ev)
	if fx.Answer.Denial != denial {
		p.t.Fatalf("%#v at %v: host says %q, model %q", ev, p.rig.now, fx.Answer.Denial, denial)
	}
	p.came["end"] += len(ends)
	if fx.Answer.Would != "" {
		p.came[fmt.Sprintf("%T past a no", ev)]++
	}
	if _, ok := ev.(host.Boot); ok && denial == "" && !p.model.shadow {
		p.came["boot under a bypass"]++
	}
	p.came["re-opened"] += len(kept)
	if !slices.Equal(kept, again) {
		p.t.Fatalf("%#v at %v: host keeps %v, model %v", ev, p.rig.now, kept, again)
	}
	if got := int64(fx.Answer.Verdict.Admittable); got != p.model.admittable() {
		p.t.Fatalf("after %#v at %v: host admits %d, model %d", ev, p.rig.now, got, p.model.admittable())
	}
	if !slices.Equal(fx.Answer.Verdict.Dims, p.model.offered()) {
		p.t.Fatalf("after %#v: host has left %v, model %v", ev, fx.Answer.Verdict.Dims, p.model.offered())
	}
	if got := p.rig.h.View().Standing; got.ID != p.model.stand.id || got.Until != p.model.stand.until || int64(got.Need) != p.model.stand.need {
		p.t.Fatalf("after %#v: host sets aside %+v, model %+v", ev, got, p.model.stand)
	}
	if denial == "" && p.model.stand.id != "" {
		p.came[fmt.Sprintf("%T beside what is set aside", ev)]++
	}
	for _, ref := range ends {
		if !slices.Contains(want, ref) {
			p.t.Fatalf("after %#v at %v: host ends %v, model %v", ev, p.rig.now, ends, want)
		}
	}
	for _, ref := range want {
		// An end that nobody has written yet is not told twice as news.
		if _, waits := p.rig.disk[host.Name{Kind: host.RecordEnd, ID: ref.ID, Epoch: ref.Epoch}]; !waits {
			p.t.Fatalf("after %#v at %v: host ends %v, model %v", ev, p.rig.now, ends, want)
		}
	}
	p.step(fx)
}

// step acknowledges every other end, and every deed, as a replica would.
func (p *play) step(fx host.Effects) {
	for i, e := range slices.Clone(fx.Ends) {
		if i%2 == 0 {
			p.acked(e)
		}
	}
	for _, d := range p.rig.h.Held().Deeds {
		p.rig.step(host.AckedDeed{N: d.N})
	}
}

func (p *play) acked(e host.End) {
	p.rig.step(host.Acked{ID: e.ID, Epoch: e.Epoch})
	delete(p.model.told, host.Ref{ID: e.ID, Epoch: e.Epoch})
}

// allEnds lets everything end on its own, and looks for what is left.
func (p *play) allEnds() {
	p.both(host.SetIntake{Intake: host.IntakeOpen})
	p.both(host.SetEnforcement{To: host.Enforce})
	p.both(host.SetBypass{By: "uid-0", Reason: "all ends"})
	for _, g := range slices.Clone(p.model.guests) {
		p.both(host.Done{ID: g.id, Epoch: g.epoch})
	}
	p.rig.now += p.rig.cfg.BootWithin // and with it StandFor
	p.both(host.Tick{})
	for range 2 { // whatever the dwell has grown to
		p.rig.now += p.rig.cfg.Marks.MaxDwell
		last := p.limits(0, 0)
		last.Full = true // or what limits alone say would be distrusted
		p.both(last)
	}
	for _, e := range p.rig.h.Unwritten() {
		p.rig.step(host.Acked{ID: e.ID, Epoch: e.Epoch})
	}
	v := p.rig.h.View()
	empty := newRig(p.t, p.rig.cfg)
	want := empty.step(p.limits(0, 0)).Answer.Verdict
	switch {
	case v.Reservations != 0 || v.Standing.ID != "" || v.Account.Reserved != 0 || v.Account.Unresident != 0 || v.Resident != 0:
		p.t.Fatalf("all ended, and there is %+v", v)
	case v.Verdict.Admittable != want.Admittable || v.Verdict.CPUFreeMilli != want.CPUFreeMilli || !slices.Equal(v.Verdict.Dims, want.Dims):
		p.t.Fatalf("all ended, and it says %+v; an empty host says %+v", v.Verdict, want)
	case slices.ContainsFunc(p.rig.h.Records(), func(r host.Record) bool { return r.Kind != host.RecordSeen }):
		p.t.Fatalf("all ended, and it remembers %+v", p.rig.h.Records())
	}
}
