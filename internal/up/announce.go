package up

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/discover"
)

// announce waits until the host has measured itself, leaves the note for other commands,
// and says to people what it may promise and what to try.
func (u *Up) announce(ctx context.Context) error {
	view, err := u.firstView(ctx)
	if err != nil {
		return err
	}
	local := u.File.Local
	url := "http://" + u.api.Addr().String()
	note := discover.Note{URL: url, TokenFile: u.secrets.tokenFile, Socket: local.AgentSocket()}
	if err := note.Write(local.DataDir); err != nil {
		return err
	}
	u.noted = true
	if fleet := u.gateway.Fleet(); fleet != nil {
		inForce := *u.File
		inForce.Fleet = fleet
		for _, w := range config.Warnings(inForce, view.Limits) {
			u.Log.Warn(w)
		}
	}
	u.print(view, url)
	return nil
}

// firstView is the host's view once it has measured: before that it has nothing to promise.
func (u *Up) firstView(ctx context.Context) (host.View, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		v, err := u.agent.View(ctx)
		if err != nil || len(v.Limits) > 0 {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (u *Up) print(v host.View, url string) {
	out, local, fleet := u.Out, u.File.Local, u.gateway.Fleet()
	fmt.Fprintf(out, "plimsoll %s is up\n\n", u.Version)
	fmt.Fprintf(out, "  host      %s, %s admission, enforced, intake %s\n", v.Config.ID, v.Config.Mode, v.Verdict.Intake)
	fmt.Fprintf(out, "  may promise %s: %s free under the limit %q, less %s of headroom", v.Verdict.Admittable, v.Account.Free, v.Binding, v.Account.Headroom)
	if n := len(v.Sandboxes); n > 0 {
		fmt.Fprintf(out, ", less what %d re-adopted sandboxes are charged", n)
	}
	fmt.Fprintln(out)
	for i := range fleet.Classes {
		c := &fleet.Classes[i]
		fmt.Fprintf(out, "  class     %-10s %9s, %s\n", c.Name, c.Memory, fitting(c, v))
	}
	fmt.Fprintf(out, "  API       %s   (token in %s)\n  boot seam %s\n  data      %s\n\n", url, u.secrets.tokenFile, local.AgentSocket(), local.DataDir)
	fmt.Fprintf(out, "Try, in another terminal:\n\n  plimsoll %srun --class %s -- sh -c 'echo hello from a sandbox'\n  plimsoll %shost show %s\n\n",
		u.dataDirFlag(), roomiest(fleet, v), u.dataDirFlag(), v.Config.ID)
}

// dataDirFlag is what other commands need to find this one.
func (u *Up) dataDirFlag() string {
	if u.File.Local.DataDir == discover.DefaultDataDir() {
		return ""
	}
	return "--data-dir " + u.File.Local.DataDir + " "
}

// roomiest is the class of which most would fit now, the smallest of those: the one to try.
func roomiest(f *config.Fleet, v host.View) string {
	best := &f.Classes[0]
	for i := range f.Classes {
		c := &f.Classes[i]
		if n := cmp.Compare(room(c, v), room(best, v)); n > 0 || n == 0 && c.Memory < best.Memory {
			best = c
		}
	}
	return best.Name
}

// room is how many of a class the host would admit now, by its own arithmetic.
func room(c *config.Class, v host.View) int64 {
	return int64(v.Verdict.Admittable / max(needOf(c, v), 1))
}

func needOf(c *config.Class, v host.View) gate.Bytes {
	ask, _, err := c.Ask(nil, nil, "", nil)
	if err != nil {
		return gate.PiB // its own default is out of its bounds: config refuses such a class
	}
	return gate.Need(ask, v.Config.Mode)
}

func fitting(c *config.Class, v host.View) string {
	kind := "stateless"
	if c.Stateful {
		kind = "stateful"
	}
	return fmt.Sprintf("%s, charged at least %s: room for %d", kind, needOf(c, v), room(c, v))
}
