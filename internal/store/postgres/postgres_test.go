package postgres

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	storetest.Deterministic(8, 100)
	os.Exit(m.Run())
}

func TestStore(t *testing.T) { storetest.Run(t, fresh) }

func BenchmarkClaim(b *testing.B) { storetest.Bench(b, fresh) }

func fresh(t testing.TB) storetest.Opened {
	dir, err := known()
	if err != nil {
		t.Fatal(err)
	}
	return freshOf(t, dir)
}

// freshOf is a database whose schema these migrations made.
func freshOf(t testing.TB, dir fs.FS) storetest.Opened {
	clock, dsn := storetest.NewClock(), emptySchema(t)
	if _, err := migrateTo(t.Context(), dsn, dir); err != nil {
		t.Fatal(err)
	}
	dsn += separator(dsn) + fmt.Sprintf("application_name=test%x", rand.Uint64())
	return storetest.Opened{
		Clock: clock, Shared: true,
		Open:    func(t testing.TB) control.Store { return opened(t, dsn, Options{Clock: clock.Now}) },
		Halting: func(t testing.TB) control.Store { return halting(t, dsn, Options{Clock: clock.Now}) },
		Disturb: func(t testing.TB) { endSessions(t, dsn) },
	}
}

// opened opens a store and runs its writer until the test ends.
func opened(t testing.TB, dsn string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	return s
}

func run(t testing.TB, s *Store) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// freshSchema makes a schema of the test's own, brings it up to date, and drops it in the end.
func freshSchema(t testing.TB) string {
	t.Helper()
	dsn := emptySchema(t)
	if _, err := Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	return dsn
}

func emptySchema(t testing.TB) string {
	t.Helper()
	dsn := server(t)
	schema := fmt.Sprintf("test_%x", rand.Uint64())
	administer(t, dsn, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { administer(t, dsn, "DROP SCHEMA "+schema+" CASCADE") })
	return dsn + separator(dsn) + "search_path=" + schema
}

// server is the PostgreSQL that the tests run on. Without one they fail: a suite that
// skips what it is for says nothing.
func server(t testing.TB) string {
	t.Helper()
	dsn := os.Getenv("PLIMSOLL_TEST_POSTGRES")
	if dsn == "" && testing.Short() {
		t.Skip("no PLIMSOLL_TEST_POSTGRES, and -short")
	}
	if dsn == "" {
		t.Fatal("PLIMSOLL_TEST_POSTGRES is not set: run `make test`, which starts a throw-away PostgreSQL, or use -short")
	}
	return dsn
}

func administer(t testing.TB, dsn, statement string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatal(err)
	}
}
