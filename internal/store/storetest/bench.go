package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Bench measures durable claims on one hot pool by 32 callers; held is how many slots of
// the pool are taken already, waiting how many wait in its line.
func Bench(b *testing.B, fresh func(testing.TB) Opened) {
	for _, with := range []struct{ held, waiting int }{{0, 0}, {2000, 0}, {0, 1000}} {
		b.Run(fmt.Sprintf("held=%d,waiting=%d", with.held, with.waiting), func(b *testing.B) {
			s := fresh(b).Open(b)
			Configure(b, s, OnePool(pool.Unlimited, 1<<40))
			crowded(b, s, with.held, with.waiting)
			b.ResetTimer()
			n := callers(b, s, 32, b.N)
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "claims/s")
		})
	}
}

// crowded fills the pool. Waiters that count as lately without a host and of another kind
// stand in nobody's way, so that every claim is granted.
func crowded(b testing.TB, s control.Store, held, waiting int) {
	crowd(32, func(c int) {
		for i := c; i < held+waiting; i += 32 {
			claim := newClaim(1_000_000 + i)
			if i >= held {
				claim.Mode, claim.MaxQueueAge, claim.Contents.Class = pool.Queue, 1<<50, "other"
			}
			got, err := s.Claim(context.Background(), claim)
			if err == nil && i >= held {
				_, err = s.NoRoom(context.Background(), got.Row.ID, got.Row.Gen, true, 0)
			}
			if err != nil {
				b.Error(err)
			}
		}
	})
}

// callers share total claims among n goroutines.
func callers(b testing.TB, s control.Store, n, total int) int64 {
	var next, granted atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(total); i = next.Add(1) {
				c, err := s.Claim(context.Background(), newClaim(int(i)))
				if err != nil || c.Verdict != pool.Granted {
					b.Error(c.Verdict, err)
					return
				}
				granted.Add(1)
			}
		})
	}
	wg.Wait()
	return granted.Load()
}
