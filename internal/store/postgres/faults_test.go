package postgres

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
)

func TestOpenUnreachable(t *testing.T) {
	_, err := Open(t.Context(), "postgres://somebody:secret@127.0.0.1:1/db", Options{})
	if err == nil || !strings.Contains(err.Error(), "cannot be reached") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

// The server ends every session in the middle of the work, again and again: no slot is
// granted twice, none is lost, and callers whose answer was certain had the right one.
func TestSessionsEnded(t *testing.T) {
	dsn := freshSchema(t)
	dsn += separator(dsn) + "application_name=" + t.Name() + strconv.Itoa(os.Getpid())
	s := opened(t, dsn, Options{})
	storetest.Configure(t, s, storetest.OnePool(60, 5))
	var mu sync.Mutex
	granted := map[string]bool{} // id -> was confirmed
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := range 12 {
				got, err := s.Claim(context.Background(), newClaim(100*c+i))
				if err == nil && got.Verdict == pool.Granted {
					mu.Lock()
					granted[got.Row.ID] = true
					mu.Unlock()
				}
				if i%4 == 0 {
					endSessions(t, dsn)
				}
			}
		})
	}
	wg.Wait()
	rows, err := s.List(t.Context(), control.Filter{})
	if err != nil || len(rows) > 60 {
		t.Errorf("%d slots of a cap of 60: %v", len(rows), err)
	}
	for _, r := range rows {
		delete(granted, r.ID)
	}
	if len(granted) > 0 {
		t.Errorf("confirmed and gone: %v", granted)
	}
	t.Logf("%d slots granted", len(rows))
}

// endSessions ends the sessions that use this test's schema.
func endSessions(t testing.TB, dsn string) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity AS a
		WHERE a.application_name = current_setting('application_name') AND a.pid <> pg_backend_pid()`)
	if err != nil && !strings.Contains(err.Error(), "57P01") { // another caller ended this one
		t.Log(err)
	}
}

// The server's clock dates the rows, whatever the replica's says.
func TestServersClock(t *testing.T) {
	s := opened(t, freshSchema(t), Options{})
	storetest.Configure(t, s, storetest.OnePool(5, 5))
	before, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Claim(t.Context(), newClaim(1))
	if err != nil {
		t.Fatal(err)
	}
	after, err := s.Now(t.Context())
	if err != nil || before > c.Row.PlacingAt || c.Row.PlacingAt > after || before < 1_700_000_000_000 {
		t.Errorf("%d, %d, %d: %v", before, c.Row.PlacingAt, after, err)
	}
}

func newClaim(i int) pool.Claim {
	return pool.Claim{ID: "a" + strconv.Itoa(i), Consumer: "c", Key: "k" + strconv.Itoa(i), Pool: "p", Mode: pool.Refuse, Contents: pool.Contents{Tenant: "t", Class: "small"}}
}
