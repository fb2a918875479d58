package bench

import (
	"os"
	"strings"
	"testing"
	"time"
)

// The figures are printed, never asserted; what is tested is that every kind of run admits what
// it says, without an error, and leaves nothing behind.
func TestAdmitRunsAndPrints(t *testing.T) {
	for _, mode := range []string{OneByOne, InBatches} {
		for _, record := range []string{RecordHost, RecordStore} {
			t.Run(mode+" "+record, func(t *testing.T) {
				t.Setenv("TMPDIR", t.TempDir())
				r, err := Admit(t.Context(), AdmitOptions{Mode: mode, Record: record, Agents: 2, Replicas: 2, Callers: 4, Batch: 8, For: 100 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				var out strings.Builder
				if err := r.Print(&out); err != nil || r.Admissions == 0 || r.Errors > 0 || r.Reserves < 1 || r.P99 < r.P50 || r.P50 == 0 {
					t.Errorf("%v: %+v", err, r)
				}
				if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
					t.Errorf("left behind: %v %v", left, err)
				}
			})
		}
	}
}

func TestAdmitChecksItsFlags(t *testing.T) {
	for _, o := range []AdmitOptions{{Mode: "udp"}, {Record: "paper"}, {Agents: -1}, {Batch: 257}, {For: 1}} {
		o := o.filled()
		if o.check() == nil {
			t.Errorf("taken: %+v", o)
		}
	}
}

// filled is what the flags' own defaults make of options.
func (o AdmitOptions) filled() AdmitOptions {
	d := o.withDefaults()
	d.Agents = max(min(o.Agents, 1), o.Agents)
	if o.Agents == 0 {
		d.Agents = 1
	}
	if o.For != 0 {
		d.For = o.For
	}
	if o.Batch != 0 {
		d.Batch = o.Batch
	}
	return d
}

func BenchmarkAdmit(b *testing.B) {
	for _, mode := range []string{OneByOne, InBatches} {
		for _, record := range []string{RecordHost, RecordStore} {
			b.Run(mode+"/"+record, func(b *testing.B) {
				for range b.N {
					r, err := Admit(b.Context(), AdmitOptions{Mode: mode, Record: record, For: 2 * time.Second})
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(r.PerSec, "admissions/s")
					b.ReportMetric(r.CPU, "cpu-µs/admission")
				}
			})
		}
	}
}
