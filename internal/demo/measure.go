package demo

import (
	"context"
	"fmt"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
)

// What counts as about what a sandbox touches: what else its program needs comes and goes.
const (
	leastMeasured = touched - 8*gate.MiB
	mostMeasured  = touched + 8*gate.MiB
)

// measure boots what was admitted, and waits until each sandbox was measured.
func (d *demo) measure(ctx context.Context) error {
	s := quiet()
	if d.breaks("measure") { // they hold more than they should
		s.touch *= 2
	}
	if err := d.both(ctx, func(ctx context.Context, n *node) error { return n.raise(ctx, d, n.expect.room, s) }); err != nil {
		return err
	}
	if err := d.both(ctx, func(ctx context.Context, n *node) error { return n.measured(ctx, d) }); err != nil {
		return err
	}
	return d.tellMeasured(ctx)
}

// measured waits until the host has seen the memory of all that should run.
func (n *node) measured(ctx context.Context, d *demo) error {
	want := fmt.Sprintf("%d, of %d to %d MiB each", n.expect.room, leastMeasured.CeilMiB(), mostMeasured.CeilMiB())
	return d.await(ctx, "sandboxes that run and were measured", want, func(ctx context.Context) (string, bool, error) {
		h, err := n.view(ctx)
		if err != nil {
			return "", false, err
		}
		seen, most := 0, int64(0)
		for _, s := range running(h) {
			if most = max(most, s.ResidentMB); s.ResidentMB >= leastMeasured.CeilMiB() {
				seen++
			}
		}
		d.screen.progress("%s: %d of %d sandboxes measured", n.name, seen, n.expect.room)
		ok := seen == n.expect.room && most <= mostMeasured.CeilMiB()
		return fmt.Sprintf("%d, of up to %d MiB", seen, most), ok, nil
	})
}

// tellMeasured shows both hosts side by side.
func (d *demo) tellMeasured(ctx context.Context) error {
	views, err := d.views(ctx)
	if err != nil {
		return err
	}
	counts, err := d.scrapes(ctx)
	if err != nil {
		return err
	}
	var runs, resident, committed, each [2]string
	for i, n := range d.nodes {
		if err := n.overrun(views[i], 0); err != nil {
			return err
		}
		held, _ := counts[i].sum("plimsoll_host_resident_bytes", "")
		configured, _ := counts[i].sum("plimsoll_host_committed_bytes", "")
		runs[i] = grouped(int64(len(running(views[i]))))
		resident[i], committed[i] = mib(size(held).CeilMiB()), mib(size(configured).CeilMiB())
		each[i] = mib(measuredEach(views[i]))
	}
	d.screen.pair(d.bars(views))
	d.screen.row("sandboxes running", runs[0], runs[1])
	d.screen.row("measured, each at most", each[0], each[1])
	d.screen.row("measured in all", resident[0], resident[1])
	d.screen.row("configured in all", committed[0], committed[1])
	d.screen.add(d.legend())
	d.summary.add("running at once, measured", runs[0], runs[1])
	d.summary.add("resident in all", resident[0], resident[1])
	d.summary.add("configured in all", committed[0], committed[1])
	return nil
}

func measuredEach(h *api.Host) (most int64) {
	for _, s := range h.Sandboxes {
		most = max(most, s.ResidentMB)
	}
	return most
}

// legend says what the bars are made of.
func (d *demo) legend() string {
	f := d.screen.style.fills
	return fmt.Sprintf("%s used  %s charged, not touched yet  %s reserved  %s left  %s headroom", f[used], f[covered], f[reserved], f[left], f[headroom])
}
