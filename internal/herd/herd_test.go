package herd

import (
	"context"
	"encoding/json"
	"math"
	"testing"
	"time"
)

// An instant that is over is now.
func TestTheClockDoesNotGoBack(t *testing.T) {
	var a clock
	var late time.Duration
	a.at(5, func() { a.at(3, func() { late = a.now }) })
	for a.step() {
	}
	if late != 5 {
		t.Errorf("done at %v", late)
	}
}

// Values that stand in every table of the formula.
func TestErlangB(t *testing.T) {
	for _, c := range []struct {
		slots   int
		offered float64
		want    float64
	}{
		{0, 3, 1}, {1, 1, 0.5}, {2, 1, 0.2}, {5, 3, 0.11005}, {10, 5, 0.018385}, {20, 20, 0.15889}, {100, 90, 0.026957},
	} {
		if got := ErlangB(c.slots, c.offered); math.Abs(got-c.want) > 1e-5 {
			t.Errorf("%d slots offered %v: %v, want %v", c.slots, c.offered, got, c.want)
		}
	}
}

// One pool refuses what the formula says, within three standard errors.
func TestPooledIsErlangB(t *testing.T) {
	const slots, creates = 50, 50_000
	p, err := playPool(context.Background(), traffic{rate: 45, life: time.Second, seed: 3}, slots, 1000, creates)
	if err != nil {
		t.Fatal(err)
	}
	mean, se := p.share()
	if want := ErlangB(slots, 45); math.Abs(mean-want) > 3*se || se > want/5 {
		t.Errorf("%v ± %v, want %v", mean, se, want)
	}
	if p.se < se/3 || p.se > 3*se {
		t.Errorf("twenty plays say ± %v, the parts of one ± %v", p.se, se)
	}
}

func small() Options {
	return Options{
		Hosts: 20, Slots: 10, Replicas: []int{1, 16}, Lives: []time.Duration{10 * time.Second}, Loads: []float64{0.8, 0.95},
		Policies: Policies(), Requests: 10_000, Seed: 1, Jobs: 2,
	}
}

func simulated(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Simulate(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Ours refuses what one pool of the very same creates refuses, whatever the number of replicas,
// takes nothing beyond a host's slots, and is never wrong. Hosts whose reports are 10 s old refuse
// a fifth of everything at the least.
func TestHerd(t *testing.T) {
	r := simulated(t, small())
	if len(r.Rows) != 4*2*2 {
		t.Fatalf("%d rows", len(r.Rows))
	}
	for _, row := range r.Rows {
		t.Logf("%+v", row)
		if row.OverAdmissions != 0 {
			t.Errorf("%s with %d replicas: %d over-admissions", row.Policy, row.Replicas, row.OverAdmissions)
		}
		bound := 0.0005
		if row.Load == 0.8 {
			bound = 1e-5
		}
		switch row.Policy {
		case Deltas:
			if row.WrongRefusals != 0 || row.Over > bound || row.Calls > 1.1 {
				t.Errorf("ours: %+v", row)
			}
		case Heartbeats, SharedLedger:
			if row.Excess < 0.1 || row.WrongRefusals == 0 {
				t.Errorf("reports of 10 s cost nothing: %+v", row)
			}
		}
	}
	if err := r.Broken(); err != nil {
		t.Error(err)
	}
}

// Equal seeds give equal bytes, however many rows are played at a time; another seed does not.
func TestSameSeedSameBytes(t *testing.T) {
	o := small()
	o.Replicas, o.Requests = []int{1, 3}, 2000
	bytesOf := func(seed uint64, jobs int) string {
		o.Seed, o.Jobs = seed, jobs
		out, err := json.Marshal(simulated(t, o))
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	one := bytesOf(1, 1)
	if again := bytesOf(1, 4); again != one {
		t.Errorf("four jobs:\n%s\none:\n%s", again, one)
	}
	if other := bytesOf(2, 4); other == one {
		t.Error("another seed gives the same")
	}
}

// Who interrupts is obeyed.
func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Simulate(ctx, small()); err == nil {
		t.Error("herd went on")
	}
	if _, err := SimulateBurst(ctx, DefaultBurst()); err == nil {
		t.Error("burst went on")
	}
}
