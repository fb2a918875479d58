package fleettest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/store/postgres"
	"github.com/plimsoll-project/plimsoll/pool"
)

// TestTheDatabaseAway: PostgreSQL is away for longer than a slot lives. Meanwhile every create
// is not now, with a hint; afterwards all goes on by itself. No slot is over by a silence in
// which nobody could hear: those that are kept live on, and those that nobody keeps are over
// one life later.
func TestTheDatabaseAway(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	replicas := []*replica{newReplica(t, "server", cluster.URL()), newReplica(t, "server", cluster.URL())}
	for _, r := range replicas {
		r.start()
	}
	for _, r := range replicas {
		r.becomesReady()
	}
	f := newFront(t, replicas)
	b := newBook(t)
	o := &onlooker{t: t, query: postgresQuery(cluster), most: map[string]int64{}, epochs: map[string]int64{}}
	chat := &caller{name: "chat", consumer: "chat", book: b, client: f.client("chat")}
	admit := func(key string) *api.Admission {
		a, err := chat.client.Admit(within(t, hung), api.AdmissionRequest{Key: key, Class: "conversation"}, client.Options{Wait: time.Second})
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		b.yes("chat", a)
		return a
	}
	kept := admit("kept")
	admit("left")
	b.gone("chat", "left", false)
	keeping, stop := context.WithCancel(t.Context())
	kept.HeartbeatMS = 0 // at once
	done := make(chan struct{})
	go func() { defer close(done); chat.keep(keeping, kept, time.Hour) }()
	defer func() { stop(); <-done }()
	becomes(t, "it is kept", hung, func() string {
		if b.times("kept") == 0 {
			return "no heartbeat was answered"
		}
		return ""
	})

	cluster.StopNow()
	stopped := time.Now()
	for i := 0; time.Since(stopped) < slotTTL+3*time.Second; i++ {
		r := replicas[i%2]
		refusedForNow(t, r, fmt.Sprint("new", i))
		saysWhy(t, r)
		time.Sleep(300 * time.Millisecond)
	}
	if err := cluster.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	if swept, err := sweepNow(t, cluster.URL()); err != nil || len(swept) > 0 {
		t.Errorf("the first sweep changed %+v (%v)", swept, err)
	}
	for _, r := range replicas {
		r.becomesReady()
	}
	t.Logf("away for %v, ready again %v after it was back", back.Sub(stopped).Round(time.Millisecond), time.Since(back).Round(time.Millisecond))
	admit("anew")
	b.gone("chat", "anew", false)
	became := becomes(t, "those that nobody keeps are over", 2*slotTTL+sweepEvery, func() string {
		if n, err := o.number(t.Context(), "SELECT count(*) FROM admissions WHERE state = 'expired' AND key IN ('left', 'anew')"); n != 2 {
			return fmt.Sprintf("%d are (%v)", n, err)
		}
		return ""
	})
	t.Logf("over %v after they could be heard again", became.Round(time.Millisecond))
	early := "SELECT count(*) FROM admissions WHERE state = 'expired' AND ended_at < (SELECT heard_since FROM pulse) + " + fmt.Sprint(slotTTL.Milliseconds())
	if n, err := o.number(t.Context(), early); err != nil || n != 0 {
		t.Errorf("%d were over before their time (%v)", n, err)
	}
	if n := o.expired(t.Context(), b); n != 2 {
		t.Errorf("%d slots are over", n)
	}
	f.judge()
}

// sweepNow is what a replica does that happens to sweep at this moment.
func sweepNow(t *testing.T, at string) ([]pool.Row, error) {
	t.Helper()
	s, err := postgres.Open(t.Context(), at, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.WithoutCancel(t.Context())) }()
	rows, err := s.Sweep(t.Context())
	return rows, errors.Join(err, s.Close(), <-ended)
}

// refusedForNow asks for a sandbox that cannot be admitted, and must be told in time so.
func refusedForNow(t *testing.T, r *replica, key string) {
	t.Helper()
	c, err := client.New("http://"+r.address(), tokenOf("ci"))
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []api.WaitMode{api.WaitModeRefuse, api.WaitModeQueue} {
		_, err := c.Admit(within(t, hung), api.AdmissionRequest{Key: key, Class: "probe", Mode: mode}, client.Options{Wait: client.Once})
		if !errors.Is(err, api.Unavailable) || client.RetryAfter(err) == 0 {
			t.Errorf("in mode %s it says %v, and to come back in %v", mode, err, client.RetryAfter(err))
		}
	}
}

// saysWhy: a load balancer and whoever reads its log.
func saysWhy(t *testing.T, r *replica) {
	t.Helper()
	resp, err := http.Get("http://" + r.address() + "/readyz")
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "store") {
		t.Errorf("/readyz says %d %s", resp.StatusCode, text)
	}
	if alive, err := http.Get("http://" + r.address() + "/healthz"); err != nil || alive.StatusCode != http.StatusOK {
		t.Errorf("/healthz says %v %v", alive, err)
	} else {
		_ = alive.Body.Close()
	}
}
