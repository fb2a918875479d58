package host_test

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// The package comment's figures.
func Example() {
	h := host.New(host.DefaultConfig("h1", 16), 1)
	h.Step(0, host.Sample{Budget: 4 * gate.GiB, Full: true})
	a := gate.Ask{Memory: 512 * gate.MiB, Rule: gate.ReserveRule{Permille: 250, Floor: 64 * gate.MiB}}
	for i := 1; ; i++ {
		answer := h.Step(time.Second, host.Reserve{
			ID: fmt.Sprint("sandbox-", i), Gen: 1, Ask: a, Until: time.Minute, Incarnation: 1,
		}).Answer
		if answer.Denial != "" {
			fmt.Printf("%d: %s, %s admittable\n", i, answer.Denial, answer.Verdict.Admittable)
			return
		}
	}
	// Output: 31: no_room, 0 MiB admittable
}

func ExampleHost_Step() {
	h := host.New(host.DefaultConfig("h1", 4), 1)
	h.Step(0, host.Sample{Limits: []gate.Limit{{Name: "machine", Size: 32 * gate.GiB}}})
	a := gate.Ask{Memory: 4 * gate.GiB, Rule: gate.DefaultReserveRule()}
	say := func(what string, ev host.Event) {
		answer := h.Step(time.Second, ev).Answer
		fmt.Printf("%s: %q, %s admittable\n", what, answer.Denial, answer.Verdict.Admittable)
	}
	say("reserve", host.Reserve{ID: "a", Gen: 7, Ask: a, Until: time.Minute, Incarnation: 1})
	say("redeem", host.Redeem{ID: "a", Epoch: 7})
	say("replay", host.Redeem{ID: "a", Epoch: 7})
	say("track", host.Track{ID: "a", Epoch: 7, Process: host.Process{Pid: 4711}})
	say("done", host.Done{ID: "a", Epoch: 7, Reason: "exit 0"})
	// Output:
	// reserve: "", 30105 MiB admittable
	// redeem: "", 30105 MiB admittable
	// replay: "used", 30105 MiB admittable
	// track: "", 30105 MiB admittable
	// done: "", 31129 MiB admittable
}
