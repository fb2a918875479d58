// Package demo shows the main job on real processes, in under a minute: two hosts, one per
// mode, admit, boot, measure and refuse side by side, and at the end all of it is released.
//
// It is a user of the product and nothing else: it starts two `plimsoll up` of its own binary
// and speaks to them through the SDK and the boot seam. What must come out is computed by
// package gate from the configuration that is on the screen; what came out is read from the
// API or from /metrics. Worked: of a budget of 4,096 MiB with 256 MiB of headroom, sandboxes of
// 512 MiB fit 7 times in committed mode, and 30 times at a reserve of 128 MiB.
//
// A step that is not as it should be ends the demo with an error that names the step. However
// it ends, nothing of it is left: no process, no cgroup, no file.
//
// With the hidden flag --break STEP, which is for tests alone, that step is made wrong in the
// real system, and of the others only those run that it needs.
package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/internal/cli"
)

// demo is one run.
type demo struct {
	plan   plan
	screen *screen
	nodes  []*node // committed, working-set
	broken string  // the step that is made wrong; "": none
	now    string  // the step that runs

	summary table
}

// step is one thing that is shown, and must be so.
type step struct {
	name  string
	title string
	run   func(context.Context) error
}

func (d *demo) steps() []step {
	return []step{
		{"hosts", "Two hosts come up, one per mode", d.hosts},
		{"burst", fmt.Sprintf("%d creates at once on each, and nothing is overrun", d.plan.creates()), d.burst},
		{"measure", "What was admitted boots, and its memory is measured", d.measure},
		{"queue", "A waiter in the queue is admitted when another ends", d.queue},
		{"tickets", "Nothing boots without a ticket that is good", d.tickets},
		{"pressure", "Growth shuts the valve, and it opens again", d.pressure},
		{"release", "Everything is released, and nothing stays reserved", d.release},
		{"leftovers", "Nothing is left running, and nothing behind", d.leftovers},
	}
}

// stepNames are those that --break takes.
func stepNames() (names []string) {
	for _, s := range (&demo{}).steps() {
		names = append(names, s.name)
	}
	return names
}

// run goes through the steps and clears everything away, whatever becomes of them.
func (d *demo) run(ctx context.Context) (err error) {
	started := time.Now()
	defer func() { err = errors.Join(err, d.clear(ctx)) }()
	if err := d.plan.write(); err != nil {
		return err
	}
	d.screen.introduce(d.plan)
	for i, s := range d.steps() {
		if d.broken != "" && s.name != d.broken && s.name != "hosts" {
			continue
		}
		if err := d.take(ctx, i+1, s); err != nil {
			return err
		}
	}
	d.screen.conclude(d.summary, time.Since(started))
	return nil
}

// take runs one step. What is wrong with it is said with its name.
func (d *demo) take(ctx context.Context, number int, s step) error {
	d.now = s.name
	d.screen.begin(number, s.title)
	err := s.run(ctx)
	if ctx.Err() != nil {
		d.screen.interrupted()
		return context.Canceled
	}
	d.screen.end(err)
	if err != nil {
		return &cli.Failure{
			Status: 1,
			// Not wrapped: a host's no is a fault of the step here, and no tempo to be kept.
			Err: fmt.Errorf("demo: step %d, %s, is not as it should be: %s", number, s.name, err),
			Try: "plimsoll demo --keep-logs, and read what the hosts logged",
		}
	}
	return nil
}

// breaks says whether a step is to be made wrong.
func (d *demo) breaks(name string) bool { return d.broken == name }

// both does the same on both hosts, side by side.
func (d *demo) both(ctx context.Context, f func(context.Context, *node) error) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range d.nodes {
		group.Go(func() error {
			if err := f(ctx, n); err != nil {
				return fmt.Errorf("host %s: %w", n.name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// mismatch is something that is not as it should be.
type mismatch struct{ what, want, got string }

func (m mismatch) Error() string {
	return fmt.Sprintf("%s: expected %s, got %s", m.what, m.want, m.got)
}

// same compares what must be with what is.
func same[T comparable](what string, want, got T) error {
	if want == got {
		return nil
	}
	return mismatch{what, fmt.Sprint(want), fmt.Sprint(got)}
}

// How long something that must come is waited for; it comes in a fraction of that. A broken
// step knows that it waits for nothing.
const (
	patience       = 20 * time.Second
	brokenPatience = 4 * time.Second
	lookEvery      = 50 * time.Millisecond
)

func (d *demo) patience() time.Duration {
	if d.breaks(d.now) {
		return brokenPatience
	}
	return patience
}

// await looks until it sees what must come, or says what it saw instead.
func (d *demo) await(ctx context.Context, what, want string, look func(context.Context) (got string, ok bool, err error)) error {
	deadline := time.Now().Add(d.patience())
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		got, ok, err := look(ctx)
		switch {
		case err != nil || ok:
			return err
		case time.Now().After(deadline):
			return mismatch{what, want, got}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
