package ledger_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/transcript"
	"github.com/plimsoll-project/plimsoll/ledger"
)

const ttl = 60 * time.Second

// Cases that cannot happen here: T06, T07 (check and increment are the owner's one step,
// tested in package host), T19, T36 (there is no counter to decrement: Release names an
// id), T20 (one level only).

func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T) func(string) string {
		s := session{t: t, ledger: ledger.New(ttl, "gpu", gate.SandboxDim)}
		return s.do
	})
}

// session is a ledger with a clock that commands set: "at=5s" in any of them.
type session struct {
	t      *testing.T
	ledger *ledger.Ledger
	now    ledger.Instant
}

func (s *session) do(command string) string {
	l := transcript.Parse(command)
	if at, ok := l.Set["at"]; ok {
		s.now = s.duration(at)
	}
	var out strings.Builder
	for _, e := range s.ledger.Advance(s.now, nil) {
		fmt.Fprintf(&out, "lapsed %s/%d\n", e.ID, e.Gen)
	}
	s.run(&out, l)
	if err := s.ledger.CheckInvariants(); err != nil {
		s.t.Errorf("%s: %v", command, err)
	}
	s.state(&out)
	return out.String()
}

func (s *session) run(out *strings.Builder, l transcript.Line) {
	if l.Verb == "tick" {
		return
	}
	id, gen := l.Words[0], s.number(l.Words[1])
	until := s.now + ttl
	if u, ok := l.Set["until"]; ok {
		until = s.duration(u)
	}
	switch l.Verb {
	case "reserve":
		verdict := s.ledger.Judge(s.now, id, gen, until)
		fmt.Fprintln(out, verdictNames[verdict])
		if verdict == ledger.Fresh {
			a := gate.Ask{CPUMilli: 1000}
			if n := s.number(l.Set["gpu"]); n > 0 {
				a.Dims = []gate.Dim{{Name: "gpu", N: n}}
			}
			s.ledger.Reserve(s.now, ledger.Entry{ID: id, Gen: gen, Need: gate.FromMiB(s.number(l.Set["need"])), Until: until, Ask: a})
		}
	case "deny":
		s.ledger.Deny(s.now, id, gen)
	case "renew":
		_, ok := s.ledger.Renew(s.now, id, gen, until)
		fmt.Fprintln(out, "renewed:", ok)
	case "release":
		_, ok := s.ledger.Release(s.now, id, gen)
		fmt.Fprintln(out, "released:", ok)
	case "redeem":
		e, ok := s.ledger.Redeem(s.now, id, gen)
		fmt.Fprintf(out, "redeemed: %v, need %s\n", ok, e.Need)
	case "reopen":
		_, ok := s.ledger.Reopen(s.now, ledger.Entry{ID: id, Gen: gen, Need: gate.FromMiB(s.number(l.Set["need"])), Ask: gate.Ask{CPUMilli: 1000}})
		fmt.Fprintln(out, "re-opened:", ok)
	default:
		s.t.Fatalf("unknown command %q", l.Verb)
	}
}

var verdictNames = map[ledger.Verdict]string{
	ledger.Fresh: "fresh", ledger.Same: "same", ledger.Superseded: "superseded", ledger.Closed: "closed", ledger.Late: "late",
}

func (s *session) state(out *strings.Builder) {
	entries := sorted(s.ledger)
	for _, e := range entries {
		state := e.State.String()
		if e.Reopened {
			state += " again"
		}
		fmt.Fprintf(out, "%s/%d %s %s until %v\n", e.ID, e.Gen, state, e.Need, e.Until)
	}
	fmt.Fprintf(out, "at %v: %s, %d cpu, %d gpu, %d slots in %d of %d\n", s.now, s.ledger.Total(),
		s.ledger.CPUMilli(), s.ledger.Dim(0), s.ledger.Dim(1), s.ledger.Count(), len(entries))
}

func (s *session) number(text string) int64 {
	if text == "" {
		return 0
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

func sorted(l *ledger.Ledger) (out []ledger.Entry) {
	l.Each(func(e ledger.Entry) { out = append(out, e) })
	slices.SortFunc(out, func(a, b ledger.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func TestStateNames(t *testing.T) {
	for s := ledger.Open; s <= ledger.Denied; s++ {
		if s.String() == "unknown" || s.String() == "" {
			t.Errorf("state %d has no name", s)
		}
	}
	if got := (ledger.Denied + 1).String(); got != "unknown" {
		t.Errorf("a state that is none is called %q", got)
	}
}

// What lapses at one instant is told in one order, whatever the map says: a simulation
// must replay to the same digest.
func TestLapsesInOneOrder(t *testing.T) {
	for range 20 {
		l := ledger.New(ttl)
		for _, n := range []int{5, 3, 9, 1, 7} {
			l.Reserve(0, ledger.Entry{ID: fmt.Sprint(n), Gen: 1, Need: gate.MiB, Until: ttl})
		}
		l.Reserve(0, ledger.Entry{ID: "early", Gen: 1, Need: gate.MiB, Until: time.Second})
		var got []string
		for _, e := range l.Advance(ttl, nil) {
			got = append(got, e.ID)
		}
		if want := []string{"early", "1", "3", "5", "7", "9"}; !slices.Equal(got, want) {
			t.Fatalf("lapsed in order %v, want %v", got, want)
		}
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	l, ids := warm(64)
	now := ledger.Instant(0)
	i := 0
	got := testing.AllocsPerRun(2000, func() {
		now += time.Second
		l.Advance(now, nil)
		id := ids[i%len(ids)]
		l.Reserve(now, ledger.Entry{ID: id, Gen: int64(i) + 10, Need: gate.GiB, Until: now + ttl})
		if i%2 == 0 {
			l.Release(now, id, int64(i)+10)
		} else {
			l.Redeem(now, id, int64(i)+10)
		}
		i++
	})
	if got != 0 {
		t.Errorf("%v allocations a reservation", got)
	}
}

func warm(n int) (*ledger.Ledger, []string) {
	l, ids := ledger.New(ttl), make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("admission-%06d", i)
		l.Reserve(0, ledger.Entry{ID: ids[i], Gen: 1, Need: gate.GiB, Until: ttl})
	}
	return l, ids
}

// A busy host remembers a hundred thousand closed records; a step must not look at them.
func BenchmarkReserveRelease(b *testing.B) {
	for _, remembered := range []int{100, 100_000} {
		b.Run(fmt.Sprintf("remembered=%d", remembered), func(b *testing.B) {
			l, ids := warm(remembered)
			b.ReportAllocs()
			var i int
			for b.Loop() {
				now := ledger.Instant(i) * time.Millisecond
				l.Advance(now, nil)
				id := ids[i%len(ids)]
				l.Reserve(now, ledger.Entry{ID: id, Gen: int64(i) + 2, Need: gate.GiB, Until: now + ttl})
				l.Release(now, id, int64(i)+2)
				i++
			}
		})
	}
}

func Example() {
	l := ledger.New(time.Minute)
	l.Reserve(0, ledger.Entry{ID: "a", Gen: 7, Need: 128 * gate.MiB, Until: time.Minute})
	fmt.Println(l.Total(), "in", l.Count())
	l.Release(0, "a", 7)
	fmt.Println(l.Total(), "in", l.Count())
	fmt.Println(l.Judge(time.Second, "a", 7, 2*time.Minute) == ledger.Closed) // a delayed duplicate
	fmt.Println(l.Judge(time.Second, "a", 9, 2*time.Minute) == ledger.Fresh)
	// Output:
	// 128 MiB in 1
	// 0 MiB in 0
	// true
	// true
}

// What the host measures already is promised no second time, and what is closed stays closed.
func TestRestate(t *testing.T) {
	l := ledger.New(time.Minute)
	l.Reserve(0, ledger.Entry{ID: "a", Gen: 1, Need: 128, Until: time.Minute})
	l.Reserve(0, ledger.Entry{ID: "b", Gen: 1, Need: 64, Until: time.Minute})
	l.Restate("a", 0, 0)
	l.Restate("nobody", 32, 64)
	if l.Total() != 64 || l.Count() != 2 {
		t.Errorf("%v in %d", l.Total(), l.Count())
	}
	l.Release(0, "a", 1)
	l.Restate("a", 128, 512)
	if e, _ := l.Get("a"); l.Total() != 64 || e.State != ledger.Released {
		t.Errorf("%v, %+v", l.Total(), e)
	}
	if err := l.CheckInvariants(); err != nil {
		t.Error(err)
	}
}
