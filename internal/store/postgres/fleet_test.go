package postgres

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
)

// fleet is a store with so many hosts and what is on them.
func fleet(t testing.TB, hosts int) (s *Store, dsn string) {
	dsn = freshSchema(t)
	s = opened(t, dsn, Options{})
	storetest.Configure(t, s, storetest.OnePool(1<<40, 0))
	for _, statement := range append(storetest.FleetScript(hosts), "VACUUM ANALYZE admissions", "VACUUM ANALYZE hosts") {
		administer(t, dsn, statement)
	}
	return s, dsn
}

func BenchmarkFleet(b *testing.B) {
	s, _ := fleet(b, storetest.FleetHosts)
	storetest.BenchFleet(b, s)
}

// What all hosts hold is summed up in one walk through an index that has all that it takes:
// nothing is read of the rows, and of those that have ended nothing at all.
func TestHoldingsPlan(t *testing.T) {
	_, dsn := fleet(t, 1000)
	text, err := os.ReadFile("../sqlcore/sql/holdings.sql")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	// Transactions of tests beside this one keep VACUUM from seeing the pages as the planner should.
	got := ""
	for range 100 {
		if got = planOf(t, conn, sqlcore.Plain(text)); strings.Contains(got, "Index Only Scan using held_of_host") {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Error(got)
}

// planOf is how the server would answer a query, after it has looked at the table anew.
func planOf(t *testing.T, conn *pgx.Conn, query string) string {
	t.Helper()
	if _, err := conn.Exec(t.Context(), "VACUUM ANALYZE admissions"); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), "EXPLAIN "+query)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}
