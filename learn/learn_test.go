package learn_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/transcript"
	"github.com/plimsoll-project/plimsoll/learn"
)

func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T) func(string) string {
		return (&session{t: t}).do
	})
}

// session is a template and its runs. After every step it goes through JSON, as a restart would.
type session struct {
	t        *testing.T
	now      time.Duration
	runs     learn.Runs
	template learn.Template
}

func (s *session) do(command string) string {
	l := transcript.Parse(command)
	switch l.Verb {
	case "ended":
		for range s.number(l, "n", 1) {
			s.runs.Ended(gate.FromMiB(s.number(l, "peak", 0)), gate.FromMiB(s.number(l, "reserve", 0)))
		}
		return fmt.Sprintf("%d runs", s.runs.N())
	case "sampled":
		s.runs.Sampled(gate.FromMiB(s.number(l, "resident", 0)), s.number(l, "n", 1))
		return fmt.Sprintf("%d s, %s on average", s.runs.Seconds(), s.runs.Mean())
	case "forget":
		s.runs = learn.Runs{}
		return "0 runs"
	case "step":
		return s.step(l)
	}
	s.t.Fatalf("unknown command %q", l.Verb)
	return ""
}

func (s *session) step(l transcript.Line) string {
	if at, ok := l.Set["at"]; ok {
		d, err := time.ParseDuration(at)
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = d
	}
	e := s.template.Step(s.now, gate.FromMiB(s.number(l, "configured", 4096)), gate.FromMiB(s.number(l, "prior", 1024)), &s.runs)
	s.template = again(s.t, s.template)
	s.runs = again(s.t, s.runs)
	state := fmt.Sprintf("prior; %d of %d runs", e.Runs, e.Enough)
	if e.Learned {
		state = fmt.Sprintf("learned from %d runs", e.Runs)
	}
	if e.Broken {
		state += ", broken"
	}
	return fmt.Sprintf("%s: %s\npredicted %.2f, seen %.2f of %d", e.Reserve, state, e.Predicted, e.Seen, e.Judged)
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

// again is a value that went through JSON.
func again[T any](t testing.TB, v T) T {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back T
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if second := encode(t, back); second != string(text) {
		t.Fatalf("%s came back as %s", text, second)
	}
	return back
}

func encode(t testing.TB, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An obvious oracle: the peaks in a row. What is read off is never below it, nor by more than
// a MiB or 0.8 % above.
func TestReserveIsTheQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r learn.Runs
		configured := gate.FromMiB(rapid.Int64Range(1, 1<<20).Draw(t, "configured"))
		peaks := rapid.SliceOfN(rapid.Int64Range(0, int64(4*gate.GiB)), 1, 80).Draw(t, "peaks")
		for _, p := range peaks {
			r.Ended(gate.Bytes(p), 0)
		}
		row := append(slices.Clone(peaks), math.MaxInt64)
		slices.Sort(row)
		want := max(min(gate.Bytes(row[(len(row)*learn.Quantile+999)/1000-1]), configured), configured/64)
		got := r.Reserve(configured)
		if got < want || got > min(want+want/128+gate.MiB, configured) {
			t.Fatalf("reserve %s, wanted is %s", got, want)
		}
		if r.N() != int64(len(peaks)) {
			t.Fatalf("%d runs, ended were %d", r.N(), len(peaks))
		}
	})
}

func drawRuns(t *rapid.T, name string) *learn.Runs {
	var r learn.Runs
	for range rapid.IntRange(0, 20).Draw(t, name) {
		r.Ended(gate.Bytes(rapid.Int64Range(0, 1<<40).Draw(t, "peak")), gate.Bytes(rapid.Int64Range(0, 1<<40).Draw(t, "reserve")))
		r.Sampled(gate.Bytes(rapid.Int64Range(0, 1<<40).Draw(t, "resident")), rapid.Int64Range(-1, 1000).Draw(t, "n"))
	}
	return &r
}

func merged(all ...*learn.Runs) *learn.Runs {
	var m learn.Runs
	for _, r := range all {
		m.Merge(r)
	}
	return &m
}

// Hosts' runs may come in any order and in any grouping.
func TestMergeHasNoOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b, c := drawRuns(rt, "a"), drawRuns(rt, "b"), drawRuns(rt, "c")
		want := encode(t, merged(a, b, c))
		for _, other := range []*learn.Runs{merged(c, b, a), merged(merged(a, b), c), merged(a, merged(b, c)), merged(b, a, &learn.Runs{}, c)} {
			if got := encode(t, other); got != want {
				rt.Fatalf("%s, want %s", got, want)
			}
		}
		if n := a.N() + b.N() + c.N(); merged(a, b, c).N() != n {
			rt.Fatalf("%d runs merged, %d seen", merged(a, b, c).N(), n)
		}
	})
}

// A later word of a host takes the place of an earlier one, whatever the two have in common.
func TestReplace(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		others, was, is := drawRuns(rt, "others"), drawRuns(rt, "was"), drawRuns(rt, "is")
		sum := merged(others, was)
		sum.Replace(was, is)
		if got, want := encode(t, sum), encode(t, merged(others, is)); got != want {
			rt.Fatalf("%s, want %s", got, want)
		}
	})
}

// However much is seen, there are a few thousand numbers.
func TestRunsAreBounded(t *testing.T) {
	var r learn.Runs
	for mib := int64(1); mib < 1<<31; mib += 1 + mib/500 {
		r.Ended(gate.FromMiB(mib), gate.GiB)
		r.Sampled(gate.FromMiB(mib), math.MaxInt64)
		r.Sampled(gate.FromMiB(mib), math.MaxInt64)
	}
	if n := len(encode(t, r)); n > 200<<10 {
		t.Errorf("%d bytes of JSON", n)
	}
	again(t, r)
}

// No text makes it panic, and what is accepted can be used.
func FuzzDecode(f *testing.F) {
	var r learn.Runs
	for i := range gate.Bytes(40) {
		r.Ended(i*20*gate.MiB, 300*gate.MiB)
		r.Sampled(i*20*gate.MiB, 9)
	}
	var s learn.Template
	s.Step(time.Hour, 4*gate.GiB, gate.GiB, &r)
	f.Add(encode(f, r), encode(f, s))
	f.Add(`{"peaks":{"-1":3}}`, `{"reserve":-1}`)
	f.Add(`{"peaks":{"9999":3}}`, `{"told":{"runs":1,"above":2}}`)
	f.Add(`{"peaks":{"3":-3},"judged":{"runs":-1}}`, `{"before":{"peaks":{"3":-1}}}`)
	f.Fuzz(func(t *testing.T, runs, template string) {
		var r learn.Runs
		var s learn.Template
		if json.Unmarshal([]byte(runs), &r) != nil || json.Unmarshal([]byte(template), &s) != nil {
			return
		}
		r.Merge(&r)
		for at := range time.Duration(4) {
			r.Ended(100*gate.MiB, 90*gate.MiB)
			e := s.Step(at*time.Hour, 4*gate.GiB, gate.GiB, &r)
			if e.Reserve < 0 || e.Reserve > 4*gate.GiB {
				t.Fatalf("%+v", e)
			}
		}
		encode(t, r)
		encode(t, s)
	})
}

// aClass draws peaks: most lie close together, a few far beyond.
func aClass(r *rand.Rand) gate.Bytes {
	peak := 200 + 80*math.Exp(0.7*r.NormFloat64())
	if r.IntN(20) == 0 {
		peak *= 1 + 8*r.Float64()
	}
	return gate.Bytes(peak * float64(gate.MiB))
}

// life plays a class: every run stands under the reserve in force and is judged by it. The
// template takes a step whenever so many runs have ended.
func life(runs, every int, peak func(run int) gate.Bytes, see func(run int, e learn.Estimate)) {
	var seen learn.Runs
	var t learn.Template
	e := t.Step(0, 4*gate.GiB, gate.GiB, &seen)
	for i := range runs {
		var under gate.Bytes
		if e.Learned {
			under = e.Reserve
		}
		seen.Ended(peak(i), under)
		if i%every == every-1 {
			e = t.Step(time.Duration(i)*time.Minute, 4*gate.GiB, gate.GiB, &seen)
			see(i, e)
		}
	}
}

// Row 9: exceedances stay within what was predicted, and a class that stays as it is never
// breaks: 100 classes, 900 runs each.
func TestAClassThatStaysIsNeverBroken(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	var predicted, seen, judged float64
	for class := range 100 {
		var last learn.Estimate
		life(900, 10, func(int) gate.Bytes { return aClass(r) }, func(run int, e learn.Estimate) {
			if e.Broken {
				t.Fatalf("class %d is broken after %d runs: %+v", class, run+1, e)
			}
			last = e
		})
		n := float64(last.Judged)
		predicted, seen, judged = predicted+n*last.Predicted, seen+n*last.Seen, judged+n
	}
	t.Logf("%.0f runs judged: %.1f %% predicted to peak above their reserve, %.1f %% did", judged, 100*predicted/judged, 100*seen/judged)
	if seen > predicted*1.02 {
		t.Errorf("more peaked above their reserve (%.0f) than predicted (%.0f)", seen, predicted)
	}
}

// Row 9: a class that doubles is back at the prior within 60 runs, and learned anew from the
// 30 that follow.
func TestAClassThatDoubles(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	worst := 0
	for range 40 {
		broke, again := -1, -1
		life(400, 1, func(run int) gate.Bytes {
			if run < 200 {
				return aClass(r)
			}
			return 2 * aClass(r)
		}, func(run int, e learn.Estimate) {
			switch {
			case run < 200 && e.Broken:
				t.Fatalf("broken at run %d, before it doubled", run)
			case e.Broken && broke < 0:
				broke = run - 199
				if e.Reserve != gate.GiB || e.Learned {
					t.Fatalf("broken, and still %+v", e)
				}
			case broke >= 0 && e.Learned && again < 0:
				again = run - 199 - broke
			}
		})
		if broke < 0 || broke > 60 || again != learn.Enough {
			t.Fatalf("broken after %d runs (-1: never), learned anew %d runs later", broke, again)
		}
		worst = max(worst, broke)
	}
	t.Logf("broken after at most %d runs", worst)
}

func Example() {
	var runs learn.Runs
	for i := range gate.Bytes(learn.Enough) {
		runs.Ended((240+2*i)*gate.MiB, 0)
	}
	var template learn.Template
	e := template.Step(time.Hour, 4*gate.GiB, gate.GiB, &runs)
	fmt.Println(e.Reserve, e.Learned)
	// Output: 264 MiB true
}

func BenchmarkSampled(b *testing.B) {
	var r learn.Runs
	b.ReportAllocs()
	for b.Loop() {
		r.Sampled(277*gate.MiB, 1)
	}
}
