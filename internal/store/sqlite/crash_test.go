package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
)

const crashEnv = "PLIMSOLL_TEST_CRASH_DB" // names the database to a child that will be killed

func itoa(n int) string { return strconv.Itoa(n) }

func newClaim(i int) pool.Claim {
	return pool.Claim{ID: "a" + itoa(i), Consumer: "c", Key: "k" + itoa(i), Pool: "p", Mode: pool.Refuse, Contents: pool.Contents{Tenant: "t", Class: "small"}}
}

func claimed(t testing.TB, s control.Store, i int) pool.Claimed {
	t.Helper()
	c, err := s.Claim(context.Background(), newClaim(i))
	if err != nil || c.Verdict != pool.Granted {
		t.Fatal(c.Verdict, err)
	}
	return c
}

// mustBeWhole checks every row, and their number unless it is negative.
func mustBeWhole(t testing.TB, s control.Store, rows int) map[string]pool.Row {
	t.Helper()
	all, err := s.List(context.Background(), control.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if rows >= 0 && len(all) != rows {
		t.Errorf("%d rows, want %d", len(all), rows)
	}
	byID, gens := map[string]pool.Row{}, map[int64]bool{}
	for _, r := range all {
		if err := r.Check(); err != nil {
			t.Error(err)
		}
		if gens[r.Gen] {
			t.Errorf("generation %d was given twice", r.Gen)
		}
		byID[r.ID], gens[r.Gen] = r, true
	}
	return byID
}

// A process is killed in the middle of its work, several times over: whatever it had
// confirmed is there, and the cap was never passed (invariant 8).
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plimsoll.db")
	confirmed := map[string]bool{} // id -> was confirmed
	for round := range 4 {
		killAfter(t, path, round, 40*(round+1), confirmed)
		s := opened(t, path, Options{})
		rows := mustBeWhole(t, s, -1)
		for id := range confirmed {
			if _, ok := rows[id]; !ok {
				t.Errorf("round %d: %s was confirmed and is gone", round, id)
			}
		}
		if len(rows) > capOfCrash {
			t.Errorf("round %d: %d slots of a cap of %d", round, len(rows), capOfCrash)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(confirmed) < 100 {
		t.Errorf("only %d claims were confirmed: the children died too early to show anything", len(confirmed))
	}
}

const capOfCrash = 500

// killAfter runs a child that claims, and kills it as soon as it has confirmed n claims.
func killAfter(t *testing.T, path string, round, n int, confirmed map[string]bool) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashChild$") // #nosec G204 -- the test itself
	child.Env = append(os.Environ(), crashEnv+"="+path, "PLIMSOLL_TEST_CRASH_ROUND="+itoa(round))
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for seen := 0; seen < n && lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "confirmed "); ok {
			confirmed[id] = true
			seen++
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // what it said before it died counts too
		if id, ok := strings.CutPrefix(lines.Text(), "confirmed "); ok {
			confirmed[id] = true
		}
	}
	_ = child.Wait() // it was killed
}

// TestCrashChild is the process that is killed; without its environment it does nothing.
func TestCrashChild(t *testing.T) {
	path, round := os.Getenv(crashEnv), os.Getenv("PLIMSOLL_TEST_CRASH_ROUND")
	if path == "" {
		return
	}
	s := opened(t, path, Options{})
	storetest.Configure(t, s, storetest.OnePool(capOfCrash, 5))
	var mu sync.Mutex // guards standard output
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				claim := newClaim(0)
				claim.ID = fmt.Sprintf("r%s-%d-%d", round, c, i)
				claim.Key = claim.ID
				got, err := s.Claim(context.Background(), claim)
				if err != nil || got.Verdict != pool.Granted {
					return
				}
				mu.Lock()
				fmt.Println("confirmed " + claim.ID)
				mu.Unlock()
			}
		})
	}
	wg.Wait() // the cap is reached, should the parent's signal be that late
}

// The machine dies: the files are copied while no write is under way, from inside the
// writer's own transaction, and each copy opens and is whole.
func TestCrashImages(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plimsoll.db")
	wall, calls, images := storetest.NewClock(), 0, []string(nil)
	armed := false
	clock := func() pool.Time { // read in the transaction, by the writer alone once armed
		if calls++; armed && calls%7 == 0 && len(images) < 12 {
			image := filepath.Join(dir, fmt.Sprintf("image%d.db", len(images)))
			copyFile(t, path, image)
			copyFile(t, path+"-wal", image+"-wal")
			images = append(images, image)
		}
		return wall.Now()
	}
	s := opened(t, path, Options{Clock: clock})
	storetest.Configure(t, s, storetest.OnePool(20, 100))
	armed = true
	for i := range 120 {
		visit(t, s, i)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, image := range images {
		again := opened(t, image, Options{Clock: wall.Now})
		mustBeWhole(t, again, -1)
		lines, err := again.Lines(t.Context())
		if err != nil || lines[0].Busy > 20 {
			t.Errorf("%s: %+v %v", image, lines, err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(images) < 12 {
		t.Errorf("only %d images", len(images))
	}
}

// visit admits one; every other one ends.
func visit(t *testing.T, s control.Store, i int) {
	c, err := s.Claim(t.Context(), newClaim(i))
	if err != nil {
		t.Fatal(err)
	}
	if c.Verdict != pool.Granted {
		return
	}
	if _, _, err := s.Settle(t.Context(), c.Row.ID, c.Row.Gen, "h1", time.Minute); err != nil {
		t.Fatal(err)
	}
	if i%2 == 0 {
		if _, _, err := s.End(t.Context(), c.Row.ID, c.Row.Gen, pool.Released, "exit"); err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	in, err := os.Open(from) // #nosec G304 -- the test's own file
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(to) // #nosec G304 -- the test's own file
	if err != nil {
		t.Error(err)
		return
	}
	_, err = io.Copy(out, in)
	if closeErr := out.Close(); err != nil || closeErr != nil {
		t.Error(err, closeErr)
	}
}
