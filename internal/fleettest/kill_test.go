package fleettest

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the onlooker's way into the embedded store

	"github.com/plimsoll-project/plimsoll/internal/pgcluster"
)

// TestServersAreKilled is T28, T29, T32, T35, T37, T81 and T95 with real kills: three servers
// and their PostgreSQL are killed in a loop, while callers ask, wait, keep, release and die,
// and a substrate redeems and lists what runs. Caps and shares are never passed, nothing is
// redeemed twice, no key is admitted twice, every waiter is answered, what is kept never
// expires, and in the end nothing is held.
func TestServersAreKilled(t *testing.T) {
	rng := random(t)
	cluster := newCluster(t)
	var replicas []*replica
	for range 3 {
		replicas = append(replicas, newReplica(t, "server", cluster.URL()))
	}
	for _, r := range replicas {
		r.start()
	}
	for _, r := range replicas {
		r.becomesReady()
	}
	l := begin(t, replicas, &onlooker{query: postgresQuery(cluster)}, rng, hung)
	k := &killer{t: t, rng: rng, replicas: replicas, deeds: map[string]int{}}
	k.kinds = []kind{
		{"replica killed", 4, k.killReplica},
		{"replica stopped", 1, k.stopReplica},
		{"PostgreSQL killed", 2, func() { cluster.Kill(); k.restart(cluster) }},
		{"PostgreSQL shut down at once", 2, func() { cluster.StopNow(); k.restart(cluster) }},
		{"every session ended", 1, func() { endSessions(t, cluster) }},
	}
	k.until(func() bool { return k.kills() >= enough(52, 300) })
	l.endsWell()
}

// TestUpIsKilledWithoutHosts is the same on the embedded store: one `plimsoll up`, no agent.
func TestUpIsKilledWithoutHosts(t *testing.T) {
	t.Parallel()
	rng := random(t)
	r := newReplica(t, "up", "")
	r.start()
	r.becomesReady()
	l := begin(t, []*replica{r}, &onlooker{query: sqliteQuery(t, filepath.Join(r.dir, "data", "plimsoll.db"))}, rng, hung)
	k := &killer{t: t, rng: rng, replicas: []*replica{r}, deeds: map[string]int{}}
	k.kinds = []kind{{"replica killed", 4, k.killReplica}, {"replica stopped", 1, k.stopReplica}}
	k.until(func() bool { return k.kills() >= enough(16, 100) })
	l.endsWell()
}

func enough(test, soaking int) int {
	if soak() {
		return soaking
	}
	return test
}

// killer does one deed after the other.
type killer struct {
	t        *testing.T
	rng      *rand.Rand
	replicas []*replica
	kinds    []kind
	paused   sync.WaitGroup // of replicas that are stopped
	deeds    map[string]int // name of the kind -> times
}

type kind struct {
	name   string
	weight int
	do     func()
}

// until goes on while the test holds.
func (k *killer) until(done func() bool) {
	k.t.Helper()
	began := time.Now()
	for !done() && !k.t.Failed() {
		time.Sleep(k.between(250*time.Millisecond, 850*time.Millisecond)) // the moment is the point
		k.once()
	}
	k.paused.Wait()
	for _, r := range k.replicas {
		r.becomesReady()
	}
	k.t.Logf("%d deeds in %v: %v", k.all(), time.Since(began).Round(time.Millisecond), k.deeds)
}

func (k *killer) between(least, most time.Duration) time.Duration {
	return least + time.Duration(k.rng.Int64N(int64(most-least)))
}

func (k *killer) all() (n int) {
	for _, times := range k.deeds {
		n += times
	}
	return n
}

// kills counts those deeds after which a process is gone.
func (k *killer) kills() int {
	return k.deeds["replica killed"] + k.deeds["PostgreSQL killed"] + k.deeds["PostgreSQL shut down at once"] + k.deeds["primary killed"]
}

func (k *killer) once() {
	total := 0
	for _, kd := range k.kinds {
		total += kd.weight
	}
	n := k.rng.IntN(total)
	for _, kd := range k.kinds {
		if n -= kd.weight; n < 0 {
			k.deeds[kd.name]++
			kd.do()
			return
		}
	}
}

// killReplica kills one, and starts it again at once.
func (k *killer) killReplica() {
	k.paused.Wait()
	r := k.replicas[k.rng.IntN(len(k.replicas))]
	r.kill()
	r.start()
}

// stopReplica stops one for a while, in which the killer goes on.
func (k *killer) stopReplica() {
	k.paused.Wait()
	r, d := k.replicas[k.rng.IntN(len(k.replicas))], k.between(200*time.Millisecond, 1500*time.Millisecond)
	r.stop()
	k.paused.Go(func() { time.Sleep(d); r.goOn() })
}

func (k *killer) restart(c *pgcluster.Cluster) {
	k.t.Helper()
	if err := c.Start(k.t.Context()); err != nil {
		k.t.Error(err)
	}
}

func endSessions(t *testing.T, c *pgcluster.Cluster) {
	t.Helper()
	execute(t, c.URL(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
}

// asking is how an onlooker reads: each row is scanned by each.
type asking = func(ctx context.Context, each func(scan func(...any) error) error, sql string) error

// postgresQuery connects anew for as long as there is no connection.
func postgresQuery(at interface{ URL() string }) asking {
	var conn *pgx.Conn
	return func(ctx context.Context, each func(func(...any) error) error, sql string) (err error) {
		if conn == nil || conn.IsClosed() {
			if conn, err = pgx.Connect(ctx, at.URL()); err != nil {
				conn = nil
				return err
			}
		}
		rows, err := conn.Query(ctx, sql)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := each(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

// sqliteQuery reads beside the process whose file it is.
func sqliteQuery(t *testing.T, path string) asking {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return func(ctx context.Context, each func(func(...any) error) error, query string) error {
		rows, err := db.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			if err := each(rows.Scan); err != nil {
				return err
			}
		}
		return errors.Join(rows.Err(), ctx.Err())
	}
}
