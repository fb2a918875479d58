package bench

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// The figures are printed, never asserted; what is tested is that the runs are honest ones.
func TestPickRunsAndPrints(t *testing.T) {
	r, err := Pick(PickOptions{Hosts: 500, Ops: 4000, ScanOps: 50, Held: 20})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{`"hosts":500`, `"p50_ns"`, `"p99_ns"`, `"allocs_per_op"`, `"peers":{`, `"essay_scan":{"p50_ns"`, `"ratio_essay_scan"`, `"full_of_full_hosts":{"p50_ns"`, `"adversarial":`, `"best_of_three"`, `"copy_filter_sort"`, `"sampler_misses"`} {
		if !strings.Contains(string(b), field) {
			t.Errorf("no %s in %s", field, b)
		}
	}
	var out strings.Builder
	if err := r.Print(&out); err != nil || !strings.Contains(out.String(), "the essay's loop") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestTicketRunsAndPrints(t *testing.T) {
	r, err := Ticket(TicketOptions{Ops: 2000})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.Print(&out); err != nil || r.MintP50 == 0 || r.VerifyP50 == 0 || !strings.Contains(out.String(), "verify") {
		t.Errorf("%v: %+v", err, r)
	}
}

// Both run the same stream: each keeps as many reserves as the ring holds, and neither refuses.
func TestBothServeTheWholeStream(t *testing.T) {
	o := PickOptions{Hosts: 200, Held: 50}.withDefaults()
	b := &beds(o)[0]
	x, err := newIndexed(b, o)
	if err != nil {
		t.Fatal(err)
	}
	s := newScanned(b, o)
	for range 500 {
		x.op()
		s.op()
	}
	held := 0
	for _, release := range s.held {
		if release != nil {
			held++
		}
	}
	if x.table.Outstanding() != 50 || held != 50 {
		t.Errorf("%d and %d stand, not 50", x.table.Outstanding(), held)
	}
}

// The peer is the essay's: its traps included, so that the figure beside ours is of what it does.
func TestTheEssaysLoop(t *testing.T) {
	host := essayAgent{id: "a", heartbeatAt: time.Now(), memAdmission: "working-set", memMBTotal: 32768, memMBUsed: 4180, memMBAdmittable: 25600}
	l := &essayLedger{pending: map[string]int64{}}
	fits := 0
	for {
		_, _, err := essayPick([]essayAgent{host}, essayRequest{memMB: 4096}, l)
		if err != nil {
			break
		}
		fits++
	}
	if fits != 25 {
		t.Errorf("%d stateless sandboxes of 4 GiB", fits)
	}
}

// The store's run claims what it says, in a database that is gone afterwards.
func TestStoreRunsAndPrints(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r, err := Store(t.Context(), StoreOptions{Callers: 8, Claims: 400})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.Print(&out); err != nil || r.Claims != 400 || r.P99 < r.P50 || r.P50 == 0 || r.PairsPerSec == 0 {
		t.Errorf("%v: %+v", err, r)
	}
	if !strings.Contains(out.String(), "sqlite, 8 callers") {
		t.Error(out.String())
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// Whoever stops the run is told so, and nothing stays behind.
func TestStoreStopped(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := Store(ctx, StoreOptions{Claims: 1 << 30})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
