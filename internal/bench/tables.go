package bench

import (
	"fmt"
	"math/rand/v2"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/table"
)

// bed is a table's hosts and the requests that come to it.
type bed struct {
	name  string
	what  string
	hosts []table.Verdict
	asks  []request
}

// request is an ask with the hosts that refused it already.
type request struct {
	gate.Ask
	exclude []string
}

// beds are the tables that a pick is measured on.
func beds(o PickOptions) []bed {
	half := makeFleet(o.Hosts, o.Seed)
	asks := makeAsks(o.Seed)
	crowded := filled(half)
	for i := 0; i < len(crowded); i += 1000 { // one in a thousand has room, and the worst score
		crowded[i].Admittable, crowded[i].Free = gate.FromMiB(crowded[i].Limit.Permille(400).FloorMiB()), 0
	}
	return []bed{
		{"half_empty", "from idle to nearly full, four sizes", half, asks},
		{"full", "no host has room: a refusal", filled(half), asks},
		{"full_of_full_hosts", "999 of 1,000 hosts are full, and score best", crowded, asks},
		{"adversarial", "equal scores in one bucket, memory without the dimension, 90 sets of labels, exclusions", traps(o.Hosts), trapAsks(o.Seed)},
	}
}

// traps is a fleet where everything stands in the way: all hosts score the same and have memory;
// half have nothing left of a dimension, a quarter have no slot, and labels split the rest.
func traps(n int) []table.Verdict {
	fleet := make([]table.Verdict, n)
	for i := range fleet {
		v := table.Verdict{
			Host: fmt.Sprintf("agent-%06x", i), Sequence: 1, Limit: 64 * gate.GiB, MaxAsk: 60 * gate.GiB,
			Admittable: 40 * gate.GiB, Free: 40 * gate.GiB, CPUFreeMilli: 16_000,
			Dims: []gate.Dim{{Name: "gpus"}, {Name: gate.SandboxDim, N: 100}},
		}
		switch i % 8 {
		case 0, 1, 2, 3: // memory, and no card
		case 4, 5: // memory, and no slot
			v.Dims = []gate.Dim{{Name: "gpus", N: 4}, {Name: gate.SandboxDim}}
		case 6:
			v.Dims = []gate.Dim{{Name: "gpus", N: 4}, {Name: gate.SandboxDim, N: 100}}
		default:
			v.Dims[0].N = 8
			v.Labels = []gate.Label{{Name: "rack", Value: fmt.Sprint(i / 8 % 90)}}
		}
		fleet[i] = v
	}
	return fleet
}

// trapAsks draws requests of which most want a card, some a rack, and some were refused before.
func trapAsks(seed uint64) []request {
	rng := rand.New(rand.NewPCG(seed, 3))
	asks := makeAsks(seed)
	for i := range asks {
		a := &asks[i]
		if rng.IntN(4) > 0 {
			a.Dims = []gate.Dim{{Name: "gpus", N: 1}}
		}
		if rng.IntN(4) == 0 {
			a.Labels = []gate.Label{{Name: "rack", Value: fmt.Sprint(rng.IntN(90))}}
		}
		for k := 0; k < 4 && i%2 == 0; k++ {
			a.exclude = append(a.exclude, fmt.Sprintf("agent-%06x", 6+8*k))
		}
	}
	return asks
}

// makeFleet draws hosts of four sizes, from idle to nearly full, half of them restoring by stream.
func makeFleet(n int, seed uint64) []table.Verdict {
	rng := rand.New(rand.NewPCG(seed, 1))
	fleet := make([]table.Verdict, n)
	for i := range fleet {
		size := 32 * gate.GiB << rng.IntN(4)
		cores := int64(16_000) << rng.IntN(4)
		left := size.Permille(50 + rng.Int64N(900))
		fleet[i] = table.Verdict{
			Host: fmt.Sprintf("agent-%06x", i), Sequence: 1, Limit: size, MaxAsk: size.Permille(950),
			Admittable: gate.FromMiB(left.FloorMiB()), Free: left,
			CPUFreeMilli: rng.Int64N(cores), StreamRestore: rng.IntN(2) == 0,
		}
	}
	return fleet
}

// filled is the fleet with no room anywhere.
func filled(fleet []table.Verdict) []table.Verdict {
	out := append([]table.Verdict(nil), fleet...)
	for i := range out {
		out[i].Admittable = 0
	}
	return out
}

// makeAsks draws a stream of requests: agent sandboxes mostly, one in twenty stateful.
func makeAsks(seed uint64) []request {
	rng := rand.New(rand.NewPCG(seed, 2))
	asks := make([]request, 4096)
	for i := range asks {
		asks[i].Ask = gate.Ask{
			Memory: 512 * gate.MiB << rng.IntN(5), CPUMilli: 250 << rng.IntN(3),
			Stateful: rng.IntN(20) == 0, Rule: gate.DefaultReserveRule(),
		}
	}
	return asks
}
