package herd

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

func smallBurst() BurstOptions {
	return BurstOptions{Creates: 2000, Hosts: 100, Slots: 29, Replicas: 16, Within: time.Second, Bursts: 2, Seed: 1, Jobs: 2}
}

// T01, T02, T04, T05: 20,000 creates within a second over 1,000 hosts and 16 replicas, whose
// views are a little old and agree. The hosts admit no more than fits, nobody is refused while
// there is room, and own share first keeps the load even at hardly more than one question a
// create. Without the share the same burst runs to the same few hosts.
func TestBurstOverStaleViews(t *testing.T) {
	o := DefaultBurst()
	for name, even := range map[string]float64{Deltas: 1.15, NoShare: 1.5} {
		f, err := o.play(context.Background(), name, o.Seed)
		if err != nil {
			t.Fatal(err)
		}
		b := o.sum(name, []*fleet{f})
		t.Logf("%+v", b)
		if f.got.Admitted != 20_000 || b.OverAdmissions != 0 || b.MaxOverMean > even || b.Calls > 1.01 {
			t.Errorf("%+v", b)
		}
		if name == NoShare && b.MaxOverMean < 1.3 {
			t.Errorf("without a share it is as even: %+v", b)
		}
	}
}

// The peers' hosts have the last word, too.
func TestBurstOfThePeers(t *testing.T) {
	r, err := SimulateBurst(context.Background(), smallBurst())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Peers) != 4 || r.Broken() != nil {
		t.Errorf("%+v", r)
	}
	for _, b := range r.all() {
		if b.OverAdmissions != 0 || b.Most > 29 {
			t.Errorf("%+v", b)
		}
	}
}

// More than fits: ours fills every host to its last slot, and what it refuses is right.
func TestBurstBeyondTheRoom(t *testing.T) {
	o := smallBurst()
	o.Creates, o.Replicas = 3500, 8
	f, err := o.play(context.Background(), Deltas, 1)
	if err != nil {
		t.Fatal(err)
	}
	if f.got.Admitted != 2900 || f.got.Refused != 600 || f.got.wrong != 0 || f.got.over != 0 || f.fewest() != 29 {
		t.Errorf("%+v", f.got)
	}
}

func TestBurstSameSeedSameBytes(t *testing.T) {
	o := smallBurst()
	o.Creates = 500
	var last string
	for _, jobs := range []int{1, 3} {
		o.Jobs = jobs
		r, err := SimulateBurst(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if last != "" && string(out) != last {
			t.Errorf("%s\n%s", out, last)
		}
		last = string(out)
	}
}

// T01, T02, T09: 2,000 creates on eight equal hosts that have room for all, by four replicas or
// by one of four, at once or in a second, where processes get their turns now and then: the load
// ends even, but for what a view is old by.
func TestCrowdIsEven(t *testing.T) {
	for _, c := range []struct {
		alone        bool
		turn, within time.Duration
		apart        int
	}{
		{false, time.Millisecond, 0, 2},
		{false, time.Millisecond, time.Second, 1},
		{false, 10 * time.Millisecond, time.Second, 2},
		{false, 50 * time.Millisecond, time.Second, 6},
		{true, time.Millisecond, 0, 1},
		{true, time.Millisecond, time.Second, 2},
		{true, 10 * time.Millisecond, time.Second, 4},
		{true, 50 * time.Millisecond, time.Second, 14},
	} {
		for seed := range uint64(3) {
			f := crowd(c.alone, c.turn, c.within, seed)
			least, most := f.fewest(), f.most()
			what := fmt.Sprintf("one alone %v, turns of %v, within %v, seed %d: %d to %d on a host", c.alone, c.turn, c.within, seed, least, most)
			t.Log(what)
			if f.got.Admitted != 2000 || f.got.over > 0 {
				t.Errorf("%s: %+v", what, f.got)
			}
			if most-250 > c.apart || 250-least > c.apart {
				t.Error(what)
			}
		}
	}
}

// crowd plays 2,000 creates over processes that share too few processors.
func crowd(alone bool, turn, within time.Duration, seed uint64) *fleet {
	const creates = 2000
	ask := gate.Ask{Class: "agent", Memory: 2 * gate.GiB, Stateful: true}
	f := newFleet(8, 320, 4, &ask, seed)
	d := newDeltas(f, true)
	f.turns = &turns{every: turn, next: map[int]time.Duration{}}
	for k := range creates {
		c, r := create{at: within * time.Duration(k) / creates, life: forever, nth: k}, k%f.replicas
		if alone {
			r = 0
		}
		f.at(c.at, func() { f.hand(r, 0, func() { d.come(r, &c) }) })
	}
	for f.got.Admitted+f.got.Refused < creates {
		f.step()
	}
	return f
}
