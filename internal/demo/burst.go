package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
)

// hosts starts the two.
func (d *demo) hosts(ctx context.Context) error {
	if d.breaks("hosts") { // the one that should be committed is not
		d.nodes[0].env = append(d.nodes[0].env, "PLIMSOLL_HOST_MODE="+gate.WorkingSet.String())
	}
	if d.breaks("burst") { // room that the printed configuration does not give
		d.nodes[1].env = append(d.nodes[1].env, "PLIMSOLL_HOST_HEADROOM="+written(d.nodes[1].expect.headroom.Add(d.nodes[1].expect.need)))
	}
	err := d.both(ctx, func(ctx context.Context, n *node) error { return n.start(ctx, d) })
	if err != nil {
		return err
	}
	d.warn()
	views, err := d.views(ctx)
	if err != nil {
		return err
	}
	for i, n := range d.nodes {
		if err := same("the mode of host "+n.name, api.ChargeMode(n.expect.mode.String()), views[i].Mode); err != nil {
			return err
		}
		if err := same("the intake of host "+n.name, api.IntakeOpen, views[i].Intake); err != nil {
			return err
		}
	}
	a, b := views[0], views[1]
	d.screen.row("", d.nodes[0].name, d.nodes[1].name)
	d.screen.row("may promise", mib(a.AdmittableMB), mib(b.AdmittableMB))
	d.screen.row("limit that binds", a.BindingLimit, b.BindingLimit)
	d.summary.add("", d.nodes[0].name, d.nodes[1].name)
	return nil
}

// warn repeats what the hosts found missing on this machine, such as cgroups.
func (d *demo) warn() {
	told := map[string]bool{}
	for _, n := range d.nodes {
		for _, w := range n.process.Said("WARN") {
			if !told[w] {
				d.screen.note("Note: %s", w)
			}
			told[w] = true
		}
	}
}

// views are both hosts' own words.
func (d *demo) views(ctx context.Context) (out [2]*api.Host, err error) {
	for i, n := range d.nodes {
		if out[i], err = n.view(ctx); err != nil {
			return out, fmt.Errorf("host %s: %w", n.name, err)
		}
	}
	return out, nil
}

// scrapes are both hosts' /metrics.
func (d *demo) scrapes(ctx context.Context) (out [2]metrics, err error) {
	for i, n := range d.nodes {
		if out[i], err = n.scrape(ctx); err != nil {
			return out, fmt.Errorf("host %s: %w", n.name, err)
		}
	}
	return out, nil
}

// burst asks each host for more than it has room for, all at the same moment.
func (d *demo) burst(ctx context.Context) error {
	creates := d.plan.creates()
	tides := [2]*tide{watch(ctx, d.nodes[0]), watch(ctx, d.nodes[1])}
	err := d.both(ctx, func(ctx context.Context, n *node) error { return n.askAtOnce(ctx, creates) })
	var highest [2]size
	for i, t := range tides {
		top, watched := t.stop()
		if highest[i] = top; err == nil {
			err = watched
		}
	}
	if err != nil {
		return err
	}
	return d.tellBurst(ctx, creates, highest)
}

// askAtOnce holds each answer of a burst against what fits.
func (n *node) askAtOnce(ctx context.Context, creates int) error {
	n.wire.take()
	b := n.storm(ctx, creates)
	n.pending = append(n.pending, b.admitted...)
	if err := b.err(); err != nil {
		return err
	}
	if err := same("creates admitted", n.expect.room, len(b.admitted)); err != nil {
		return err
	}
	if err := same("creates refused with no_capacity", creates-n.expect.room, b.refused[api.NoCapacity]); err != nil {
		return err
	}
	refused := 0
	for _, a := range n.wire.take() {
		if a.status == http.StatusServiceUnavailable && a.retryAfter > 0 {
			refused++
		}
	}
	return same("answers with 503 and Retry-After", creates-n.expect.room, refused)
}

// tellBurst reads from the hosts what came of it.
func (d *demo) tellBurst(ctx context.Context, creates int, highest [2]size) error {
	views, err := d.views(ctx)
	if err != nil {
		return err
	}
	counts, err := d.scrapes(ctx)
	if err != nil {
		return err
	}
	var yes, no, line [2]string
	for i, n := range d.nodes {
		admitted, _ := counts[i].sum("plimsoll_admissions_total", "")
		refused, _ := counts[i].sum("plimsoll_refusals_total", `reason="no_capacity"`)
		highest[i] = max(highest[i], promised(views[i]))
		if err := n.overrun(views[i], highest[i]); err != nil {
			return err
		}
		if err := same("admissions counted on /metrics of "+n.name, int64(n.expect.room), admitted); err != nil {
			return err
		}
		if err := same("refusals counted on /metrics of "+n.name, int64(creates-n.expect.room), refused); err != nil {
			return err
		}
		yes[i], no[i] = grouped(admitted), grouped(refused)
		line[i] = fmt.Sprintf("%s of %s", grouped(highest[i].CeilMiB()), mib(n.expect.line.FloorMiB()))
	}
	d.screen.pair(d.bars(views))
	d.screen.row("admitted", yes[0], yes[1])
	d.screen.row("refused: 503 no_capacity", no[0], no[1])
	d.screen.row("promised at most", line[0], line[1])
	d.summary.add(fmt.Sprintf("admitted of %d at once", creates), yes[0], yes[1])
	d.summary.add("refused with 503 no_capacity", no[0], no[1])
	d.summary.add("promised at most, of the load line", line[0], line[1])
	return nil
}

func (d *demo) bars(views [2]*api.Host) (left, right string) {
	return d.screen.style.bar(partsOf(views[0]), column), d.screen.style.bar(partsOf(views[1]), column)
}

// overrun says whether more was ever promised than the load line allows.
func (n *node) overrun(h *api.Host, highest size) error {
	if highest > n.expect.line {
		return mismatch{"what host " + n.name + " promised", "at most " + n.expect.line.String(), highest.String()}
	}
	return same("what host "+n.name+" promised when it was full", n.expect.need.Scale(int64(n.expect.room), 1), promised(h))
}

// tide is the highest that a host's promises rose to while they were watched.
type tide struct {
	cancel context.CancelFunc
	over   chan struct{}

	// Written before over is closed.
	top size
	err error
}

// watch looks at a host's own figures, again and again.
func watch(ctx context.Context, n *node) *tide {
	ctx, cancel := context.WithCancel(ctx)
	t := &tide{cancel: cancel, over: make(chan struct{})}
	go func() {
		defer close(t.over)
		for ctx.Err() == nil {
			h, err := n.view(ctx)
			if err != nil && ctx.Err() == nil {
				t.err = err
				return
			}
			if err == nil {
				t.top = max(t.top, promised(h))
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return t
}

// stop ends the watch.
func (t *tide) stop() (top size, err error) {
	t.cancel()
	<-t.over
	return t.top, t.err
}
