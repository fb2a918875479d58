package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// leftovers stops the hosts and looks for what this run may have left.
func (d *demo) leftovers(ctx context.Context) error {
	if err := d.stopHosts(); err != nil {
		return err
	}
	if d.breaks("leftovers") { // a process that nobody ends
		if err := d.stray(); err != nil {
			return err
		}
	}
	processes, groups := marked(d.plan.run), d.plan.sandboxGroups()
	if err := same("processes of this run", "none", listed(processes)); err != nil {
		return err
	}
	if err := same("cgroups of its sandboxes", "none", listed(groups)); err != nil {
		return err
	}
	if err := d.plan.removeGroups(ctx); err != nil {
		return err
	}
	if err := d.plan.removeFiles(); err != nil {
		return err
	}
	d.screen.note("processes: %s. cgroups: %s. files: %s.", listed(marked(d.plan.run)), listed(d.plan.groups()), d.plan.files())
	return nil
}

func (d *demo) stopHosts() error {
	var errs []error
	for _, n := range d.nodes {
		if n.process == nil {
			continue
		}
		if err := n.stop(); err != nil {
			errs = append(errs, fmt.Errorf("host %s: %w: %s", n.name, err, n.process.LastWords()))
		}
	}
	return errors.Join(errs...)
}

func (d *demo) stray() error {
	c := exec.Command(d.plan.self, quiet().args()...)
	c.Env = environment(d.plan.run)
	if err := c.Start(); err != nil {
		return fmt.Errorf("start a process that is left over: %w", err)
	}
	go c.Wait() // it is killed
	return nil
}

// listed writes what there is, or that there is nothing.
func listed[T any](all []T) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Trim(fmt.Sprint(all), "[]")
}

// removeFiles removes what the run wrote, unless it is to be kept.
func (p *plan) removeFiles() error {
	if p.keepLogs {
		return nil
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return fmt.Errorf("remove the files of the demo: %w", err)
	}
	return nil
}

// files says what is there of them.
func (p *plan) files() string {
	if _, err := os.Stat(p.dir); err != nil {
		return "none"
	}
	return "kept in " + p.dir
}

// How long clearing up may take, whatever ended the demo.
const clearWithin = 20 * time.Second

// clear leaves nothing of a run, however it ended. After a whole run it finds nothing to do.
// The sandboxes go first, so that their hosts see them end and remove their cgroups.
func (d *demo) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearWithin)
	defer cancel()
	errs := []error{endAll(ctx, d.plan.run, d.isHost)}
	for _, n := range d.nodes {
		if n.process != nil {
			n.stop() // a step has said so, or the demo ended for another reason
		}
	}
	errs = append(
		errs,
		endAll(ctx, d.plan.run, func(int) bool { return false }),
		d.plan.removeGroups(ctx),
		d.plan.removeFiles(),
	)
	if d.plan.keepLogs {
		fmt.Fprintf(d.screen.out, "The hosts' data and logs are in %s\n", d.plan.dir)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clear up: %w", err)
	}
	return nil
}

// isHost says whether a process is one of the two hosts, which stop in their own way.
func (d *demo) isHost(pid int) bool {
	return slices.ContainsFunc(d.nodes, func(n *node) bool { return n.process != nil && n.process.PID() == pid })
}
