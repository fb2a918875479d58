package bench

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/plimsoll-project/plimsoll/table"
)

// PickOptions are a run's settings; the zero value takes every default.
type PickOptions struct {
	Hosts   int    // 100,000
	Ops     int    // timed picks by the table; 400,000
	ScanOps int    // timed picks by each peer; 100
	Held    int    // reserves that stand at a time; 1,000
	Seed    uint64 // of fleet and requests
}

func (o PickOptions) withDefaults() PickOptions {
	for _, f := range []struct {
		field *int
		value int
	}{{&o.Hosts, 100_000}, {&o.Ops, 400_000}, {&o.ScanOps, 100}, {&o.Held, 1000}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return o
}

// PickResult is what plimsoll bench pick prints. An operation is pick, reserve, and the release
// of the oldest reserve that stands. Its own figures are those of the table half_empty.
type PickResult struct {
	Hosts int `json:"hosts"`
	Times
	AllocsPerOp    float64                `json:"allocs_per_op"`
	TableBytes     int64                  `json:"table_bytes"` // heap that the table of these hosts takes
	FullFleet      Times                  `json:"full_fleet"`  // the same asks, refused by every host
	Peers          map[string]Times       `json:"peers"`
	RatioEssayScan float64                `json:"ratio_essay_scan"` // the loop's p50 ÷ the table's
	Tables         map[string]TableResult `json:"tables"`
	what           []bed                  // in the order of printing
}

// TableResult is one table's figures, and its peers' on the same hosts and requests.
type TableResult struct {
	Times
	AllocsPerOp float64            `json:"allocs_per_op"`
	Refused     float64            `json:"refused"` // part of the requests
	Peers       map[string]Times   `json:"peers"`
	Ratios      map[string]float64 `json:"ratios"` // a peer's p50 ÷ the table's
	// SamplerMisses is the part of the requests that the sampler refuses although a host fits.
	SamplerMisses float64 `json:"sampler_misses"`
}

// The peers.
const (
	peerEssay   = "essay_scan"
	peerSampler = "best_of_three"
	peerSort    = "copy_filter_sort"
)

// Pick measures the table against its peers, on several tables.
func Pick(o PickOptions) (PickResult, error) {
	o = o.withDefaults()
	r := PickResult{Hosts: o.Hosts, Tables: map[string]TableResult{}, what: beds(o)}
	for i := range r.what {
		b := &r.what[i]
		before := heap()
		index, err := newIndexed(b, o)
		if err != nil {
			return r, err
		}
		size := heap() - before
		one, err := measureTable(index, b, o)
		if err != nil {
			return r, fmt.Errorf("bench: table %s: %w", b.name, err)
		}
		r.Tables[b.name] = one
		switch b.name {
		case "half_empty":
			r.Times, r.AllocsPerOp, r.TableBytes = one.Times, one.AllocsPerOp, size
			r.Peers, r.RatioEssayScan = one.Peers, one.Ratios[peerEssay]
		case "full":
			r.FullFleet = one.Times
		}
	}
	return r, nil
}

func measureTable(index *indexed, b *bed, o PickOptions) (TableResult, error) {
	got := measure(o.Ops, Batch, index.op)
	if err := index.table.CheckInvariants(); err != nil {
		return TableResult{}, fmt.Errorf("after the run: %w", err)
	}
	r := TableResult{
		Times: got.Times, AllocsPerOp: got.allocs, Refused: float64(index.refused) / float64(index.n),
		Peers: map[string]Times{}, Ratios: map[string]float64{},
	}
	sampler := newPeer(b, o, bestOfThree(o.Seed))
	for name, op := range map[string]func(){
		peerEssay: newScanned(b, o).op, peerSampler: sampler.op, peerSort: newPeer(b, o, filterAndSort).op,
	} {
		r.Peers[name] = measure(o.ScanOps, 1, op).Times
		r.Ratios[name] = math.Round(float64(r.Peers[name].P50) / float64(max(r.P50, 1)))
	}
	r.SamplerMisses = float64(sampler.countMisses(o.ScanOps)) / float64(o.ScanOps)
	return r, nil
}

// Print writes the result as a table for people.
func (r PickResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%d hosts, ns\tp50\tp99\tallocations\tthe essay's loop\tbest of three (misses)\tcopy, filter, sort\t\n", r.Hosts)
	for _, b := range r.what {
		one := r.Tables[b.name]
		fmt.Fprintf(t, "%s\t%d\t%d\t%.2f\t%.0f ×\t%.0f × (%.1f %%)\t%.0f ×\t\n", b.name, one.P50, one.P99, one.AllocsPerOp,
			one.Ratios[peerEssay], one.Ratios[peerSampler], 100*one.SamplerMisses, one.Ratios[peerSort])
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, b := range r.what {
		fmt.Fprintf(w, "%s: %s\n", b.name, b.what)
	}
	_, err := fmt.Fprintf(w, "an operation is pick, reserve and release; a peer's figure is its p50 by the table's\nthe table of half_empty takes %.1f MiB\n", float64(r.TableBytes)/(1<<20))
	return err
}

// indexed runs the stream over Plimsoll's table.
type indexed struct {
	table *table.Table
	asks  []request
	held  []table.Charge // a ring
	n     int
	opts  table.PickOptions

	ask, slot int // next

	refused int
}

func newIndexed(b *bed, o PickOptions) (*indexed, error) {
	x := &indexed{table: table.New(table.Options{}), asks: b.asks, held: make([]table.Charge, o.Held)}
	for i := range b.hosts {
		if _, err := x.table.Observe(&b.hosts[i], 0); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	return x, nil
}

func (x *indexed) op() {
	a, slot := &x.asks[x.ask], x.slot
	x.n++
	if x.ask++; x.ask == len(x.asks) { // a division costs as much as a line of the table
		x.ask = 0
	}
	if x.slot++; x.slot == len(x.held) {
		x.slot = 0
	}
	x.opts.Rand, x.opts.Exclude = uint64(x.n), a.exclude
	x.table.Uncharge(x.held[slot])
	x.held[slot] = table.Charge{}
	if c, ok := x.table.Pick(0, &a.Ask, &x.opts); ok {
		x.held[slot] = x.table.Charge(c.Ref, &a.Ask, 0)
	} else {
		x.refused++
	}
}
