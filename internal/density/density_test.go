package density

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/learn"
)

func ignore(int64) {}

// flat is a run that holds one amount throughout.
func flat(mib int64, seconds int) Run {
	b := gate.FromMiB(mib)
	return Run{Name: "flat", Peak: b, Resident: slices.Repeat([]gate.Bytes{b}, seconds)}
}

func playFlat(t *testing.T, mode gate.Mode, rule gate.ReserveRule, mib int64, cohort int) Figures {
	t.Helper()
	p := play{
		Runs: []Run{flat(mib, 300)}, Mode: mode, Memory: 32 * gate.GiB, Cohort: cohort,
		Ask: gate.Ask{Memory: 4 * gate.GiB, Rule: rule}, Seconds: 3000, Renewed: 1000, Seed: 1,
	}
	f, err := p.run(t.Context(), ignore)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Seven by committed accounting, thirty by the essay's reserve if it stands for life, and
// with a learned reserve as many as the load line divided by it, up to what the start line and
// the ends of others take.
func TestSteadySandboxes(t *testing.T) {
	prior := gate.DefaultReserveRule()
	for _, c := range []struct {
		name string
		mode gate.Mode
		rule gate.ReserveRule
		mib  int64
		want float64
	}{
		{"committed", gate.Committed, prior, 200, 7},
		{"prior for life", gate.WorkingSet, prior, 200, 30},
		{"learned", gate.WorkingSet, gate.ReserveRule{Learned: 277 * gate.MiB}, 200, 112},
	} {
		for _, cohort := range []int{1, 32, 74} {
			f := playFlat(t, c.mode, c.rule, c.mib, cohort)
			if math.Abs(f.PerHost-c.want) > 0.02*c.want || f.OverPhysical != 0 || f.HostSeconds != 3000 {
				t.Errorf("%s, batches of %d: %+v, want %v per host", c.name, cohort, f, c.want)
			}
		}
	}
}

// What is over is counted, and nothing is done about it: sandboxes that all grow beyond what
// they are charged for.
func TestOverPhysicalIsSeen(t *testing.T) {
	grows := flat(100, 60)
	for s := 30; s < 60; s++ {
		grows.Resident[s] = 600 * gate.MiB
	}
	grows.Peak = 600 * gate.MiB
	p := play{
		Runs: []Run{grows}, Memory: 32 * gate.GiB, Cohort: 200,
		Ask: gate.Ask{Memory: 4 * gate.GiB, Rule: gate.ReserveRule{Learned: 277 * gate.MiB}}, Seconds: 60, Renewed: 60, Seed: 1,
	}
	f, err := p.run(t.Context(), ignore)
	if err != nil {
		t.Fatal(err)
	}
	if f.OverPhysical < 25 || f.Most < 112*600 || f.Shut == 0 {
		t.Errorf("%+v: 112 sandboxes of 600 MiB for 30 s on 32 GiB", f)
	}
}

// Row 9: a class that doubles is charged anew within one sample, under a learned reserve too.
func TestDoublingIsChargedWithinOneSample(t *testing.T) {
	m := &machine{play: play{
		Runs: []Run{flat(200, 100)}, Memory: 32 * gate.GiB, Cohort: 20,
		Ask: gate.Ask{Memory: 4 * gate.GiB, Rule: gate.ReserveRule{Learned: 250 * gate.MiB}},
	}}
	m.renew()
	m.now = time.Second
	if err := m.step(host.Sample{Limits: m.sample.Limits, Full: true}); err != nil {
		t.Fatal(err)
	}
	s := host.Sample{Limits: []gate.Limit{{Name: "machine", Size: m.Memory}}, Full: true}
	for i := range 20 {
		id := fmt.Sprint("s", i)
		for _, ev := range []host.Event{
			host.Reserve{ID: id, Gen: 1, Ask: m.Ask, Until: m.now + time.Minute, Incarnation: incarnation},
			host.Redeem{ID: id, Epoch: 1},
			host.Track{ID: id, Epoch: 1},
		} {
			if err := m.step(ev); err != nil {
				t.Fatal(err)
			}
		}
		s.Sandboxes = append(s.Sandboxes, host.Resident{ID: id})
	}
	hold := func(mib int64) gate.Bytes {
		for i := range s.Sandboxes {
			s.Sandboxes[i].Bytes = gate.FromMiB(mib)
		}
		s.Limits[0].Used = gate.FromMiB(20 * mib)
		m.now += time.Second
		if err := m.step(s); err != nil {
			t.Fatal(err)
		}
		return m.host.Admittable()
	}
	line := m.Memory - gate.DefaultHeadroom(s.Limits)
	before, after := hold(200), hold(400)
	t.Logf("20 under a reserve of 250 MiB take %s at 200 MiB each, and %s one sample later, at 400 MiB each", line-before, line-after)
	if want := line - 20*250*gate.MiB; before != want {
		t.Errorf("at 200 MiB each: admittable %s, want %s", before, want)
	}
	if want := line - 20*400*gate.MiB; after != want {
		t.Errorf("one sample later, at 400 MiB each: admittable %s, want %s", after, want)
	}
}

// The fitted model against the figures that it was made from.
func TestFittedModel(t *testing.T) {
	runs := Fitted(20000, 1)
	var peaks, lives, bases, places []float64
	for _, r := range runs {
		row := make([]float64, len(r.Resident))
		at := 0
		for s, b := range r.Resident {
			row[s] = inMiB(b)
			if row[s] > row[at] {
				at = s
			}
		}
		places = append(places, (float64(at)+0.5)/float64(len(row)))
		slices.Sort(row)
		bases = append(bases, row[len(row)/4])
		peaks, lives = append(peaks, inMiB(r.Peak)), append(lives, float64(len(row)))
	}
	for _, c := range []struct {
		name           string
		of             []float64
		part, want, by float64 // by: how far off, as a part of it
	}{
		{"baseline p5", bases, 0.05, 156, 0.05},
		{"baseline p50", bases, 0.50, 190, 0.05},
		{"baseline p95", bases, 0.95, 224, 0.15},
		{"life p50", lives, 0.50, 278, 0.05},
		{"peak p25", peaks, 0.25, 242, 0.05},
		{"peak p50", peaks, 0.50, 278, 0.05},
		{"peak p75", peaks, 0.75, 331, 0.15},
		{"peak p90", peaks, 0.90, 423, 0.15},
		{"peak p95", peaks, 0.95, 792, 0.25},
		{"peak p99", peaks, 0.99, 1980, 0.15},
		{"peak at", places, 0.50, 0.63, 0.15},
	} {
		slices.Sort(c.of)
		got := c.of[int(c.part*float64(len(c.of)))]
		t.Logf("%-12s %8.2f, real %8.2f", c.name, got, c.want)
		if math.Abs(got-c.want) > c.by*c.want {
			t.Errorf("%s: %.2f, the real runs have %.2f", c.name, got, c.want)
		}
	}
	if most := slices.Max(peaks); most > 3900 {
		t.Errorf("a peak of %.0f MiB, the most of the real runs is 3,872", most)
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A second has the most that was seen in it, one without a look what the last look saw, and a
// peak between two looks lies where the highest look was.
func TestRead(t *testing.T) {
	runs := write(t, "runs.csv", "peak_mib,run,lifetime_ms\n40.5,a,5100\n10,b,900\n")
	memory := write(t, "memory.csv", "run,t_ms,resident_mib\na,0,1\na,1100,20\na,1900,10\nb,0,7\na,4000,30\na,5200,0\n")
	got, err := Read(runs, memory)
	if err != nil {
		t.Fatal(err)
	}
	want := []Run{
		{Name: "a", Peak: gate.Bytes(40.5 * float64(gate.MiB)), Resident: []gate.Bytes{1 * gate.MiB, 20 * gate.MiB, 20 * gate.MiB, 20 * gate.MiB, gate.Bytes(40.5 * float64(gate.MiB)), 30 * gate.MiB}},
		{Name: "b", Peak: 10 * gate.MiB, Resident: []gate.Bytes{10 * gate.MiB}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %v\nwant %v", got, want)
	}
}

// One file of memory does for the runs of several; and spreadsheets write a byte order mark.
func TestReadPartOfAFile(t *testing.T) {
	runs := write(t, "runs.csv", "\uFEFFrun,lifetime_ms,peak_mib\na,1000,5\n")
	memory := write(t, "memory.csv", "\uFEFFrun,t_ms,resident_mib\nc,5000,1\na,0,5\nc,0,what\n")
	got, err := Read(runs, memory)
	if err != nil || len(got) != 1 || got[0].Name != "a" || len(got[0].Resident) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// Each mistake in a file is told with its line.
func TestReadMistakes(t *testing.T) {
	const goodRuns, goodMemory = "run,lifetime_ms,peak_mib\na,2000,5\n", "run,t_ms,resident_mib\na,0,5\n"
	for _, c := range []struct{ runs, memory, want string }{
		{"", goodMemory, "runs.csv: it is empty"},
		{"run,life,peak_mib\n", goodMemory, `runs.csv:1: there is no column "lifetime_ms"`},
		{"run,lifetime_ms,peak_mib\n", goodMemory, "runs.csv: no runs in it; write one in each line"},
		{goodRuns + "b,1.5,3\n", goodMemory, `runs.csv:3: lifetime_ms "1.5"`},
		{goodRuns + "b,0,3\n", goodMemory, "runs.csv:3: lifetime_ms 0"},
		{goodRuns + "b,-4,3\n", goodMemory, `runs.csv:3: lifetime_ms "-4"`},
		{goodRuns + "b,99999999999,3\n", goodMemory, "a week"},
		{goodRuns + "b,10,NaN\n", goodMemory, `runs.csv:3: peak_mib "NaN"`},
		{goodRuns + "b,10,-1\n", goodMemory, `runs.csv:3: peak_mib "-1"`},
		{goodRuns + "a,10,1\n", goodMemory, `runs.csv:3: run "a": give each run one row`},
		{goodRuns + "b,10\n", goodMemory, "line 3"},
		{goodRuns, "run,t_ms,resident_mib\nc,0,5\nc,1000,5\n", `memory.csv: none of its 2 rows is of a run among the runs, as "a" is: name the runs in both files alike`},
		{goodRuns + "b,1000,5\n", goodMemory + "c,0,5\n", `memory.csv: no row of run "b": write what was resident of it, or leave it out`},
		{goodRuns, "run,t_ms,resident_mib\n", `memory.csv: no row of run "a"`},
		{goodRuns, goodMemory + "a,900,many\n", `memory.csv:3: resident_mib "many"`},
		{goodRuns, "run,t_ms,resident_mib\na,900,5\na,800,5\n", "memory.csv:3: t_ms 800 of run \"a\" comes after 900"},
		{goodRuns + "b,1000,5\n", goodMemory + "b,7000,5\n", `memory.csv: no sample of run "b" within its life of 1000 ms: t_ms counts from its start`},
	} {
		_, err := Read(write(t, "runs.csv", c.runs), write(t, "memory.csv", c.memory))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("runs %q, memory %q: %v, want %s", c.runs, c.memory, err, c.want)
		}
	}
	_, err := Read(filepath.Join(t.TempDir(), "none.csv"), "")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none.csv: no such file or directory: name a CSV file that can be read") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// small is few seconds of the fitted model.
func small() Options {
	o := DefaultOptions()
	o.Seconds, o.Renew = 9_000, 30*time.Minute
	return o
}

func result(t *testing.T, o Options) *Result {
	t.Helper()
	in, err := o.load()
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulate(t.Context(), o, in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(t *testing.T, r *Result) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// One seed is one answer, however many hosts are played at a time; another seed is another.
func TestSameSeedSameAnswer(t *testing.T) {
	o := small()
	o.Seconds = 900
	first := text(t, result(t, o))
	o.Jobs = 3
	if second := text(t, result(t, o)); second != first {
		t.Errorf("seed 1 gave\n%s\nand\n%s", first, second)
	}
	o.Seed = 2
	if other := text(t, result(t, o)); other == first {
		t.Error("seed 2 gave what seed 1 gave")
	}
}

// The parts add up, and the order is what all of this is about.
func TestFittedDensity(t *testing.T) {
	o := small()
	o.Jobs = 2
	r := result(t, o)
	per := map[string]float64{}
	for _, p := range r.Policies {
		per[p.Policy] = p.PerHost
		if p.HostSeconds != o.Seconds || len(p.ByCohort) != len(o.Cohorts) {
			t.Errorf("%s: %d host-seconds in %d parts", p.Policy, p.HostSeconds, len(p.ByCohort))
		}
		if p.Policy != "essay" && p.OverPhysical != 0 {
			t.Errorf("%s: %d s over physical memory", p.Policy, p.OverPhysical)
		}
	}
	if per["committed"] != 7 || per["learned"] < 10*per["committed"] || per["essay"] < per["learned"] {
		t.Errorf("per host: %v", per)
	}
	l := r.Learned[0]
	if l.TrainRuns != fittedTrain || l.Seen > l.Predicted+0.1 {
		t.Errorf("%+v", l)
	}
	if r.After30.LeastFinal < 0.8 || r.After30.Runs != learn.Enough {
		t.Errorf("%+v", r.After30)
	}
}

// A run that is stopped ends with the context's error, and soon.
func TestCanBeStopped(t *testing.T) {
	o := DefaultOptions()
	in, err := o.load()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	o.Progress = func(int64, int64) { stop() }
	if _, err := simulate(ctx, o, in); err == nil {
		t.Error("it went on to the end")
	}
}
