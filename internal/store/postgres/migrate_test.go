package postgres

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
)

// Several operators migrate an empty database at once: the schema is made once.
func TestMigrateAtOnce(t *testing.T) {
	dsn := emptySchema(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if s, err := Migrate(context.Background(), dsn); err != nil || s.Version != s.Known {
				t.Error(s, err)
			}
		})
	}
	wg.Wait()
	opened(t, dsn, Options{})
}

// A replica that starts changes no schema: it says who does.
func TestOpenMigratesNothing(t *testing.T) {
	dsn := emptySchema(t)
	mustNotOpen(t, dsn, sqlcore.ErrOlder, "no schema yet", "plimsoll store migrate --config FILE")
	if s, err := Status(t.Context(), dsn); err != nil || s.Version != 0 || s.Known < 2 {
		t.Errorf("%+v %v", s, err)
	}
	if _, err := migrateTo(t.Context(), dsn, storetest.Releases(t, mustKnow(t), 1)); err != nil {
		t.Fatal(err)
	}
	administer(t, dsn, "ALTER TABLE schema_version DROP COLUMN oldest_program") // as program 1 made it
	mustNotOpen(t, dsn, sqlcore.ErrOlder, "version 1", "plimsoll store migrate --config FILE")
	if s, err := Status(t.Context(), dsn); err != nil || s.Version != 1 {
		t.Errorf("%+v %v", s, err)
	}
	if s, err := Migrate(t.Context(), dsn); err != nil || s.Version != s.Known {
		t.Errorf("%+v %v", s, err)
	}
	opened(t, dsn, Options{})
}

// A program that was rolled back equals the model on the schema that the newer one left.
func TestRolledBackProgram(t *testing.T) {
	storetest.Compare(t, func(t testing.TB) storetest.Opened {
		return freshOf(t, storetest.NextRelease(t, mustKnow(t), false))
	})
}

// Replicas go on while a newer program's migration runs under them, and start beside it.
func TestMigrateUnderLoad(t *testing.T) {
	dsn := freshSchema(t)
	s := opened(t, dsn, Options{})
	storetest.Configure(t, s, storetest.OnePool(-1, 5))
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			for i := range 100 {
				if _, err := s.Claim(context.Background(), newClaim(1000*c+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if _, err := migrateTo(t.Context(), dsn, storetest.NextRelease(t, mustKnow(t), false)); err != nil {
		t.Error(err)
	}
	wg.Wait()
	opened(t, dsn, Options{})
}

func TestConstraints(t *testing.T) {
	clock, dsn := storetest.NewClock(), freshSchema(t)
	o := storetest.Opened{Clock: clock, Open: func(t testing.TB) control.Store {
		return opened(t, dsn, Options{Clock: clock.Now})
	}}
	storetest.Constraints(t, o, func(statement string) error {
		return connected(t.Context(), dsn, func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), statement)
			return err
		})
	})
}

// A schema that has taken away what this program needs refuses it, and so does migrating it.
func TestContractedSchema(t *testing.T) {
	dsn := emptySchema(t)
	if _, err := migrateTo(t.Context(), dsn, storetest.NextRelease(t, mustKnow(t), true)); err != nil {
		t.Fatal(err)
	}
	mustNotOpen(t, dsn, sqlcore.ErrNewer, "use the newer program", "restore a backup")
	if _, err := Migrate(t.Context(), dsn); !errors.Is(err, sqlcore.ErrNewer) {
		t.Error(err)
	}
}

func mustKnow(t testing.TB) fs.FS {
	t.Helper()
	dir, err := known()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustNotOpen(t *testing.T, dsn string, is error, words ...string) {
	t.Helper()
	_, err := Open(t.Context(), dsn, Options{})
	if !errors.Is(err, is) {
		t.Fatalf("got %v, want %v", err, is)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// A scratch schema is ready to be worked on, touches nothing beside it, and is gone afterwards.
func TestScratch(t *testing.T) {
	dsn := emptySchema(t)
	at, drop, err := Scratch(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), at, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), drop()); err != nil {
		t.Error(err)
	}
	for _, where := range []string{dsn, at} {
		if got, err := Status(t.Context(), where); err != nil || got.Version != 0 {
			t.Errorf("%+v %v", got, err)
		}
	}
}
