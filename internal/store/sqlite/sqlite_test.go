package sqlite

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	storetest.Deterministic(12, 120)
	os.Exit(m.Run())
}

func TestStore(t *testing.T) { storetest.Run(t, fresh) }

func fresh(t testing.TB) storetest.Opened {
	clock := storetest.NewClock()
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	return storetest.Opened{Clock: clock, Open: func(t testing.TB) control.Store {
		return opened(t, path, Options{Clock: clock.Now})
	}}
}

// opened opens a store and runs its writer until the test ends.
func opened(t testing.TB, path string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	t.Cleanup(func() {
		_ = s.Close() // most tests have closed it already
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

func BenchmarkClaim(b *testing.B) { storetest.Bench(b, fresh) }
