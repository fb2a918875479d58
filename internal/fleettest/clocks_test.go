package fleettest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/store/postgres"
	"github.com/plimsoll-project/plimsoll/internal/web"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// inner is a replica in the test's own process, whose clock may be wrong: the program takes
// its clock from the machine and has no setting for it.
type inner struct {
	t       *testing.T
	store   *postgres.Store
	gateway *control.Gateway
	metrics *prometheus.Registry
	url     string
}

func newInner(t *testing.T, at string, wrong time.Duration) *inner {
	t.Helper()
	r := &inner{t: t, metrics: prometheus.NewRegistry()}
	var err error
	must := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.DiscardHandler)
	r.store, err = postgres.Open(t.Context(), at, postgres.Options{Log: log})
	must()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.store.Run(ctx) }()
	ring, err := ticket.ParseKeyring([]byte(keysFile))
	must()
	began := time.Now().Add(-wrong) // whatever counts from a start does so from another one
	r.gateway, err = control.New(control.Options{
		Store: r.store, Keys: ring, Passage: admission.DefaultConfig(), Metrics: control.NewMetrics(r.metrics), Log: log,
		Now: func() time.Duration { return time.Since(began) }, Wall: func() time.Time { return time.Now().Add(wrong) },
		Rand: func() uint64 { return 1 << 63 }, // the same for all, so that hints can be compared
	})
	must()
	server := httptest.NewServer((&web.Server{Gateway: r.gateway, Metrics: r.metrics, Log: log}).Handler())
	r.url = server.URL
	t.Cleanup(func() {
		server.Close()
		cancel()
		if err := errors.Join(<-ended, r.store.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *inner) client(consumer string) *client.Client {
	r.t.Helper()
	c, err := client.New(r.url, tokenOf(consumer), client.WithHTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// hourApart are three replicas of one store: one is right, one an hour late, one an hour early.
func hourApart(t *testing.T) []*inner {
	t.Helper()
	at := schemaOf(t)
	var all []*inner
	for _, wrong := range []time.Duration{0, -time.Hour, time.Hour} {
		all = append(all, newInner(t, at, wrong))
	}
	file, err := config.Parse("test", []byte(document()))
	if err != nil {
		t.Fatal(err)
	}
	_, ok, err := all[0].store.Apply(t.Context(), control.Config{Document: file.FleetDocument, By: "test"}, file.Fleet.Settings())
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, r := range all {
		if err := r.gateway.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// near is by how much a time may be off that was compared with the store's over a connection.
const near = time.Second

// TestClocksAnHourApart: whose clock is wrong changes nothing: the same ticket is minted by
// each replica and redeemed by any, and lives as long; places, waits and appointments are the
// same; nothing expires by whoever sweeps (trap 7).
func TestClocksAnHourApart(t *testing.T) {
	t.Parallel()
	replicas, ctx := hourApart(t), within(t, time.Minute)
	for i, mints := range replicas {
		redeems := replicas[(i+1)%len(replicas)]
		q := api.AdmissionRequest{Key: fmt.Sprint("k", i), Class: "conversation"}
		var first *api.Admission
		for _, r := range append(replicas[i:i+1:i+1], replicas...) {
			a, err := r.client("chat").Admit(ctx, q, client.Options{Wait: client.Once})
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = a
			}
			// Asking again lets it live on, so that each is a little later than the one before.
			if late := a.ExpiresAt.Sub(*first.ExpiresAt); a.Epoch != first.Epoch || late < 0 || late > slotTTL || !a.LiveUntil.Equal(*a.ExpiresAt) {
				t.Errorf("one replica says %+v, and another %+v", a, first)
			}
			if in := time.Until(*a.ExpiresAt); in <= 0 || in > slotTTL+near || a.HeartbeatMS > (slotTTL+near).Milliseconds()/3 {
				t.Errorf("it expires in %v, and should within %v; a heartbeat is due in %d ms", in, slotTTL, a.HeartbeatMS)
			}
		}
		kept, err := redeems.client("chat").Heartbeat(ctx, q.Key)
		if err != nil || kept.ExpiresAt.Before(*first.ExpiresAt) || time.Until(*kept.ExpiresAt) > slotTTL+near {
			t.Errorf("%+v %v", kept, err)
		}
		ask := api.TicketRequest{Ticket: first.Ticket, Instance: q.Key}
		if _, err := mints.client("provider").VerifyTicket(ctx, ask); err != nil {
			t.Error(err)
		}
		redeemed, err := redeems.client("provider").RedeemTicket(ctx, ask)
		if err != nil || redeemed.LiveForMS <= 0 || redeemed.LiveForMS > (slotTTL+near).Milliseconds() {
			t.Errorf("%+v %v", redeemed, err)
		}
		ask.Instance = "another"
		if _, err := mints.client("provider").RedeemTicket(ctx, ask); !errors.Is(err, api.TicketRejected) {
			t.Errorf("redeemed twice: %v", err)
		}
	}
	sameLine(ctx, t, replicas)
	sameReceipt(ctx, t, replicas)
	for _, r := range replicas {
		if swept, err := r.store.Sweep(ctx); err != nil || len(swept) > 0 {
			t.Errorf("a sweep changed %+v (%v)", swept, err)
		}
	}
}

// fill takes every slot of the small pool, each through another replica.
func fill(ctx context.Context, t *testing.T, replicas []*inner) {
	t.Helper()
	for i := range smallCap {
		_, err := replicas[i%len(replicas)].client("ci").Admit(ctx, api.AdmissionRequest{Key: fmt.Sprint("f", i), Class: "probe"}, client.Options{Wait: client.Once})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func release(ctx context.Context, t *testing.T, r *inner, consumer, key string) {
	t.Helper()
	if _, err := r.client(consumer).Release(ctx, key); err != nil {
		t.Errorf("%s: %v", key, err)
	}
}

// sameLine: who waits hears the same of each replica.
func sameLine(ctx context.Context, t *testing.T, replicas []*inner) {
	t.Helper()
	fill(ctx, t, replicas)
	for i, r := range replicas {
		key := fmt.Sprint("w", i)
		_, err := r.client("ci").Admit(ctx, api.AdmissionRequest{Key: key, Class: "probe", Mode: api.WaitModeQueue}, client.Options{Wait: client.Once})
		var first *client.StillWaiting
		if !errors.As(err, &first) {
			t.Fatal(err)
		}
		for _, other := range replicas {
			_, err := other.client("ci").Resume(ctx, key, client.Options{Wait: client.Once})
			var w *client.StillWaiting
			if !errors.As(err, &w) || w.Position != int64(i)+1 || !alike(w.RetryAfterMS, first.RetryAfterMS) || w.QueuedForMS < 0 || w.QueuedForMS > 20_000 {
				t.Errorf("%s waits: one replica says %+v, and another %v", key, first.Waiting, err)
			}
		}
	}
	for i := range replicas {
		release(ctx, t, replicas[i], "ci", fmt.Sprint("w", i))
		release(ctx, t, replicas[i], "ci", fmt.Sprint("f", i))
	}
}

// alike: a replica gives each millisecond away once, so who asks again is told one close by.
func alike(a, b int64) bool { return max(a, b)-min(a, b) <= 20 }

// sameReceipt: a caller that one replica refused, and another admits, is known to have waited
// for as long as it did.
func sameReceipt(ctx context.Context, t *testing.T, replicas []*inner) {
	t.Helper()
	for i, r := range replicas {
		next := replicas[(i+1)%len(replicas)]
		fill(ctx, t, replicas)
		q := api.AdmissionRequest{Key: fmt.Sprint("r", i), Class: "probe"}
		_, err := r.client("chat").Admit(ctx, q, client.Options{Wait: client.Once})
		refusal, ok := api.AsRefusal(err)
		if !ok || refusal.Code != api.PoolFull || refusal.Receipt == "" {
			t.Fatal(err)
		}
		release(ctx, t, r, "ci", "f0")
		before, n := next.waited(t)
		q.Receipt = refusal.Receipt
		if _, err := next.client("chat").Admit(ctx, q, client.Options{Wait: client.Once}); err != nil {
			t.Fatal(err)
		}
		if after, m := next.waited(t); m != n+1 || after-before < 0 || after-before > 60 {
			t.Errorf("%d calls waited for %v s, and then %d for %v s", n, before, m, after)
		}
		release(ctx, t, r, "chat", q.Key)
		release(ctx, t, r, "ci", "f1")
		release(ctx, t, r, "ci", "f2")
	}
}

// waited is the sum, in seconds, and the number of waits that a replica measured.
func (r *inner) waited(t *testing.T) (sum float64, n uint64) {
	t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "plimsoll_first_refusal_to_success_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			sum, n = sum+m.GetHistogram().GetSampleSum(), n+m.GetHistogram().GetSampleCount()
		}
	}
	return sum, n
}
