package pgcluster

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func started(t *testing.T) *Cluster {
	t.Helper()
	c, err := Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, c) })
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func closed(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.dir); err == nil {
		t.Errorf("%s is left", c.dir)
	}
}

// query returns a number.
func query(t *testing.T, c *Cluster, sql string) (n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// What was confirmed is there after every kind of end, at the same address.
func TestEnds(t *testing.T) {
	c := started(t)
	at := c.URL()
	for i, end := range []func(){c.Kill, c.StopNow, c.Stop} {
		if i == 0 {
			query(t, c, "SELECT lo_create(0)::bigint")
		}
		end()
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := query(t, c, "SELECT count(*) FROM pg_largeobject_metadata"); n != 1 || c.URL() != at {
			t.Errorf("end %d: %d rows at %s", i, n, c.URL())
		}
	}
}

// A standby has what its primary has, and goes on alone when it is promoted.
func TestStandby(t *testing.T) {
	c := started(t)
	s, err := c.Standby(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, s)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if query(t, s, "SELECT pg_is_in_recovery()::int::bigint") != 1 {
		t.Error("it is no standby")
	}
	if err := c.Freeze(); err != nil {
		t.Fatal(err)
	}
	if len(c.frozen) < 5 {
		t.Errorf("%d processes are frozen", len(c.frozen))
	}
	if query(t, s, "SELECT pg_promote()::int::bigint") != 1 || query(t, s, "SELECT lo_create(0)::bigint") == 0 {
		t.Error("it was not promoted")
	}
}
