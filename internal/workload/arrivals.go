package workload

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Arrival is one create that was asked for.
type Arrival struct {
	At         time.Duration // from the beginning
	Batch      int           // what one tenant asked for at the same time has the same number
	CPUMilli   int64
	Configured gate.Bytes
	Life       time.Duration
	Censored   bool // it still ran when the record ended: Life is at least that
}

var arrivalColumns = []string{"arrival_ms", "batch", "vcpu", "configured_mib", "lifetime_ms", "censored"}

// Bounds of what is read: more is a mistake of the writer's, not a workload.
const (
	longestRecordMS = 10 * 366 * 24 * 3600 * 1000 // ten years, for lives that are long, too
	mostBatch       = 1<<31 - 1
	mostCPU         = 1 << 20
)

// ReadArrivals reads a CSV file with the columns arrival_ms, batch, vcpu, configured_mib,
// lifetime_ms and censored (0 or 1). Its rows may be in any order; what is returned is in that of
// time, those of the same instant as they stood in the file. Every error names file and line.
func ReadArrivals(file string) ([]Arrival, error) {
	var all []Arrival
	err := eachRow(file, arrivalColumns, func(f []string) error {
		a, err := arrival(f)
		all = append(all, a)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no arrivals in it; write one in each line after the first", file)
	}
	slices.SortStableFunc(all, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return all, nil
}

// arrival is one row, its fields in the order of the columns.
func arrival(f []string) (a Arrival, err error) {
	if a.At, err = recorded("arrival_ms", f[0]); err != nil {
		return a, err
	}
	batch, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil || batch < 0 || batch > mostBatch {
		return a, fmt.Errorf("batch %q: write a whole number, the same for what one tenant asked for at the same time", f[1])
	}
	a.Batch = int(batch)
	if a.CPUMilli, err = milliCPU(f[2]); err != nil {
		return a, err
	}
	if a.Configured, err = mebibytes("configured_mib", f[3]); err != nil {
		return a, err
	}
	if a.Configured == 0 {
		return a, fmt.Errorf("configured_mib %q: a sandbox is configured with more than nothing", f[3])
	}
	if a.Life, err = recorded("lifetime_ms", f[4]); err != nil {
		return a, err
	}
	if a.Censored = f[5] == "1"; !a.Censored && f[5] != "0" {
		return a, fmt.Errorf("censored %q: write 1 if it still ran when the record ended, else 0", f[5])
	}
	return a, nil
}

// recorded is a time of the record.
func recorded(name, text string) (time.Duration, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > longestRecordMS {
		return 0, fmt.Errorf("%s %q: write whole milliseconds, from 0 to %d (ten years)", name, text, longestRecordMS)
	}
	return time.Duration(n) * time.Millisecond, nil
}

func milliCPU(text string) (int64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > mostCPU {
		return 0, fmt.Errorf("vcpu %q: write a number of cores, as 2 or 0.5, from 0 to %d", text, mostCPU)
	}
	return int64(math.Round(n * 1000)), nil
}

// WriteArrivals writes what ReadArrivals reads.
func WriteArrivals(w io.Writer, all []Arrival) error {
	c := csv.NewWriter(w)
	c.Write(arrivalColumns) // it keeps its error for Flush
	for _, a := range all {
		censored := "0"
		if a.Censored {
			censored = "1"
		}
		c.Write([]string{
			strconv.FormatInt(a.At.Milliseconds(), 10),
			strconv.Itoa(a.Batch),
			shortest(float64(a.CPUMilli) / 1000),
			shortest(float64(a.Configured) / float64(gate.MiB)),
			strconv.FormatInt(a.Life.Milliseconds(), 10),
			censored,
		})
	}
	c.Flush()
	return c.Error()
}

func shortest(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
