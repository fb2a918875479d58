package sqlite

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
)

func known(t testing.TB) fs.FS {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// migrated is a database whose schema these migrations made.
func migrated(t testing.TB, dir fs.FS) string {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	db, err := connect(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.migrate(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// A program that was rolled back equals the model on the schema that the newer one left.
func TestRolledBackProgram(t *testing.T) {
	storetest.Compare(t, func(t testing.TB) storetest.Opened {
		clock, path := storetest.NewClock(), migrated(t, storetest.NextRelease(t, known(t), false))
		return storetest.Opened{Clock: clock, Open: func(t testing.TB) control.Store {
			return opened(t, path, Options{Clock: clock.Now})
		}}
	})
}

// The newest schema lets the program before it run, and keeps its version.
func TestFormerProgramMayRun(t *testing.T) {
	dir := known(t)
	path := migrated(t, dir)
	former := storetest.Releases(t, dir, len(storetest.Releases(t, dir, -1))-1)
	for _, program := range []fs.FS{former, dir} {
		s, err := open(t.Context(), path, Options{}, program)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A schema that has taken away what this program needs refuses it, and says what to do.
func TestContractedSchema(t *testing.T) {
	path := migrated(t, storetest.NextRelease(t, known(t), true))
	_, err := Open(t.Context(), path, Options{})
	mustSay(t, err, sqlcore.ErrNewer, "use the newer program", "restore a backup")
}

// What a program of the first schema wrote is there after the migrations.
func TestMigrateRows(t *testing.T) {
	path := migrated(t, storetest.Releases(t, known(t), 1))
	db := raw(t, path)
	for _, statement := range []string{
		"INSERT INTO pools (name, cap, max_waiting, in_force) VALUES ('p', 3, 4, 1)",
		"INSERT INTO settings (one, default_quota) VALUES (1, -1)",
		firstSchemasRow,
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := opened(t, path, Options{})
	r, ok, err := s.Get(t.Context(), "c", "k")
	if err != nil || !ok || r.State != pool.Admitted || r.Check() != nil {
		t.Errorf("%+v %v %v", r, ok, err)
	}
	c, err := s.Claim(t.Context(), newClaim(1))
	if err != nil || c.Verdict != pool.Granted || c.Standing.Busy != 1 {
		t.Errorf("%+v %v", c, err)
	}
}

func TestConstraints(t *testing.T) {
	clock, path := storetest.NewClock(), filepath.Join(t.TempDir(), "plimsoll.db")
	o := storetest.Opened{Clock: clock, Open: func(t testing.TB) control.Store {
		return opened(t, path, Options{Clock: clock.Now})
	}}
	storetest.Constraints(t, o, func(statement string) error {
		db := raw(t, path)
		defer func() { _ = db.Close() }()
		_, err := db.Exec(statement)
		return err
	})
}

const firstSchemasRow = `INSERT INTO admissions (
    id, consumer, key, tenant, class, template, memory_mb, cpu_milli, labels, pinned_host, prefer, stateful, pool,
    mode, max_queue_age_ms, state, reason, gen, epoch, host, place, waited, late, spared_at, waiting_for, queued_at,
    present_until, hostless_at, placing_at, admitted_at, reserved_until, running_at, freed_at, ended_at)
VALUES ('a', 'c', 'k', 't', 'small', '', 1, 1, '', '', 0, 0, 'p',
    'refuse', 0, 'admitted', '', 1, 1, 'h1', 0, 0, 0, 0, '', 0, 0, 0, 1, 1, 1, 0, 0, 0)`
