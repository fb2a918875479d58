package demo

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// queue fills both hosts, has one more wait, and ends one: on the one host its process ends
// by itself, on the other its caller releases it.
func (d *demo) queue(ctx context.Context) error {
	var ways, waits [2]string
	err := d.both(ctx, func(ctx context.Context, n *node) error {
		if err := n.raise(ctx, d, n.expect.room, quiet()); err != nil {
			return err
		}
		i := d.index(n)
		end := n.kill
		if ways[i] = "process ended"; i == 1 {
			end, ways[i] = n.giveBack, "caller released it"
		}
		if d.breaks("queue") { // nothing ends
			end = func(context.Context, *demo, api.Sandbox) error { return nil }
		}
		waited, err := n.waitForEnd(ctx, d, end)
		waits[i] = waited
		return err
	})
	if err != nil {
		return err
	}
	d.screen.row("how another ended", ways[0], ways[1])
	d.screen.row("the waiter is admitted after", waits[0], waits[1])
	d.summary.add("waiter admitted after another's end", waits[0], waits[1])
	return nil
}

func (d *demo) index(n *node) int {
	if n == d.nodes[0] {
		return 0
	}
	return 1
}

type ending func(context.Context, *demo, api.Sandbox) error

// kill ends a sandbox's process: nobody tells the host.
func (n *node) kill(_ context.Context, d *demo, s api.Sandbox) error {
	send(int(s.PID), d.plan.run, unix.SIGTERM)
	return nil
}

// giveBack ends it through the API.
func (n *node) giveBack(ctx context.Context, _ *demo, s api.Sandbox) error {
	return n.release(ctx, []string{s.Key})
}

// waitForEnd puts one into the queue, ends another, and returns how long after that end the
// waiter was admitted, by the server's own times.
func (n *node) waitForEnd(ctx context.Context, d *demo, end ending) (string, error) {
	h, err := n.view(ctx)
	if err != nil || len(running(h)) == 0 {
		return "", fmt.Errorf("no sandbox to end: %w", err)
	}
	victim := running(h)[0]
	w := n.queueUp(ctx, d)
	defer w.cancel()
	if err := n.stands(ctx, d, w.key); err != nil {
		return "", err
	}
	if err := end(ctx, d, victim); err != nil {
		return "", err
	}
	<-w.over
	if w.err != nil {
		return "", mismatch{"the waiter, once another had ended", "to be admitted", w.err.Error()}
	}
	if err := n.boot(ctx, d, w.admission, quiet()); err != nil {
		return "", err
	}
	return n.between(ctx, d, victim.Key, w.key)
}

// waiter is one create in queue mode.
type waiter struct {
	key    string
	cancel context.CancelFunc
	over   chan struct{}

	// Written before over is closed.
	admission *api.Admission
	err       error
}

func (n *node) queueUp(ctx context.Context, d *demo) *waiter {
	ctx, cancel := context.WithCancel(ctx)
	w := &waiter{key: client.NewKey(), cancel: cancel, over: make(chan struct{})}
	go func() {
		defer close(w.over)
		request := api.AdmissionRequest{Key: w.key, Class: className, Mode: api.WaitModeQueue}
		w.admission, w.err = n.client.Admit(ctx, request, client.Options{Wait: d.patience(), KeepPlace: true})
	}()
	return w
}

// stands waits until the server says that a key waits for a host.
func (n *node) stands(ctx context.Context, d *demo, key string) error {
	return d.await(ctx, "one more create in queue mode on the full host", string(api.AdmissionStateWaitingCapacity), func(ctx context.Context) (string, bool, error) {
		a, err := n.client.Get(ctx, key)
		if err != nil {
			return "no admission yet", false, nil
		}
		d.screen.progress("%s: the waiter stands in the queue", n.name)
		return string(a.State), a.State == api.AdmissionStateWaitingCapacity, nil
	})
}

// between is the time from the end of one admission to the yes for another.
func (n *node) between(ctx context.Context, d *demo, ended, admitted string) (string, error) {
	var first, second *api.Admission
	err := d.await(ctx, "what the API says of the two", "one ended, one running", func(ctx context.Context) (got string, ok bool, err error) {
		if first, err = n.client.Get(ctx, ended); err != nil {
			return "", false, err
		}
		if second, err = n.client.Get(ctx, admitted); err != nil {
			return "", false, err
		}
		ok = first.EndedAt != nil && second.AdmittedAt != nil && second.State == api.AdmissionStateRunning
		return fmt.Sprintf("%s, %s", first.State, second.State), ok, nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d ms", second.AdmittedAt.Sub(*first.EndedAt)/time.Millisecond), nil
}
