package workload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Run is one sandbox's life: what was resident in each second of it.
type Run struct {
	Name     string
	Peak     gate.Bytes
	Resident []gate.Bytes
}

// Shuffle puts runs into an order that follows from the seed.
func Shuffle(runs []Run, seed uint64) {
	rand.New(rand.NewPCG(seed, 0x70617274)).Shuffle(len(runs), func(i, j int) { runs[i], runs[j] = runs[j], runs[i] })
}

// Halves parts runs in two, of which one may be learned from and the other played. It shuffles them.
func Halves(runs []Run, seed uint64) (a, b []Run) {
	Shuffle(runs, seed)
	return runs[:len(runs)/2], runs[len(runs)/2:]
}

// MeanLife is how many seconds runs live, on average.
func MeanLife(runs []Run) float64 {
	n := 0
	for i := range runs {
		n += len(runs[i].Resident)
	}
	return float64(n) / float64(len(runs))
}

// Read reads runs from two files: run,lifetime_ms,peak_mib and run,t_ms,resident_mib. The second
// may tell of other runs, too: one file of memory does for the runs of several. Every error names
// file and line.
func Read(runsFile, memoryFile string) ([]Run, error) {
	b := &book{at: map[string]int{}}
	if err := eachRow(runsFile, []string{"run", "lifetime_ms", "peak_mib"}, b.life); err != nil {
		return nil, err
	}
	if len(b.runs) == 0 {
		return nil, fmt.Errorf("%s: no runs in it; write one in each line after the first: run,lifetime_ms,peak_mib", runsFile)
	}
	if err := eachRow(memoryFile, []string{"run", "t_ms", "resident_mib"}, b.seen); err != nil {
		return nil, err
	}
	return b.close(memoryFile)
}

// book gathers runs from rows.
type book struct {
	runs    []Run
	at      map[string]int // run -> its index
	sampled []int          // of each run, up to which second it has been told, from 1
	last    []int64        // of each run, the time of its last sample
	lifes   []int64        // of each run, in ms
	strange int64          // rows of memory of runs that are not among these
}

// life is one row of runs.
func (b *book) life(f []string) error {
	ms, err := milliseconds("lifetime_ms", f[1])
	if err != nil {
		return err
	}
	if ms == 0 {
		return errors.New("lifetime_ms 0: a run lives for at least 1 ms")
	}
	peak, err := mebibytes("peak_mib", f[2])
	if err != nil {
		return err
	}
	if _, twice := b.at[f[0]]; twice || f[0] == "" {
		return fmt.Errorf("run %q: give each run one row and a name", f[0])
	}
	b.at[f[0]] = len(b.runs)
	b.runs = append(b.runs, Run{Name: f[0], Peak: peak, Resident: make([]gate.Bytes, (ms+999)/1000)})
	b.sampled, b.last, b.lifes = append(b.sampled, 0), append(b.last, -1), append(b.lifes, ms)
	return nil
}

// seen is one row of memory. A second has the most that was seen in it; one in which nobody
// looked has what the last look saw.
func (b *book) seen(f []string) error {
	i, known := b.at[f[0]]
	if !known {
		b.strange++
		return nil
	}
	ms, err := milliseconds("t_ms", f[1])
	if err != nil {
		return err
	}
	if ms < b.last[i] {
		return fmt.Errorf("t_ms %d of run %q comes after %d: sort each run's rows by time", ms, f[0], b.last[i])
	}
	b.last[i] = ms
	resident, err := mebibytes("resident_mib", f[2])
	if err != nil {
		return err
	}
	if ms < b.lifes[i] { // else it is the last look, at what had ended
		b.note(i, int(ms/1000), resident)
	}
	return nil
}

func (b *book) note(i, second int, resident gate.Bytes) {
	run := &b.runs[i]
	b.hold(i, second)
	run.Resident[second] = max(run.Resident[second], resident)
	b.sampled[i] = second + 1
}

// hold fills the seconds up to one with what the last look saw.
func (b *book) hold(i, second int) {
	run := &b.runs[i]
	for s := b.sampled[i]; s < second; s++ {
		if s > 0 {
			run.Resident[s] = run.Resident[s-1]
		}
	}
}

// close finishes every run, and puts a peak that fell between two looks where the highest was.
func (b *book) close(memoryFile string) ([]Run, error) {
	for i := range b.runs {
		run := &b.runs[i]
		if b.sampled[i] == 0 {
			return nil, b.unseen(memoryFile, i)
		}
		b.hold(i, len(run.Resident))
		top := &run.Resident[0]
		for s := range run.Resident {
			if run.Resident[s] > *top {
				top = &run.Resident[s]
			}
		}
		*top = max(*top, run.Peak)
		run.Peak = *top
	}
	return b.runs, nil
}

// unseen says what is missing of a run without a sample.
func (b *book) unseen(memoryFile string, i int) error {
	switch name := b.runs[i].Name; {
	case b.strange > 0 && !slices.ContainsFunc(b.last, func(ms int64) bool { return ms >= 0 }):
		return fmt.Errorf("%s: none of its %d rows is of a run among the runs, as %q is: name the runs in both files alike", memoryFile, b.strange, name)
	case b.last[i] < 0:
		return fmt.Errorf("%s: no row of run %q: write what was resident of it, or leave it out of the runs", memoryFile, name)
	default:
		return fmt.Errorf("%s: no sample of run %q within its life of %d ms: t_ms counts from its start", memoryFile, name, b.lifes[i])
	}
}
