package sqlite

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
)

// TestEvidenceIsKeptOnce refuses many who saw the same of the hosts, some of them by another word
// with the same contents: it is written once, and is gone with the last of them.
func TestEvidenceIsKeptOnce(t *testing.T) {
	clock, path := storetest.NewClock(), filepath.Join(t.TempDir(), "plimsoll.db")
	s := opened(t, path, Options{Clock: clock.Now})
	for i := range 10 {
		seen := storetest.Sees("h1")
		some := []*control.Decision{storetest.Decided(fmt.Sprint("a", i), "c", "k", seen), storetest.Decided(fmt.Sprint("b", i), "c", "k", seen)}
		if _, err := s.Decide(t.Context(), some, 1000); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	kept := func() (decisions, evidence int) {
		if err := db.QueryRow("SELECT (SELECT count(*) FROM decisions), (SELECT count(*) FROM decision_evidence)").Scan(&decisions, &evidence); err != nil {
			t.Fatal(err)
		}
		return decisions, evidence
	}
	if decisions, evidence := kept(); decisions != 20 || evidence != 1 {
		t.Errorf("%d decisions rest on %d", decisions, evidence)
	}
	clock.Advance(pool.KeepEnded)
	if _, err := s.Decide(t.Context(), []*control.Decision{storetest.Decided("late", "c", "k", storetest.Sees("h2"))}, 1000); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if decisions, evidence := kept(); decisions != 1 || evidence != 1 {
		t.Errorf("a day later %d decisions rest on %d", decisions, evidence)
	}
}
