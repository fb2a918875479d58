package pressure_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/transcript"
	"github.com/plimsoll-project/plimsoll/pressure"
)

// Cases that cannot happen here: T15's eviction (admittable is no input of the valve or of
// Lost), T105 (the sample interval is the shell's; the relation headroom ≥
// rate × reaction is proved by config check).

func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T) func(string) string {
		s := session{t: t, valve: pressure.NewValve(pressure.DefaultMarks()), headroom: 256}
		return s.do
	})
}

// session is a valve with a clock. "read" takes one reading, "hold for=15s" the same one
// every 50 ms until that long after the last.
type session struct {
	t        *testing.T
	valve    *pressure.Valve
	now      pressure.Instant
	headroom int64
}

func (s *session) do(command string) string {
	l := transcript.Parse(command)
	if at, ok := l.Set["at"]; ok {
		s.now = s.duration(at)
	}
	r := s.reading(l)
	var out strings.Builder
	switch l.Verb {
	case "read":
		s.step(&out, r)
	case "hold":
		for end := s.now + s.duration(l.Set["for"]); s.now < end; {
			s.now += 50 * time.Millisecond
			s.step(&out, r)
		}
	default:
		s.t.Fatalf("unknown command %q", l.Verb)
	}
	state := "open"
	if cause := s.valve.Shut(); cause != pressure.None {
		state = "shut: " + string(cause)
	}
	fmt.Fprintf(&out, "at %v: %s, dwell %v, lost %v\n", s.now, state, s.valve.Dwell(), r.Lost(pressure.DefaultMarks()))
	return out.String()
}

func (s *session) step(out *strings.Builder, r pressure.Reading) {
	if s.valve.Step(s.now, r) {
		fmt.Fprintf(out, "moved at %v\n", s.now)
	}
}

// reading has by default 4 GiB free, all of it spare, no growth and no stalls.
func (s *session) reading(l transcript.Line) pressure.Reading {
	free := s.number(l, "free", 4096)
	_, psi := l.Set["some"]
	_, full := l.Set["full"]
	return pressure.Reading{
		Free: gate.FromMiB(free), Headroom: gate.FromMiB(s.headroom),
		Spare: gate.FromMiB(s.number(l, "spare", free)), Growth: gate.FromMiB(s.number(l, "growth", 0)),
		PSI: psi || full, Some: 100 * s.number(l, "some", 0), Full: 100 * s.number(l, "full", 0),
	}
}

func (s *session) number(l transcript.Line, name string, otherwise int64) int64 {
	text, ok := l.Set[name]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *session) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// Target 10: under noise, however wicked, the valve moves at most once a dwell in the long
// run; it never opens sooner than a dwell after it shut, nor twice within one.
func TestNoiseMovesItOnceADwell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		marks := pressure.DefaultMarks()
		v := pressure.NewValve(marks)
		moves, shutAt, openedAt := 0, pressure.Instant(0), -marks.Dwell
		now := pressure.Instant(0)
		for range 400 {
			calm := rapid.SampledFrom([]time.Duration{50 * time.Millisecond, time.Second, 14 * time.Second, 16 * time.Second, time.Minute}).Draw(t, "wait")
			now += calm
			free := rapid.SampledFrom([]int64{100, 300, 600, 4096}).Draw(t, "free")
			some := rapid.SampledFrom([]int64{0, 700, 2000}).Draw(t, "some")
			r := pressure.Reading{Free: gate.FromMiB(free), Spare: gate.FromMiB(free), Headroom: 256 * gate.MiB, PSI: true, Some: some}
			if !v.Step(now, r) {
				continue
			}
			moves++
			if v.Shut() != pressure.None {
				shutAt = now
				continue
			}
			if now-shutAt < marks.Dwell || now-openedAt < marks.Dwell {
				t.Fatalf("opened at %v, shut at %v, opened before at %v", now, shutAt, openedAt)
			}
			openedAt = now
		}
		if most := 2 + int(now/marks.Dwell); moves > most {
			t.Fatalf("%d moves within %v, at most %d", moves, now, most)
		}
	})
}

// T98 and T99: without little free memory no stall figure whatever shuts the valve, and
// without any stall figure little free memory shuts it all the same.
func TestPressureFiguresAloneNeverDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := pressure.Reading{
			Headroom: 256 * gate.MiB, PSI: true,
			Free: gate.FromMiB(rapid.Int64Range(512, 1<<20).Draw(t, "free")),
			Some: rapid.Int64Range(0, 10000).Draw(t, "some"), Full: rapid.Int64Range(0, 10000).Draw(t, "full"),
		}
		r.Spare = r.Free
		if cause := r.Cause(pressure.DefaultMarks()); cause != pressure.None || r.Lost(pressure.DefaultMarks()) {
			t.Fatalf("%+v: %q", r, cause)
		}
		r.PSI, r.Free = false, r.Headroom/2-1
		if cause := r.Cause(pressure.DefaultMarks()); cause != pressure.LowFree {
			t.Fatalf("%+v: %q", r, cause)
		}
	})
}

// Memory that is already promised never shuts it: without growth, promises may take all.
func TestPromisesNeverShutIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := pressure.Reading{
			Headroom: 256 * gate.MiB, Free: gate.FromMiB(rapid.Int64Range(128, 1<<20).Draw(t, "free")),
			Spare: gate.FromMiB(rapid.Int64Range(-1<<20, 1<<20).Draw(t, "spare")),
		}
		if cause := r.Cause(pressure.DefaultMarks()); cause != pressure.None {
			t.Fatalf("%+v: %q", r, cause)
		}
	})
}

// T100: the order is explicit. Nothing stateful, however large; then the lowest priority,
// whoever idled longest, the largest overshoot, and the name, so that it is one order.
func TestVictims(t *testing.T) {
	candidates := func() []pressure.Candidate {
		gib := func(n int64) gate.Bytes { return gate.Bytes(n) * gate.GiB }
		return []pressure.Candidate{
			{ID: "database", Stateful: true, Priority: -9, Resident: gib(43)},
			{ID: "important", Priority: 5, Resident: gib(20), Reserve: gib(1)},
			{ID: "busy", IdleSince: 90 * time.Second, Resident: gib(3), Reserve: gib(1)},
			{ID: "idle", IdleSince: 10 * time.Second, Resident: gib(1), Reserve: gib(1)},
			{ID: "idle too, and over", IdleSince: 10 * time.Second, Resident: gib(2), Reserve: gib(1)},
			{ID: "idle too", IdleSince: 10 * time.Second, Resident: gib(1), Reserve: gib(1)},
			{ID: "starting", Priority: -1},
		}
	}
	for _, c := range []struct {
		deficit gate.Bytes
		want    string
	}{
		{-gate.GiB, ""},
		{0, ""},
		{1, "idle too, and over"},
		{2 * gate.GiB, "idle too, and over"},
		{2*gate.GiB + 1, "idle too, and over; idle"},
		{4 * gate.GiB, "idle too, and over; idle; idle too"},
		{5 * gate.GiB, "idle too, and over; busy"}, // who idles would free nothing that is still lacking
		{7 * gate.GiB, "idle too, and over; idle; idle too; busy"},
		{8 * gate.GiB, "important"}, // without whom all the others do not cover it
		{1 << 60, "idle too, and over; idle; idle too; busy; important"},
	} {
		var got []string
		for _, v := range pressure.Victims(candidates(), c.deficit) {
			got = append(got, v.ID)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("deficit %s: %q, want %q", c.deficit, strings.Join(got, "; "), c.want)
		}
	}
	if got := pressure.Order(candidates()); len(got) != 6 || got[0].ID != "starting" {
		t.Errorf("order %v", got)
	}
}

// Nobody goes in vain: who is named covers what is lacking, and without any one of them it would not
// be covered. Nobody is named who comes after the last whom the order itself needs.
func TestNobodyGoesInVain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cs := make([]pressure.Candidate, rapid.IntRange(0, 8).Draw(t, "many"))
		for i := range cs {
			cs[i] = pressure.Candidate{
				ID: fmt.Sprint(i), Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Stateful: rapid.Bool().Draw(t, "stateful"),
				IdleSince: pressure.Instant(rapid.IntRange(0, 3).Draw(t, "idle")), Resident: gate.Bytes(rapid.Int64Range(0, 9).Draw(t, "resident")),
			}
		}
		deficit := gate.Bytes(rapid.Int64Range(-1, 40).Draw(t, "deficit"))
		order := pressure.Order(slices.Clone(cs))
		var all gate.Bytes
		head := 0
		for _, c := range order {
			if all < deficit {
				all, head = all.Add(c.Resident), head+1
			}
		}
		var covered gate.Bytes
		victims := pressure.Victims(slices.Clone(cs), deficit)
		for _, v := range victims {
			covered = covered.Add(v.Resident)
			if at := slices.Index(order, v); at < 0 || at >= head {
				t.Fatalf("%+v is not of the head of %+v", v, order)
			}
		}
		if covered < min(deficit, all) {
			t.Fatalf("%d of %d lacking are covered by %+v of %+v", covered, deficit, victims, order)
		}
		for _, v := range victims {
			if all >= deficit && covered.Sub(v.Resident) >= deficit {
				t.Fatalf("%+v goes in vain: %d lacking, %+v", v, deficit, victims)
			}
		}
	})
}

func TestNothingAllocates(t *testing.T) {
	v := pressure.NewValve(pressure.DefaultMarks())
	now := pressure.Instant(0)
	got := testing.AllocsPerRun(1000, func() {
		now += 7 * time.Second
		v.Step(now, pressure.Reading{Free: gate.Bytes(now), Headroom: gate.Bytes(20 * time.Minute)})
	})
	if got != 0 {
		t.Errorf("%v allocations a reading", got)
	}
}

func Example() {
	v := pressure.NewValve(pressure.DefaultMarks())
	low := pressure.Reading{Free: 100 * gate.MiB, Headroom: 256 * gate.MiB}
	calm := pressure.Reading{Free: 4 * gate.GiB, Spare: 4 * gate.GiB, Headroom: 256 * gate.MiB}
	v.Step(0, low)
	fmt.Println(v.Shut())
	v.Step(time.Second, calm)
	v.Step(16*time.Second, calm)
	fmt.Println(v.Shut() == pressure.None)
	// Output:
	// free below half the headroom
	// true
}
