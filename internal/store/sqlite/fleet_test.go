package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
)

// fleet is a store with so many hosts and what is on them.
func fleet(t testing.TB, hosts int) *Store {
	s := opened(t, filepath.Join(t.TempDir(), "plimsoll.db"), Options{})
	storetest.Configure(t, s, storetest.OnePool(1<<40, 0))
	for _, statement := range append(storetest.FleetScript(hosts), "ANALYZE") {
		if _, err := s.db.exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func BenchmarkFleet(b *testing.B) { storetest.BenchFleet(b, fleet(b, storetest.FleetHosts)) }

// What all hosts hold is summed up in one walk through an index that has all that it takes.
func TestHoldingsPlan(t *testing.T) {
	s := fleet(t, 100)
	text, err := os.ReadFile("../sqlcore/sql/holdings.sql")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.db.Query(t.Context(), "EXPLAIN QUERY PLAN "+sqlcore.Plain(text))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int64
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, detail)
	}
	if got := strings.Join(plan, "; "); got != "SCAN admissions USING COVERING INDEX held_of_host" {
		t.Error(got)
	}
}
