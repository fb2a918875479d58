package host_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// Trap 1, T01, T02: the essay's Pick checks, then reserves, so that twenty creates at once
// all read the same near-zero use. Here check and promise are one step under the owner's
// one lock: exactly as many are admitted as fit, whatever is asked at once.
func TestTwentyCreatesAtOnce(t *testing.T) {
	cfg := host.DefaultConfig("h1", 64)
	var mu sync.Mutex // the owner's: it covers each step
	r := newRig(t, cfg)
	r.step(machine(4096, 0)) // 3,840 MiB admittable
	var wait sync.WaitGroup
	yes := make(chan bool, 20)
	for i := range 20 {
		wait.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			a := ask(2048) // 512 MiB each: seven fit
			answer := r.h.Step(0, host.Reserve{ID: fmt.Sprint(i), Gen: 1, Ask: a, Until: time.Minute, Incarnation: incarnation}).Answer
			yes <- answer.Denial == ""
		})
	}
	wait.Wait()
	close(yes)
	admitted := 0
	for ok := range yes {
		if ok {
			admitted++
		}
	}
	if admitted != 7 || r.h.Admittable() != 256*gate.MiB {
		t.Errorf("%d of 20 admitted, %s left, want 7 and 256 MiB", admitted, r.h.Admittable())
	}
}

// T04: replicas do not see each other's pending creates, and need not. Four replicas ask
// for eight each on a host with room for eight. T05: of thirty asks of 32 GiB two fit on
// 70 GiB.
func TestNoNumberOfReplicasOverruns(t *testing.T) {
	for _, c := range []struct {
		name           string
		size           int64
		ask            gate.Ask
		replicas, each int
		want           int
	}{
		{"T04", 8*512 + 256, ask(2048), 4, 8, 8},
		{"T05", 70 * 1024, gate.Ask{Memory: 32 * gate.GiB, Stateful: true}, 1, 30, 2},
	} {
		r := newRig(t, host.DefaultConfig("h1", 64))
		r.step(machine(c.size, 0))
		admitted := 0
		for n := range c.each {
			for replica := range c.replicas { // interleaved: each acts on the view of before
				if r.reserve(fmt.Sprintf("%d-%d", replica, n), 1, c.ask).Denial == "" {
					admitted++
				}
			}
		}
		if admitted != c.want {
			t.Errorf("%s: %d admitted, want %d", c.name, admitted, c.want)
		}
	}
}

// T39: starts that fail add nothing up. T28, T40: on any path all that was taken is back.
func TestFailingStartsAddNothingUp(t *testing.T) {
	r := newRig(t, config())
	r.step(machine(100*1024, 0))
	before := r.h.Admittable()
	a := ask(64 * 1024)
	a.Stateful = true
	for gen := range int64(20) {
		if d := r.reserve("loop", gen, a).Denial; d != "" {
			t.Fatalf("try %d: %s", gen, d)
		}
		if gen%2 == 0 {
			r.redeem("loop", gen)
			r.done("loop", gen)
			r.step(host.Acked{ID: "loop", Epoch: gen})
		} else {
			r.step(host.Release{ID: "loop", Gen: gen})
		}
	}
	if got := r.h.Admittable(); got != before {
		t.Errorf("%s admittable, %s before", got, before)
	}
}

// T43: closing and creating fast at the cap is never refused: the end frees in the step
// that reports it.
func TestChurnAtTheCapIsNeverRefused(t *testing.T) {
	cfg := host.DefaultConfig("h1", 8)
	cfg.Dims = []gate.Dim{{Name: host.SandboxDim, N: 20}}
	r := newRig(t, cfg)
	r.step(machine(64*1024, 0))
	live := [15]int64{}
	for round := int64(1); round <= 40; round++ {
		for i := range live {
			id := fmt.Sprint(i)
			if live[i] > 0 {
				r.done(id, live[i])
				r.step(host.Acked{ID: id, Epoch: live[i]})
			}
			if d := r.reserve(id, round, ask(512)).Denial; d != "" {
				t.Fatalf("round %d: %s", round, d)
			}
			r.redeem(id, round)
			r.track(id, round)
			live[i] = round
		}
	}
}

// Stamps rise over a restart, without a counter on disk.
func TestStampsRiseOverARestart(t *testing.T) {
	r := newRig(t, config())
	for range 50 {
		r.now += time.Millisecond
		r.step(machine(4096, 0))
	}
	before := r.h.Verdict()
	r.now += time.Millisecond
	r.h = r.restore()
	if after := r.step(host.Tick{}).Answer.Verdict; !after.Newer(before) {
		t.Errorf("%d/%d after the restart, %d/%d before", after.Incarnation, after.Sequence, before.Incarnation, before.Sequence)
	}
	registered := host.New(r.cfg, incarnation+1) // a lost state file: a lower clock, a higher life
	if v := registered.Step(0, host.Tick{}).Answer.Verdict; !v.Newer(before) {
		t.Errorf("another incarnation's word %d/%d is not newer than %d/%d", v.Incarnation, v.Sequence, before.Incarnation, before.Sequence)
	}
}

// Time never runs backwards, whatever the shell says.
func TestTimeNeverRunsBackwards(t *testing.T) {
	r := newRig(t, config())
	r.step(machine(4096, 0))
	r.now = time.Minute
	r.reserve("a", 1, ask(512))
	r.now = 0
	if a := r.reserve("b", 1, ask(512)); a.Denial != "" && a.Denial != host.LapsedOrNever {
		t.Error(a.Denial)
	}
	if v := r.h.Verdict(); v.At != time.Minute {
		t.Errorf("the clock reads %v after a minute", v.At)
	}
}

// What happens to one placement while a listener is slow leaves the later word.
func TestNewsAddUp(t *testing.T) {
	a, b := host.Ref{ID: "a", Epoch: 1}, host.Ref{ID: "b", Epoch: 1}
	var n host.News
	for _, later := range []host.News{
		{Verdict: host.Verdict{Sequence: 1}, Tracks: []host.Ref{a, b}},
		{Verdict: host.Verdict{Sequence: 2}, Reopens: []host.Ref{a, b}},
		{Verdict: host.Verdict{Sequence: 3}, Tracks: []host.Ref{a}, Ends: []host.End{{ID: "c", Epoch: 2}}},
	} {
		n.Add(later)
	}
	if n.Verdict.Sequence != 3 || len(n.Tracks) != 3 || !slices.Equal(n.Reopens, []host.Ref{b}) || len(n.Ends) != 1 {
		t.Errorf("%+v", n)
	}
}

func TestWords(t *testing.T) {
	for i, want := range []string{"open", "pressure", "cordoned", "draining", "unknown"} {
		if got := host.Intake(i).String(); got != want {
			t.Errorf("intake %d is %q, want %q", i, got, want)
		}
	}
}

// A replica may keep a verdict: no later step writes into it.
func TestVerdictsAreKept(t *testing.T) {
	cfg := config()
	cfg.Dims = []gate.Dim{{Name: host.SandboxDim, N: 2}}
	r := newRig(t, cfg)
	r.step(machine(4096, 0))
	kept := r.h.Verdict()
	r.reserve("a", 1, ask(512))
	if kept.Dims[0].N != 2 || r.h.Verdict().Dims[0].N != 1 {
		t.Errorf("kept %v, now %v", kept.Dims, r.h.Verdict().Dims)
	}
}

// What CheckInvariants and the verdict say of a host of two limits that bind by turns: the
// growth under each is its own.
func TestGrowthSurvivesLimitsThatBindByTurns(t *testing.T) {
	r := newRig(t, config())
	for i := range int64(5) {
		r.now += time.Second
		flip := i % 2
		r.step(host.Sample{Full: true, Limits: []gate.Limit{
			{Name: "machine", Size: 8*gate.GiB + gate.Bytes(flip), Used: gate.FromMiB(i * 1000)},
			{Name: "slice", Size: 8*gate.GiB + 1 - gate.Bytes(flip), Used: gate.FromMiB(i * 1000)},
		}})
	}
	if v := r.h.View(); v.Reading.Growth != 1000*gate.MiB || v.Verdict.Intake != host.IntakePressure {
		t.Errorf("growth %s, intake %s, want 1000 MiB and pressure", v.Reading.Growth, v.Verdict.Intake)
	}
}

// Whoever asked between two words, and was told less than the last one said, hears when it is as
// it was again: its host would be full to it for a second, and what it refuses for that is wrong.
func TestRoomThatWasTakenAndGivenBackIsTold(t *testing.T) {
	r := newRig(t, config())
	r.step(machine(8192, 0))
	r.now += time.Second
	r.reserve("before", 1, ask(4096))
	word := r.voiced.Admittable
	if r.told != r.now || r.said.Admittable != word {
		t.Fatalf("told at %v, and it is %v", r.told, r.now)
	}

	r.now += 5 * time.Millisecond
	if a := r.reserve("a", 1, ask(4096)); a.Denial != "" || a.Verdict.Admittable >= word {
		t.Fatalf("%+v", a)
	}
	r.now += 5 * time.Millisecond
	if a := r.step(host.Release{ID: "a", Gen: 1}).Answer; a.Verdict.Admittable != word {
		t.Fatalf("%+v", a)
	}
	if due := r.h.Due(); due > r.told+20*time.Millisecond {
		t.Fatalf("the next word is due %v after the last", due-r.told)
	}
	r.now = r.told + 20*time.Millisecond
	if fx := r.step(host.Tick{}); !fx.Publish || fx.Answer.Verdict.Admittable != word {
		t.Errorf("what was told in between stands: %+v", fx)
	}
	if due := r.h.Due(); due < r.told+time.Second {
		t.Errorf("there is no more to say, and a word is due %v after the last", due-r.told)
	}
}
