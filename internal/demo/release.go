package demo

import (
	"context"
	"fmt"

	"github.com/plimsoll-project/plimsoll/api"
)

// release gives everything back, and waits until /metrics says that nothing is held.
func (d *demo) release(ctx context.Context) error {
	err := d.both(ctx, func(ctx context.Context, n *node) error { return n.releaseAll(ctx, d) })
	if err != nil {
		return err
	}
	var seen [2]metrics
	err = d.both(ctx, func(ctx context.Context, n *node) (err error) {
		seen[d.index(n)], err = n.idle(ctx, d)
		return err
	})
	if err != nil {
		return err
	}
	for _, g := range idleGauges() {
		a, _ := seen[0].sum(g.series, "")
		b, _ := seen[1].sum(g.series, "")
		d.screen.row(g.series, grouped(a), grouped(b))
		if g.name != "" {
			d.summary.add(g.name, grouped(a), grouped(b))
		}
	}
	return nil
}

// releaseAll releases whatever the API lists as not ended.
func (n *node) releaseAll(ctx context.Context, d *demo) error {
	keys, err := n.held(ctx)
	if err != nil {
		return err
	}
	if err := n.release(ctx, keys); err != nil {
		return err
	}
	if d.breaks("release") && n == d.nodes[1] { // one is admitted, and nobody releases it
		_, err = n.admit(ctx)
	}
	return err
}

// held are the keys of all admissions that hold something, or wait.
func (n *node) held(ctx context.Context) (keys []string, err error) {
	limit := int64(1000)
	for _, state := range []api.AdmissionState{
		api.AdmissionStateWaitingCapacity, api.AdmissionStatePlacing, api.AdmissionStateAdmitted,
		api.AdmissionStateRunning, api.AdmissionStateReleasing,
	} {
		list, err := n.client.Admissions(ctx, api.ListAdmissionsParams{State: state, Limit: &limit})
		if err != nil {
			return nil, err
		}
		for _, a := range list.Admissions {
			keys = append(keys, a.Key)
		}
	}
	return keys, nil
}

// gauge is one that is zero on an idle host.
type gauge struct{ series, name string }

func idleGauges() []gauge {
	return []gauge{
		{"plimsoll_host_reserved_bytes", "reserved at the end, bytes"},
		{"plimsoll_host_reservations", ""},
		{"plimsoll_host_sandboxes", "sandboxes at the end"},
		{"plimsoll_host_resident_bytes", ""},
		{"plimsoll_pool_busy_slots", ""},
	}
}

// idle waits until every one of them is there and zero.
func (n *node) idle(ctx context.Context, d *demo) (seen metrics, err error) {
	err = d.await(ctx, "what /metrics says is still held", "nothing", func(ctx context.Context) (got string, ok bool, err error) {
		if seen, err = n.scrape(ctx); err != nil {
			return "", false, err
		}
		for _, g := range idleGauges() {
			if v, found := seen.sum(g.series, ""); !found || v != 0 {
				d.screen.progress("%s: %s is %s", n.name, g.series, grouped(v))
				return fmt.Sprintf("%s %s", g.series, grouped(v)), false, nil
			}
		}
		return "", true, nil
	})
	return seen, err
}
