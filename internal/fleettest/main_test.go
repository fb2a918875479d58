// Package fleettest holds a control plane of several `plimsoll server` processes over a
// PostgreSQL of its own to what it promises, while all of them are killed: callers and a
// substrate use the SDK, and an onlooker judges with his own connection to the database.
package fleettest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plimsoll-project/plimsoll/internal/pgcluster"
	"github.com/plimsoll-project/plimsoll/internal/store/postgres"
)

// What the configuration says, for those who judge.
const (
	sharedCap  = 5
	chatsShare = 2
	smallCap   = 3
	slotTTL    = 9 * time.Second
	sweepEvery = 10 * time.Second // of each replica
)

// document is the fleet's: two pools without hosts, of which one has a share.
func document() string {
	return fmt.Sprintf(`fleet:
  default_quota: none
  pools:
    - {name: shared, placement: none, cap: %[1]d, max_waiting: 50, slot_ttl: %[4]s, ticket_ttl: %[4]s, shares: [{consumer: chat, reserved: %[2]d}]}
    - {name: small, placement: none, cap: %[3]d, max_waiting: 50, slot_ttl: %[4]s, ticket_ttl: %[4]s}
  classes:
    - {name: conversation, pool: shared}
    - {name: probe, pool: small}
  consumers:
    - {name: chat, token_sha256: ["%[5]x"]}
    - {name: ci, token_sha256: ["%[6]x"]}
    - {name: provider, roles: [substrate], audiences: [shared, small], token_sha256: ["%[7]x"]}
    - {name: operator, roles: [operator], token_sha256: ["%[8]x"]}
`, sharedCap, chatsShare, smallCap, slotTTL, hashOf("chat"), hashOf("ci"), hashOf("provider"), hashOf("operator"))
}

func tokenOf(consumer string) string { return "plt_" + consumer + "_0123456789abcdef" }

func hashOf(consumer string) [32]byte { return sha256.Sum256([]byte(tokenOf(consumer))) }

// keysFile is one of keys, for tests alone.
const keysFile = `{"version": 1, "roots": [{"id": "k1", "state": "signing", "secret": "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="}]}`

// binary is the program as it is shipped, built once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "plimsoll-bin")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "plimsoll")
	build := exec.Command("go", "build", "-o", path, "github.com/plimsoll-project/plimsoll/cmd/plimsoll")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if path, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}

// soak says that there is time: make soak sets it.
func soak() bool { return os.Getenv("PLIMSOLL_SOAK") != "" }

// random is seeded by PLIMSOLL_SEED, or anew.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64N(1 << 32)
	if text := os.Getenv("PLIMSOLL_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("PLIMSOLL_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("PLIMSOLL_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 4))
}

// newCluster is a PostgreSQL that the test may kill, with the schema.
func newCluster(t *testing.T) *pgcluster.Cluster {
	t.Helper()
	c, err := pgcluster.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Migrate(t.Context(), c.URL()); err != nil {
		t.Fatal(err)
	}
	return c
}

// schemaOf makes a schema in the PostgreSQL that the tests share, and returns its URL.
func schemaOf(t *testing.T) string {
	t.Helper()
	at := os.Getenv("PLIMSOLL_TEST_POSTGRES")
	if at == "" {
		t.Fatal("PLIMSOLL_TEST_POSTGRES is not set: run the tests by scripts/test or scripts/postgres")
	}
	schema := fmt.Sprintf("fleet_%x", rand.Uint64())
	execute(t, at, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { execute(t, at, "DROP SCHEMA "+schema+" CASCADE") })
	at += "&search_path=" + schema + "&application_name=" + schema
	if _, err := postgres.Migrate(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	return at
}

func execute(t *testing.T, at, sql string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// becomes waits until nothing is wrong any more, and returns how long that took.
func becomes(t *testing.T, what string, patience time.Duration, wrong func() string) time.Duration {
	t.Helper()
	began, why := time.Now(), ""
	for why = wrong(); why != "" && time.Since(began) < patience; why = wrong() {
		time.Sleep(20 * time.Millisecond)
	}
	if why != "" {
		t.Errorf("%s, after %v: %s", what, patience, why)
	}
	return time.Since(began)
}

func tail(s string) string { return s[max(len(s)-10_000, 0):] }
