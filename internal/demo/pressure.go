package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// How the growing sandboxes grow, in all of them together.
const (
	growthRate = 160 << 20 // a second
	growAfter  = 1500 * time.Millisecond
	growHold   = time.Second
	mostGrow   = 4
)

// pressure has some sandboxes of the working-set host grow beyond what is charged for them,
// while there is room for two more by the arithmetic: a create is refused by the valve alone.
func (d *demo) pressure(ctx context.Context) error {
	n := d.nodes[1]
	growing := min(mostGrow, n.expect.room-2)
	before, err := n.settle(ctx, d, n.expect.room-2-growing, growing)
	if err != nil {
		return err
	}
	if err := n.bootPending(ctx, d, d.grower(n, growing)); err != nil {
		return err
	}
	shut, err := n.awaitIntake(ctx, d, api.IntakePressure)
	if err != nil {
		return err
	}
	meanwhile, err := d.nodes[0].view(ctx)
	if err != nil {
		return err
	}
	refusal, err := n.refusedByValve(ctx)
	if err != nil {
		return err
	}
	open, err := n.awaitIntake(ctx, d, api.IntakeOpen)
	if err != nil {
		return err
	}
	if err := n.takesAgain(ctx); err != nil {
		return err
	}
	d.tellPressure(before, shut, open, refusal)
	d.summary.add("intake while sandboxes of one grew", string(meanwhile.Intake), string(shut.Intake))
	d.summary.add("intake of that one once it was calm", "", string(open.Intake))
	return same("the intake of host "+d.nodes[0].name+", where nothing grew", api.IntakeOpen, meanwhile.Intake)
}

// settle lets so many run and admits those that will grow. The host says what room is left.
func (n *node) settle(ctx context.Context, d *demo, quietly, growing int) (*api.Host, error) {
	if err := n.lower(ctx, d, quietly); err != nil {
		return nil, err
	}
	if err := n.raise(ctx, d, quietly, quiet()); err != nil {
		return nil, err
	}
	if err := n.reserve(ctx, quietly+growing); err != nil {
		return nil, err
	}
	h, err := n.view(ctx)
	if err != nil {
		return nil, err
	}
	if h.Intake != api.IntakeOpen || h.AdmittableMB < n.expect.need.CeilMiB() {
		got := fmt.Sprintf("%s, %s", h.Intake, mib(h.AdmittableMB))
		return nil, mismatch{"intake and room before the growth", fmt.Sprintf("open, at least %s", n.expect.need), got}
	}
	return h, nil
}

// grower is a sandbox that takes its share of the growth.
func (d *demo) grower(n *node, growing int) sandbox {
	s := quiet()
	if d.breaks("pressure") { // nothing grows
		return s
	}
	s.growTo = mebibytes(n.expect.need.Add(grown.Scale(1, int64(growing))))
	s.rate = mebibytes(size(growthRate).Scale(1, int64(growing)))
	s.after, s.hold = growAfter, growHold
	return s
}

func (n *node) awaitIntake(ctx context.Context, d *demo, want api.Intake) (seen *api.Host, err error) {
	err = d.await(ctx, "the intake of host "+n.name, string(want), func(ctx context.Context) (string, bool, error) {
		if seen, err = n.view(ctx); err != nil {
			return "", false, err
		}
		d.screen.progress("%s: intake %s, %s resident", n.name, seen.Intake, mib(seen.ResidentMB))
		return string(seen.Intake), seen.Intake == want, nil
	})
	return seen, err
}

// refusedByValve creates one and wants the no of the valve, with an appointment.
func (n *node) refusedByValve(ctx context.Context) (string, error) {
	n.wire.take()
	const what, want = "a create while the valve is shut", "503 host_pressure with Retry-After"
	_, err := n.admit(ctx)
	r, ok := api.AsRefusal(err)
	if !ok {
		return "", mismatch{what, want, fmt.Sprintf("another answer (%v)", err)}
	}
	answers := n.wire.take()
	got := fmt.Sprintf("%d %s, Retry-After %s", answers[0].status, r.Code, answers[0].retryAfter)
	if r.Code != api.HostPressure || answers[0].status != http.StatusServiceUnavailable || answers[0].retryAfter == 0 {
		return "", mismatch{what, want, got}
	}
	return got, nil
}

// takesAgain creates one and gives it back.
func (n *node) takesAgain(ctx context.Context) error {
	a, err := n.admit(ctx)
	if err != nil {
		return mismatch{"a create once the valve is open again", "to be admitted", err.Error()}
	}
	return n.release(ctx, []string{a.Key})
}

func (d *demo) tellPressure(before, shut, open *api.Host, refusal string) {
	d.screen.note("%s, before: intake %s, %s admittable, %s resident", before.ID, before.Intake, mib(before.AdmittableMB), mib(before.ResidentMB))
	d.screen.note("growing: intake %s (%s), %s admittable", shut.Intake, shut.IntakeReason, mib(shut.AdmittableMB))
	d.screen.note("a create is told %s", refusal)
	d.screen.note("once it is calm: intake %s, %s admittable, a create is admitted", open.Intake, mib(open.AdmittableMB))
}
