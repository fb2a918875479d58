package fleettest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// TestWakeAcrossReplicas: a long poll that one replica holds is answered when another one
// frees the slot: by its word at once, and where no word comes, as through a pooler, when the
// waiter looks by itself, which it does every 2 s.
func TestWakeAcrossReplicas(t *testing.T) {
	t.Parallel()
	at := schemaOf(t)
	holds, frees := newReplica(t, "server", at), newReplica(t, "server", at)
	for _, r := range []*replica{holds, frees} {
		r.start()
	}
	for _, r := range []*replica{holds, frees} {
		r.becomesReady()
	}
	holder, waiter := newFront(t, []*replica{frees}).client("ci"), newFront(t, []*replica{holds}).client("ci")
	for i := range smallCap {
		admit(t, holder, fmt.Sprint("first", i), 0)
	}
	becomes(t, "both to listen", hung, func() string {
		if n := listeners(t, at); n != 2 {
			return fmt.Sprintf("%d listen", n)
		}
		return ""
	})
	told := woken(t, holder, waiter, "told", 15)
	t.Logf("by another replica's word: %v", told)
	if median := told[len(told)/2]; median > time.Second {
		t.Errorf("a waiter is woken after %v: by its own looking, as it seems", median)
	}
	deaf, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); keepDeaf(deaf, t, at) }()
	untold := woken(t, holder, waiter, "untold", 5)
	stop()
	<-done
	t.Logf("without any word: %v", untold)
	if most := slices.Max(untold); most > 8*time.Second {
		t.Errorf("a waiter found its slot after %v", most)
	}
}

func admit(t *testing.T, c *client.Client, key string, wait time.Duration) {
	t.Helper()
	q := api.AdmissionRequest{Key: key, Class: "probe"}
	if wait > 0 {
		q.Mode = api.WaitModeQueue
	}
	if _, err := c.Admit(within(t, wait+hung), q, client.Options{Wait: client.Within(wait)}); err != nil {
		t.Errorf("%s: %v", key, err)
	}
}

// woken measures, again and again, how long after a release the waiter at the other replica
// has its slot; the shortest first.
func woken(t *testing.T, holder, waiter *client.Client, name string, times int) (took []time.Duration) {
	t.Helper()
	for i := range times {
		keep, key := fmt.Sprint(name, "-keep-", i), fmt.Sprint(name, "-wait-", i)
		for j := range smallCap {
			if _, err := holder.Heartbeat(within(t, hung), fmt.Sprint("first", j)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := holder.Release(within(t, hung), "first0"); err != nil {
			t.Fatal(err)
		}
		admit(t, holder, keep, 0)
		answered := make(chan time.Time, 1)
		go func() { admit(t, waiter, key, 20*time.Second); answered <- time.Now() }()
		becomes(t, "its poll to be held", hung, func() string {
			if a, err := holder.Get(within(t, hung), key); err != nil || a.Waiting == nil {
				return fmt.Sprintf("it is %+v (%v)", a, err)
			}
			return ""
		})
		time.Sleep(time.Duration(300+i%3*250) * time.Millisecond) // at no certain moment between two looks
		began := time.Now()
		if _, err := holder.Release(within(t, hung), keep); err != nil {
			t.Fatal(err)
		}
		took = append(took, (<-answered).Sub(began).Round(time.Millisecond))
		if _, err := holder.Release(within(t, hung), key); err != nil {
			t.Fatal(err)
		}
		admit(t, holder, "first0", 0)
	}
	slices.Sort(took)
	return took
}

const listening = "FROM pg_stat_activity WHERE application_name = current_setting('application_name') AND query LIKE 'LISTEN %'"

func listeners(t *testing.T, at string) (n int) {
	t.Helper()
	ctx := within(t, hung)
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, "SELECT count(*) "+listening).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// keepDeaf ends whoever listens, for as long as ctx lasts.
func keepDeaf(ctx context.Context, t *testing.T, at string) {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for ctx.Err() == nil {
		if _, err := conn.Exec(ctx, "SELECT pg_terminate_backend(pid) "+listening+" AND pid <> pg_backend_pid()"); err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
		sleep(ctx, 20*time.Millisecond)
	}
}
