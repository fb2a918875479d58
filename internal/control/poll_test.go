package control_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pool"
)

// wait queues a key and proves that it has a place.
func (r *rig) wait(key, class, lacks string, change ...func(*api.AdmissionRequest)) *api.Waiting {
	r.t.Helper()
	out, err := r.post(key, class, append([]func(*api.AdmissionRequest){queue}, change...)...)
	r.want("waiting", out, err)
	if out.Waiting == nil {
		r.t.FailNow()
	}
	if string(out.Waiting.WaitingFor) != lacks || out.Waiting.RetryAfterMS <= 0 || out.Waiting.Position < 1 {
		r.t.Errorf("%s waits for %s, with %+v", key, lacks, *out.Waiting)
	}
	return out.Waiting
}

// answered is a poll's answer, which must have come by now.
func (r *rig) answered(poll chan told, want string) told {
	r.t.Helper()
	synctest.Wait()
	select {
	case got := <-poll:
		if got.word != want {
			r.t.Errorf("told %q (%v), want %q", got.word, got.err, want)
		}
		return got
	default:
		r.t.Errorf("not answered at once; want %q", want)
		return told{}
	}
}

func (r *rig) release(key string) {
	r.t.Helper()
	out, err := r.g.Release(r.t.Context(), alice, key, 0)
	r.want("released", out, err)
}

func TestPollIsWokenByARelease(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k1", "solo")
		r.wait("k2", "solo", pool.ForSlot)
		poll := r.poll(r.t.Context(), "k2", 30*time.Second)
		time.Sleep(3300 * time.Millisecond)
		r.release("k1")
		r.answered(poll, "yes")
		r.wantHeld(1, 1, 0)
	})
}

func TestPollIsWokenByAnExit(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		a := r.admit("k1", "solo")
		r.boot(a)
		r.wait("k2", "solo", pool.ForSlot)
		poll := r.poll(r.t.Context(), "k2", 30*time.Second)
		time.Sleep(3300 * time.Millisecond)
		r.exit("k1")
		r.answered(poll, "yes")
	})
}

// TestPollHearsOfItsRelease: somebody else releases what a caller holds on for.
func TestPollHearsOfItsRelease(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k1", "solo")
		r.wait("k2", "solo", pool.ForSlot)
		r.wait("k3", "solo", pool.ForSlot)
		first, second := r.poll(r.t.Context(), "k2", 30*time.Second), r.poll(r.t.Context(), "k3", 30*time.Second)
		time.Sleep(3300 * time.Millisecond)
		r.release("k3")
		r.answered(second, "not_found")
		if len(first) > 0 {
			t.Error("the other poll ended")
		}
		r.release("k2")
		r.answered(first, "not_found")
	})
}

func TestPresence(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k1", "solo")
		r.wait("k2", "solo", pool.ForSlot)
		ctx, hangUp := context.WithCancel(r.t.Context())
		r.poll(ctx, "k2", 30*time.Second)
		for range 25 {
			time.Sleep(time.Second)
			if now := pool.Time(time.Now().UnixMilli()); r.row("k2").PresentUntil < now.Add(2900*time.Millisecond) {
				t.Fatalf("a held poll is present until %v, and it is %v", r.row("k2").PresentUntil.Wall(), now.Wall())
			}
		}
		hangUp()
		synctest.Wait()
		if strings.Contains(r.log.String(), "msg=refused") {
			t.Error("a hang-up is counted as a refusal")
		}
		if row := r.row("k2"); row.PresentUntil != 0 || row.State != pool.Waiting || row.Place == 0 {
			t.Errorf("hung up: %+v", row)
		}
		// Trap 6: one that is gone holds up nobody, and keeps its place (trap 5).
		r.wait("k3", "solo", pool.ForSlot)
		poll := r.poll(r.t.Context(), "k3", 30*time.Second)
		time.Sleep(time.Second)
		r.release("k1")
		time.Sleep(4 * time.Second)
		r.answered(poll, "yes")
		if row := r.row("k2"); row.State != pool.Waiting || row.Place == 0 {
			t.Errorf("passed over: %+v", row)
		}
	})
}

func TestPollIsAnsweredAtStop(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k1", "solo")
		r.wait("k2", "solo", pool.ForSlot)
		poll := r.poll(r.t.Context(), "k2", 30*time.Second)
		time.Sleep(time.Second)
		r.halt()
		got := r.answered(poll, "unavailable")
		r.want("unavailable", got.out, got.err)
		if row := r.row("k2"); row.State != pool.Waiting || row.PresentUntil != 0 {
			t.Errorf("stopped: %+v", row)
		}
	})
}

func TestPollEndsInTime(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k1", "solo")
		r.wait("k2", "solo", pool.ForSlot)
		began := time.Now()
		got := <-r.poll(r.t.Context(), "k2", time.Hour)
		if got.word != "waiting" || got.at.Sub(began) != 30*time.Second {
			t.Errorf("told %q after %v", got.word, got.at.Sub(began))
		}
		if got := <-r.poll(r.t.Context(), "k2", 0); got.word != "waiting" || !got.at.Equal(time.Now()) {
			t.Errorf("without a wait: %q", got.word)
		}
	})
}

// TestFirstComeFirstServed has ten callers hold on for the one slot (§12.7), and counts
// what each release costs: one claim that is served and one that finds nothing left.
func TestFirstComeFirstServed(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		const n = 40
		r.admit("k0", "solo")
		var polls []chan told
		for i := range n {
			key := fmt.Sprintf("k%d", i+1)
			if w := r.wait(key, "solo", pool.ForSlot); w.Position != int64(i+1) {
				t.Errorf("%s is at %d", key, w.Position)
			}
			polls = append(polls, r.poll(r.t.Context(), key, 29*time.Second))
		}
		time.Sleep(time.Second)
		for i := range n {
			before := r.store.Calls("Claim")
			time.Sleep(time.Millisecond)
			r.release(fmt.Sprintf("k%d", i))
			r.answered(polls[i], "yes")
			for j := i + 1; j < n; j++ {
				if len(polls[j]) > 0 {
					t.Fatalf("k%d came before k%d", j+1, i+1)
				}
			}
			if cost := r.store.Calls("Claim") - before; cost > 3 {
				t.Errorf("release %d cost %d claims with %d polls held", i, cost, n-i)
			}
		}
		r.wantHeld(1, 1, 0)
	})
}

func TestWaiterForAHostIsWokenByRoom(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		full(r)
		r.wait("k", "large", pool.ForHost)
		poll := r.poll(r.t.Context(), "k", 30*time.Second)
		time.Sleep(3300 * time.Millisecond)
		r.release("filler-h1")
		r.answered(poll, "yes")
	})
	bubble(t, oneHost(4096), func(r *rig) {
		full(r)
		r.wait("k", "large", pool.ForHost)
		poll := r.poll(r.t.Context(), "k", 30*time.Second)
		time.Sleep(3300 * time.Millisecond)
		h := r.hosts[0]
		h.set(func() { h.budget = 8 * gate.GiB })
		h.sample()
		r.answered(poll, "yes")
	})
}

// TestWaitersForAHostDoNotSpin (F07): with every host full, a held poll costs a try each
// two seconds; neither it nor waiters of other kinds wake each other in between.
func TestWaitersForAHostDoNotSpin(t *testing.T) {
	bubble(t, twoHosts(4096), func(r *rig) {
		full(r)
		classes := map[string]int64{"large": 4096, "base": 1024}
		for class := range classes {
			for _, n := range []string{"1", "2"} {
				r.wait(class+n, class, pool.ForHost)
			}
		}
		claims, verdicts := r.store.Calls("Claim"), r.hosts[0].calls("Verdict")
		for class := range classes {
			for _, n := range []string{"1", "2"} {
				r.poll(r.t.Context(), class+n, 30*time.Second)
			}
		}
		time.Sleep(29 * time.Second)
		// 15 each by themselves, and a few turns when memory is set aside; a spin makes thousands.
		if n := r.store.Calls("Claim") - claims; n > 4*20 {
			t.Errorf("four polls of 29 s made %d claims", n)
		}
		if n := r.hosts[0].calls("Verdict") - verdicts; n > 60 {
			t.Errorf("four polls of 29 s asked a host %d times", n)
		}
		time.Sleep(2 * time.Second)
	})
}

// TestSlotGivenBackReachesTheNext: a waiter that had a slot but no host gives it back, and
// those of other kinds pass it, at once (one slot stays its kind's; T82).
func TestSlotGivenBackReachesTheNext(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.boot(r.admit("k0", "duo"))
		r.boot(r.admit("k00", "duo"))
		full(r)
		r.wait("k1", "giant", pool.ForSlot)
		r.wait("k2", "duo", pool.ForSlot)
		first, second := r.poll(r.t.Context(), "k1", 20*time.Second), r.poll(r.t.Context(), "k2", 20*time.Second)
		time.Sleep(time.Second)
		r.exit("k0") // leaves too little for the giant
		if len(second) > 0 {
			t.Error("the slot of the giant's kind was taken")
		}
		r.exit("k00")
		r.answered(second, "yes")
		if got := <-first; got.word != "waiting" {
			t.Errorf("the giant: %q", got.word)
		}
	})
}

func TestQueueTimeout(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k1", "solo")
		r.wait("k2", "solo", pool.ForSlot, patience(5*time.Second))
		got := <-r.poll(r.t.Context(), "k2", 30*time.Second)
		r.want("queue_timeout", got.out, got.err)
		refusal, _ := api.AsRefusal(got.err)
		if !refusal.Figures.TimedOut || refusal.Figures.QueuedFor < 5*time.Second || refusal.Figures.QueuedFor > 7*time.Second {
			t.Errorf("after 5 s of patience: %+v", refusal.Figures)
		}
		// The ADR: a timeout carries pool, busy and cap, as every refusal does.
		if f := refusal.Figures; f.Pool == "" || f.Cap == nil || *f.Cap != 1 || f.PoolBusy != 1 || refusal.Detail == "" {
			t.Errorf("%q: %+v", refusal.Detail, f)
		}
		// Trap 12, F03: GET and attempt say so for a day.
		time.Sleep(23 * time.Hour)
		if a, err := r.g.Get(r.t.Context(), alice, "k2"); err != nil || a.State != api.AdmissionStateTimedOut {
			t.Errorf("GET: %v %v", a.State, err)
		}
		got = <-r.poll(r.t.Context(), "k2", 0)
		r.want("queue_timeout", got.out, got.err)
		out, err := r.post("k1b", "solo", queue)
		r.want("yes", out, err) // k1 lapsed long ago
		r.wait("k2", "solo", pool.ForSlot)
	})
}

// TestQueueTimeoutUnattended: nobody polls; the sweep ends it.
func TestQueueTimeoutUnattended(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k1", "solo")
		r.wait("k2", "solo", pool.ForSlot, patience(5*time.Second))
		time.Sleep(16 * time.Second)
		if row := r.row("k2"); row.State != pool.TimedOut {
			t.Errorf("%s", row.State)
		}
	})
}

func TestMaxWaiting(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		for i := range 4 {
			r.admit(fmt.Sprintf("k%d", i), "quad")
		}
		for i := range 3 {
			r.wait(fmt.Sprintf("w%d", i), "quad", pool.ForSlot)
		}
		out, err := r.post("w3", "quad", queue)
		got := r.want("queue_full", out, err)
		if refusal, _ := api.AsRefusal(got.err); *refusal.Figures.Cap != 4 || refusal.Figures.PoolBusy != 4 || refusal.WhoseNo() != api.ScopePool {
			t.Errorf("%+v", refusal)
		}
		if row := r.row("w3"); row.ID != "" {
			t.Errorf("refused, and it left %+v", row)
		}
	})
}

// TestQuotaWaiter: a tenant at its quota waits and is passed over; what frees it lies in
// another pool.
func TestQuotaWaiter(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k1", "small", poor)
		w := r.wait("k2", "quad", pool.ForQuota, poor)
		if w.Limit == nil || *w.Limit != 1 || *w.Use != 1 {
			t.Errorf("waits for a quota: %+v", *w)
		}
		poll := r.poll(r.t.Context(), "k2", 30*time.Second)
		out, err := r.post("k3", "quad", poor)
		got := r.want("tenant_over_quota", out, err)
		if refusal, _ := api.AsRefusal(got.err); refusal.Figures.Limit != 1 || refusal.Figures.Use != 1 || refusal.RetryAfter != 0 {
			t.Errorf("%+v", refusal)
		}
		r.admit("k4", "quad")
		time.Sleep(3300 * time.Millisecond)
		r.release("k1")
		r.answered(poll, "yes")
	})
}

// TestQueueModeWaits (T71, T70, T69): whatever is lacking, queue mode parks and never errs,
// and refuse mode says a code and leaves nothing (F02).
func TestQueueModeWaits(t *testing.T) {
	for class, refusal := range map[string]string{"solo": "pool_full", "large": "no_capacity"} {
		bubble(t, oneHost(4096), func(r *rig) {
			full(r)
			r.admit("k0", "solo")
			before := r.held()
			for i := range 5 {
				out, err := r.post(fmt.Sprintf("k%d", i+1), class)
				r.want(refusal, out, err) // T66: at once, with an appointment
				if row := r.row(fmt.Sprintf("k%d", i+1)); row.ID != "" {
					t.Errorf("refused, and it left %+v", row)
				}
			}
			if after := r.held(); after != before {
				t.Errorf("refusals changed %s into %s", before, after)
			}
			out, err := r.post("w", class, queue)
			r.want("waiting", out, err)
		})
	}
}

// TestHeartbeatOfAWaiter says where it stands and changes nothing.
func TestHeartbeatOfAWaiter(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k1", "solo")
		r.wait("k2", "solo", pool.ForSlot)
		poll := r.poll(r.t.Context(), "k2", 10*time.Second)
		time.Sleep(time.Second)
		before := r.row("k2")
		out, err := r.g.Heartbeat(r.t.Context(), alice, "k2")
		r.want("waiting", out, err)
		if after := r.row("k2"); after != before {
			t.Errorf("%+v became %+v", before, after)
		}
		<-poll
	})
}

func (r *rig) exit(key string) {
	row := r.row(key)
	r.host(row.Host).done(row.ID, row.Epoch)
	synctest.Wait()
}
