package density

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/plimsoll-project/plimsoll/gate"
)

// longestMS is the longest life that is played: a week.
const longestMS = 7 * 24 * 3600 * 1000

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

// open opens a file, of which others may have written a byte order mark at the head.
func open(file string) (io.ReadCloser, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: name a CSV file that can be read; plimsoll sim density --help says what is in it", err)
	}
	text := bufio.NewReader(in)
	if head, _ := text.Peek(len(mark)); string(head) == mark {
		text.Discard(len(mark))
	}
	return struct {
		io.Reader
		io.Closer
	}{text, in}, nil
}

const mark = "\uFEFF" // a byte order mark

// eachRow hands every row's named columns on, in this order.
func eachRow(file string, columns []string, row func([]string) error) error {
	in, err := open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	r := csv.NewReader(in)
	r.ReuseRecord = true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: it is empty; its first line names the columns %q", file, columns)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	where := make([]int, len(columns))
	for i, name := range columns {
		if where[i] = slices.Index(header, name); where[i] < 0 {
			return fmt.Errorf("%s:1: there is no column %q; the first line names the columns %q", file, name, columns)
		}
	}
	fields := make([]string, len(columns))
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for i := range fields {
			fields[i] = record[where[i]]
		}
		if err := row(fields); err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("%s:%d: %w", file, line, err)
		}
	}
}

func milliseconds(name, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > longestMS {
		return 0, fmt.Errorf("%s %q: write whole milliseconds, from 0 to %d (a week)", name, text, longestMS)
	}
	return n, nil
}

func mebibytes(name, text string) (gate.Bytes, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > float64(gate.PiB/gate.MiB) {
		return 0, fmt.Errorf("%s %q: write MiB, from 0 to %d", name, text, gate.PiB/gate.MiB)
	}
	return gate.Bytes(n * float64(gate.MiB)), nil
}
