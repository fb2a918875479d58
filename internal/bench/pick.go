package bench

import (
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/table"
)

// PickOptions are a run's settings; the zero value takes every default.
type PickOptions struct {
	Hosts   int    // 100,000
	Ops     int    // timed picks by the table; 400,000
	ScanOps int    // timed picks by the essay's loop; 200
	Held    int    // reserves that stand at a time; 1,000
	Seed    uint64 // of fleet and requests
}

func (o PickOptions) withDefaults() PickOptions {
	for _, f := range []struct {
		field *int
		value int
	}{{&o.Hosts, 100_000}, {&o.Ops, 400_000}, {&o.ScanOps, 200}, {&o.Held, 1000}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return o
}

// PickResult is what plimsoll bench pick prints. An operation is pick, reserve, and the release
// of the oldest reserve that stands.
type PickResult struct {
	Hosts int `json:"hosts"`
	Times
	AllocsPerOp    float64          `json:"allocs_per_op"`
	TableBytes     int64            `json:"table_bytes"` // heap that the table of these hosts takes
	FullFleet      Times            `json:"full_fleet"`  // the same asks, refused by every host
	Peers          map[string]Times `json:"peers"`
	RatioEssayScan float64          `json:"ratio_essay_scan"` // the loop's p50 ÷ the table's
}

// Pick measures the table against the essay's loop.
func Pick(o PickOptions) (PickResult, error) {
	o = o.withDefaults()
	fleet := makeFleet(o.Hosts, o.Seed)
	before := heap()
	index, err := newIndexed(fleet, o)
	if err != nil {
		return PickResult{}, err
	}
	size := heap() - before
	full, err := newIndexed(filled(fleet), o)
	if err != nil {
		return PickResult{}, err
	}
	scan := newScanned(fleet, o)
	r := PickResult{Hosts: o.Hosts, TableBytes: size}
	got := measure(o.Ops, Batch, index.op)
	r.Times, r.AllocsPerOp = got.Times, got.allocs
	r.FullFleet = measure(o.Ops, Batch, full.op).Times
	peer := measure(o.ScanOps, 1, scan.op).Times
	r.Peers = map[string]Times{"essay_scan": peer}
	r.RatioEssayScan = float64(peer.P50) / float64(max(r.P50, 1))
	if err := index.table.CheckInvariants(); err != nil {
		return r, fmt.Errorf("bench: after the run: %w", err)
	}
	return r, nil
}

// Print writes the result as a table for people.
func (r PickResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%d hosts\tp50\tp99\t\n", r.Hosts)
	fmt.Fprintf(t, "pick + reserve + release\t%d ns\t%d ns\t\n", r.P50, r.P99)
	fmt.Fprintf(t, "a refusal by a full fleet\t%d ns\t%d ns\t\n", r.FullFleet.P50, r.FullFleet.P99)
	peer := r.Peers["essay_scan"]
	fmt.Fprintf(t, "the essay's loop\t%d ns\t%d ns\t\n", peer.P50, peer.P99)
	fmt.Fprintf(t, "ratio\t%.0f ×\t\t\n", r.RatioEssayScan)
	fmt.Fprintf(t, "allocations\t%.2f\t\t\n", r.AllocsPerOp)
	fmt.Fprintf(t, "the table\t%.1f MiB\t\t\n", float64(r.TableBytes)/(1<<20))
	return t.Flush()
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
func makeAsks(seed uint64) []gate.Ask {
	rng := rand.New(rand.NewPCG(seed, 2))
	asks := make([]gate.Ask, 4096)
	for i := range asks {
		asks[i] = gate.Ask{
			Memory: 512 * gate.MiB << rng.IntN(5), CPUMilli: 250 << rng.IntN(3),
			Stateful: rng.IntN(20) == 0, Rule: gate.DefaultReserveRule(),
		}
	}
	return asks
}

// indexed runs the stream over Plimsoll's table.
type indexed struct {
	table *table.Table
	asks  []gate.Ask
	held  []table.Charge // a ring
	n     int
	opts  table.PickOptions
}

func newIndexed(fleet []table.Verdict, o PickOptions) (*indexed, error) {
	x := &indexed{table: table.New(table.Options{}), asks: makeAsks(o.Seed), held: make([]table.Charge, o.Held)}
	for i := range fleet {
		if _, err := x.table.Observe(&fleet[i], 0); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	return x, nil
}

func (x *indexed) op() {
	a, slot := &x.asks[x.n%len(x.asks)], x.n%len(x.held)
	x.n++
	x.opts.Rand = uint64(x.n)
	x.table.Uncharge(x.held[slot])
	x.held[slot] = table.Charge{}
	if c, ok := x.table.Pick(0, a, &x.opts); ok {
		x.held[slot] = x.table.Charge(c.Ref, a, 0)
	}
}
