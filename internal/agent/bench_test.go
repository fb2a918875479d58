package agent_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
)

// BenchmarkSample is what a sample of everything costs with 200 sandboxes. cpu-ms/op is what
// the target is about: 1,000 sandboxes below 20 ms.
func BenchmarkSample(b *testing.B) {
	r := startRig(b, func(c *agent.Config) { c.Budget = 0; c.SampleSandboxes = time.Hour })
	r.crowd(200)
	var before, after unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &before)
	for b.Loop() {
		s, err := r.Measure(b.Context())
		if err != nil || len(s.Sandboxes) != 200 {
			b.Fatalf("%d sandboxes, %v", len(s.Sandboxes), err)
		}
	}
	unix.Getrusage(unix.RUSAGE_SELF, &after)
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	b.ReportMetric(float64(cpu.Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

// crowd boots so many sandboxes.
func (r *rig) crowd(n int) {
	r.t.Helper()
	small := ask()
	small.Memory = 16 * gate.MiB
	var all errgroup.Group
	all.SetLimit(4)
	for i := range n {
		text := r.reserveFor(fmt.Sprint("s", i), 1, time.Minute, small)
		all.Go(func() error {
			_, err := r.boot.Run(r.t.Context(), text, boot.Command{Argv: []string{"/bin/sleep", "1000"}, Detach: true}, nil, nil, nil)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		r.t.Fatal(err)
	}
}

// BenchmarkReserve is one promise, written down, by as many callers as there are.
func BenchmarkReserve(b *testing.B) {
	r := startRig(b, func(c *agent.Config) { c.Host.MaxWaitingStarts = 1 << 20 })
	v, err := r.Verdict(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			id := fmt.Sprintf("%p-%d", p, i)
			a, err := r.Do(b.Context(), host.Reserve{ID: id, Gen: 1, Ask: ask(), Until: v.At + time.Hour, Incarnation: v.Incarnation})
			if err != nil || a.Denial != "" {
				b.Fatal(a.Denial, err)
			}
			r.Do(b.Context(), host.Release{ID: id, Gen: 1})
		}
	})
}
