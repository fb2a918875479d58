package learn

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Runs is what was seen of one template's runs: at one host in one incarnation, or of many
// merged. It has at most a few thousand numbers, however much was seen. The zero value has
// seen nothing.
type Runs struct {
	peaks    counts // runs, by what they peaked at
	resident counts // seconds, by what was resident
	judged   tally
}

// tally counts the runs that ended under a learned reserve.
type tally struct {
	Runs  int64 `json:"runs"`
	Above int64 `json:"above"` // of them, that peaked above it
	Well  int64 `json:"well"`  // of those, by more than an eighth
	Far   int64 `json:"far"`   // of those, by more than it is
}

// Ended notes a run that ended, or was cut off: what it peaked at, and under which learned
// reserve it stood. Zero is for none, as on a committed host or under the prior: such a run
// teaches, and judges nothing.
func (r *Runs) Ended(peak, reserve gate.Bytes) {
	r.peaks.add(bucketOf(peak), 1)
	if reserve <= 0 {
		return
	}
	r.judged = r.judged.plus(tally{
		Runs: 1, Above: one(peak > reserve), Well: one(peak > wellAbove(reserve)), Far: one(peak > farAbove(reserve)),
	})
}

// Where well above a reserve begins, and far above.
func wellAbove(reserve gate.Bytes) gate.Bytes { return reserve.Add(reserve / 8) }
func farAbove(reserve gate.Bytes) gate.Bytes  { return reserve.Add(reserve) }

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// Sampled notes n samples of one second at so much.
func (r *Runs) Sampled(resident gate.Bytes, n int64) { r.resident.add(bucketOf(resident), n) }

// Merge adds what o has seen. The order of merging does not matter.
func (r *Runs) Merge(o *Runs) {
	r.peaks.merge(o.peaks)
	r.resident.merge(o.resident)
	r.judged = r.judged.plus(o.judged)
}

// Replace takes out what it has of was, and adds is: a later word of one host in place of an
// earlier one that was merged before.
func (r *Runs) Replace(was, is *Runs) {
	r.peaks.replace(was.peaks, is.peaks)
	r.resident.replace(was.resident, is.resident)
	r.judged = r.judged.plus(is.judged.minus(was.judged))
}

// N is how many runs ended.
func (r *Runs) N() int64 { return r.peaks.total() }

// Seconds is how many samples of one second were taken.
func (r *Runs) Seconds() int64 { return r.resident.total() }

// Mean is what was resident on average, over all the seconds sampled.
func (r *Runs) Mean() gate.Bytes {
	n := r.Seconds()
	if n == 0 {
		return 0
	}
	var sum float64 // in the order of buckets, and each product rounded: the same bits everywhere
	for _, bucket := range slices.Sorted(maps.Keys(r.resident)) {
		sum += float64(float64(r.resident[bucket]) * float64(upperOf(bucket).FloorMiB()))
	}
	return gate.Bytes(sum / float64(n) * float64(gate.MiB))
}

// Above is the part of the sampled time in which more than b was resident.
func (r *Runs) Above(b gate.Bytes) float64 { return share(r.resident.above(b), r.Seconds()) }

func share(n, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// since is what came after o was seen. Where less has been seen than in o, as when a host's
// runs were dropped, that part is empty.
func (r *Runs) since(o *Runs) Runs {
	return Runs{peaks: r.peaks.since(o.peaks), resident: r.resident.since(o.resident)}
}

// clone is a copy of its own.
func (r *Runs) clone() Runs {
	var c Runs
	c.Merge(r)
	return c
}

func (t tally) plus(o tally) tally {
	return tally{
		Runs:  min(t.Runs+o.Runs, mostCount),
		Above: min(t.Above+o.Above, mostCount),
		Well:  min(t.Well+o.Well, mostCount),
		Far:   min(t.Far+o.Far, mostCount),
	}
}

func (t tally) minus(o tally) tally {
	return tally{Runs: t.Runs - o.Runs, Above: t.Above - o.Above, Well: t.Well - o.Well, Far: t.Far - o.Far}
}

// sound says whether it can be a tally: the far are well above, those above, and those runs.
func (t tally) sound() bool {
	return t.Far >= 0 && t.Far <= t.Well && t.Well <= t.Above && t.Above <= t.Runs && t.Runs <= mostCount
}

// wireRuns is the JSON form: {"peaks": {"277": 12}, …}, by bucket.
type wireRuns struct {
	Peaks    counts `json:"peaks,omitempty"`
	Resident counts `json:"resident,omitempty"`
	Judged   tally  `json:"judged,omitzero"`
}

// MarshalJSON writes the same runs always in the same bytes.
func (r Runs) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireRuns{r.peaks, r.resident, r.judged})
}

// UnmarshalJSON refuses what no Runs can be.
func (r *Runs) UnmarshalJSON(text []byte) error {
	var w wireRuns
	if err := json.Unmarshal(text, &w); err != nil {
		return fmt.Errorf("runs: %w", err)
	}
	if fault := w.Peaks.fault(); fault != "" {
		return fmt.Errorf("runs: peaks: %s", fault)
	}
	if fault := w.Resident.fault(); fault != "" {
		return fmt.Errorf("runs: resident: %s", fault)
	}
	if !w.Judged.sound() {
		return fmt.Errorf("runs: judged: %+v cannot be", w.Judged)
	}
	*r = Runs{w.Peaks, w.Resident, w.Judged}
	return nil
}
