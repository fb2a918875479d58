package density

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/workload"
	"github.com/plimsoll-project/plimsoll/learn"
)

func ignore(int64) {}

// flat is a run that holds one amount throughout.
func flat(mib int64, seconds int) workload.Run {
	b := gate.FromMiB(mib)
	return workload.Run{Name: "flat", Peak: b, Resident: slices.Repeat([]gate.Bytes{b}, seconds)}
}

func playFlat(t *testing.T, mode gate.Mode, rule gate.ReserveRule, mib int64, cohort int) Figures {
	t.Helper()
	p := play{
		Runs: []workload.Run{flat(mib, 300)}, Mode: mode, Memory: 32 * gate.GiB, Cohort: cohort,
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
		Runs: []workload.Run{grows}, Memory: 32 * gate.GiB, Cohort: 200,
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
		Runs: []workload.Run{flat(200, 100)}, Memory: 32 * gate.GiB, Cohort: 20,
		Ask: gate.Ask{Memory: 4 * gate.GiB, Rule: gate.ReserveRule{Learned: 250 * gate.MiB}},
	}}
	m.renew()
	m.Now = time.Second
	s := host.Sample{Limits: []gate.Limit{{Name: "machine", Size: 32 * gate.GiB}}, Full: true}
	step := func(ev host.Event) {
		if denial := m.Step(m.Now, ev).Answer.Denial; denial != "" {
			t.Fatalf("%T: %s", ev, denial)
		}
	}
	step(s)
	for i := range 20 {
		id := fmt.Sprint("s", i)
		for _, ev := range []host.Event{
			host.Reserve{ID: id, Gen: 1, Ask: m.Ask, Until: m.Now + time.Minute, Incarnation: 1},
			host.Redeem{ID: id, Epoch: 1},
			host.Track{ID: id, Epoch: 1},
		} {
			step(ev)
		}
		s.Sandboxes = append(s.Sandboxes, host.Resident{ID: id})
	}
	hold := func(mib int64) gate.Bytes {
		for i := range s.Sandboxes {
			s.Sandboxes[i].Bytes = gate.FromMiB(mib)
		}
		s.Limits[0].Used = gate.FromMiB(20 * mib)
		m.Now += time.Second
		step(s)
		return m.Admittable()
	}
	line := 32*gate.GiB - gate.DefaultHeadroom(s.Limits)
	before, after := hold(200), hold(400)
	t.Logf("20 under a reserve of 250 MiB take %s at 200 MiB each, and %s one sample later, at 400 MiB each", line-before, line-after)
	if want := line - 20*250*gate.MiB; before != want {
		t.Errorf("at 200 MiB each: admittable %s, want %s", before, want)
	}
	if want := line - 20*400*gate.MiB; after != want {
		t.Errorf("one sample later, at 400 MiB each: admittable %s, want %s", after, want)
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
	if l.TrainRuns != workload.FittedTrain || l.Seen > l.Predicted+0.1 {
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
