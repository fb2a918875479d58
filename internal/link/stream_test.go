package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStream asks a host everything that a replica may, over a real connection.
func TestStream(t *testing.T) {
	r := newRig(t)
	c, ctx := r.dial(), within(t)
	v, err := c.Verdict(ctx)
	if err != nil || v.Host != "h1" || v.Incarnation != life || v.Admittable == 0 {
		t.Fatal(v, err)
	}
	ref := host.Ref{ID: "a1", Epoch: 1}
	a, err := c.Do(ctx, ask("a1", 1, v.At+time.Minute))
	if err != nil || a.Denial != "" || a.Need != 64*gate.MiB || a.Verdict.Admittable >= v.Admittable {
		t.Fatal(a, err)
	}
	if reserved, running, err := c.Holds(ctx, ref); err != nil || !reserved || running {
		t.Fatal(reserved, running, err)
	}
	if a, err = c.Do(ctx, host.Renew{ID: "a1", Epoch: 1, Until: v.At + 2*time.Minute, Incarnation: life}); err != nil || a.Denial != "" {
		t.Fatal(a, err)
	}
	if view, err := c.View(ctx); err != nil || view.Reservations != 1 || view.Config.ID != "h1" {
		t.Fatal(view, err)
	}
	if a, err = c.Do(ctx, ask("a2", 1, 0)); err != nil || a.Denial == "" {
		t.Fatal(a, err)
	}
	if a, err = c.Do(ctx, host.Release{ID: "a1", Gen: 1}); err != nil || a.Denial != "" {
		t.Fatal(a, err)
	}
	if held, err := c.Holding(ctx); err != nil || len(held.Reserved) != 0 || len(held.OutOfGate) != 1 {
		t.Fatal(held, err)
	}
	if err := c.Clear(ctx, "stray"); err != nil {
		t.Fatal(err)
	}
	if err := c.Clear(ctx, "other"); err == nil {
		t.Error("what does not run was cleared")
	}
	n, err := c.Next(ctx)
	if err != nil || n.Verdict.Incarnation != life {
		t.Fatal(n, err)
	}
	if _, err := c.Do(ctx, host.Tick{}); err == nil {
		t.Error("a host's own event was sent to it")
	}
}

// TestCoalescing: what is asked while a frame is on its way goes out as one, is stepped as one
// batch in its order, and nothing is lost however many ask.
func TestCoalescing(t *testing.T) {
	r := newRig(t)
	c, ctx := r.dial(), within(t)
	v, err := c.Verdict(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.kernel.hold.Lock()
	var all sync.WaitGroup
	const n = 3 * maxOutstanding
	for i := range n {
		all.Go(func() {
			a, err := c.Do(ctx, ask(fmt.Sprint("a", i), 1, v.At+time.Minute))
			if err != nil || a.Verdict.Host != "h1" || a.Denial != "" && a.Denial != host.NoRoom && a.Denial != host.StartsFull {
				t.Error(i, a, err)
			}
		})
	}
	for len(r.kernel.inbox) < maxOutstanding-1 {
		time.Sleep(time.Millisecond)
	}
	r.kernel.hold.Unlock()
	all.Wait()
	r.kernel.mu.Lock()
	defer r.kernel.mu.Unlock()
	if batches := len(r.kernel.batch); batches > n/4 {
		t.Errorf("%d asks were stepped in %d batches", n, batches)
	}
}

// TestDoAll: many events go out in one frame, and each gets its own answer, in their order.
func TestDoAll(t *testing.T) {
	r := newRig(t)
	c, ctx := r.dial(), within(t)
	v, err := c.Verdict(ctx)
	if err != nil {
		t.Fatal(err)
	}
	until := v.At + time.Minute
	said := c.DoAll(ctx, []host.Event{ask("a1", 1, until), host.Tick{}, ask("a2", 1, 0), host.Release{ID: "a1", Gen: 1}})
	for i, want := range []struct {
		denied, failed bool
	}{{}, {failed: true}, {denied: true}, {}} {
		if a := said[i]; (a.Err != nil) != want.failed || (a.Answer.Denial != "") != want.denied {
			t.Errorf("%d: %+v", i, a)
		}
	}
	r.kernel.mu.Lock()
	batches := len(r.kernel.batch)
	r.kernel.mu.Unlock()
	if batches > 4 { // the verdict's, and one, unless the host looked in the middle of the frame
		t.Errorf("%d batches", batches)
	}
	r.kernel.hold.Lock()
	defer r.kernel.hold.Unlock()
	go func() {
		for len(r.kernel.inbox) == 0 && !r.kernel.busy() {
			time.Sleep(time.Millisecond)
		}
		c.hangUp()
	}()
	for i, a := range c.DoAll(ctx, []host.Event{ask("b1", 1, until), ask("b2", 1, until)}) {
		if a.Err == nil {
			t.Errorf("%d: answered by a stream that ended", i)
		}
	}
	if len(c.calls) != 0 {
		t.Errorf("%d calls are not forgotten", len(c.calls))
	}
}

// TestEnds: whoever waits on a stream that ends is told at once, and why.
func TestEnds(t *testing.T) {
	for name, end := range map[string]func(*rig, *Conn){
		"the agent stops":   func(r *rig, _ *Conn) { r.halt() },
		"the replica ends":  func(_ *rig, c *Conn) { c.Close() },
		"the wire is cut":   func(_ *rig, c *Conn) { c.hangUp() },
		"nothing is heard":  func(_ *rig, c *Conn) { c.watchdog.Reset(0) },
		"the agent's feeds": func(r *rig, _ *Conn) { r.closeFeeds() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c, ctx := r.dial(), within(t)
			r.kernel.hold.Lock()
			release := sync.OnceFunc(r.kernel.hold.Unlock)
			defer release()
			failed := make(chan error, 2)
			go func() {
				_, err := c.Do(ctx, host.Release{ID: "a1", Gen: 1})
				failed <- err
			}()
			go func() {
				_, err := c.Next(ctx)
				failed <- err
			}()
			for len(r.kernel.inbox) == 0 && !r.kernel.busy() {
				time.Sleep(time.Millisecond)
			}
			end(r, c)
			for range 2 {
				if err := <-failed; err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "the stream to host h1 ended") {
					t.Error(err)
				}
			}
			if _, err := c.Verdict(ctx); err == nil {
				t.Error("a stream that ended still answers")
			}
			release()
		})
	}
}

// TestGivenUp: an answer that never comes is an unknown outcome when its asker's time is up,
// and does not end the stream; one that comes late is nobody's.
func TestGivenUp(t *testing.T) {
	r := newRig(t)
	c := r.dial()
	r.kernel.hold.Lock()
	ctx, cancel := context.WithCancelCause(within(t))
	mine := errors.New("no longer")
	time.AfterFunc(20*time.Millisecond, func() { cancel(mine) })
	if _, err := c.Do(ctx, host.Release{ID: "a1", Gen: 1}); !errors.Is(err, mine) {
		t.Error(err)
	}
	r.kernel.hold.Unlock()
	if _, err := c.Verdict(within(t)); err != nil {
		t.Error(err)
	}
}

// TestManyReplicas: each has its own stream and hears the same news; one that left is forgotten.
func TestManyReplicas(t *testing.T) {
	r := newRig(t)
	var all []control.Conn
	for range 5 {
		all = append(all, r.dial())
	}
	ctx := within(t)
	v, err := all[0].Verdict(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := all[0].Do(ctx, ask("a1", 1, v.At+time.Hour)); err != nil || a.Denial != "" {
		t.Fatal(a, err)
	}
	if _, err := all[1].Do(ctx, host.Release{ID: "a1", Gen: 1}); err != nil {
		t.Fatal(err)
	}
	for i, c := range all {
		if n, err := c.Next(ctx); err != nil || n.Verdict.Host != "h1" {
			t.Error(i, n, err)
		}
		c.Close()
	}
	for len(r.kernel.listeners()) > 0 {
		time.Sleep(time.Millisecond)
	}
}
