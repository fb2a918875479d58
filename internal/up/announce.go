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

// announce waits until the host, if there is one, has measured itself, leaves the note for
// other commands, and says to people what was brought up and what to try.
func (u *Up) announce(ctx context.Context) error {
	var view host.View
	var err error
	local := u.File.Local
	note := discover.Note{URL: u.url(), TokenFile: u.secrets.tokenFile}
	if t := local.TLS; t != nil {
		note.CA = t.CA
	}
	if u.hasHost() {
		note.Socket = local.AgentSocket()
		if view, err = u.firstView(ctx); err != nil {
			return err
		}
	}
	if err := note.Write(local.DataDir); err != nil {
		return err
	}
	u.noted = true
	now := *u.File
	now.Fleet = u.gateway.Fleet()
	for _, w := range config.Warnings(now, view.Limits) {
		u.Log.Warn(w)
	}
	fmt.Fprintf(u.Out, "plimsoll %s is up\n\n", u.Version)
	if u.hasHost() {
		u.printHost(ctx, view)
	}
	u.printPools()
	u.printWays()
	u.printTry(ctx, view)
	return nil
}

func (u *Up) url() string {
	if u.identity != nil {
		return "https://" + u.api.Addr().String()
	}
	return "http://" + u.api.Addr().String()
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

// inForce says whether a no is one.
func inForce(e host.Enforcement) string {
	switch e {
	case host.Shadow:
		return "in shadow, nothing is refused for want of room"
	case host.Observe:
		return "observed, nothing is enforced"
	default:
		return "enforced"
	}
}

func (u *Up) printHost(ctx context.Context, v host.View) {
	out, fleet := u.Out, u.gateway.Fleet()
	fmt.Fprintf(out, "  host      %s, %s admission, %s, intake %s\n", v.Config.ID, v.Config.Mode, inForce(v.Verdict.Enforcement), v.Verdict.Intake)
	fmt.Fprintf(out, "  may promise %s: %s free under the limit %q, less %s of headroom", v.Verdict.Admittable, v.Account.Free, v.Binding, v.Account.Headroom)
	if n := len(v.Sandboxes); n > 0 {
		fmt.Fprintf(out, ", less what %d re-adopted sandboxes are charged", n)
	}
	fmt.Fprintln(out)
	for i := range fleet.Classes {
		if c := &fleet.Classes[i]; !fleet.WithoutHosts(c) {
			fmt.Fprintf(out, "  class     %-10s %9s, %s\n", c.Name, c.Memory, u.fitting(ctx, c, v))
		}
	}
}

// printPools shows what needs no host: of the others the host's room is the figure.
func (u *Up) printPools() {
	fleet := u.gateway.Fleet()
	for i := range fleet.Pools {
		p := &fleet.Pools[i]
		switch {
		case p.Placement == config.NoHost:
			fmt.Fprintf(u.Out, "  pool      %-10s %s, no host; %s demands the tickets\n", p.Name, slots(p.Cap), p.Audience)
		case !u.hasHost():
			fmt.Fprintf(u.Out, "  pool      %-10s %s, on hosts\n", p.Name, slots(p.Cap))
		}
	}
}

func slots(most config.Limit) string {
	if most == config.None {
		return "no cap"
	}
	return most.String() + " slots"
}

func (u *Up) printWays() {
	out, local := u.Out, u.File.Local
	fmt.Fprintf(out, "  API       %s   (token in %s)\n", u.url(), u.secrets.tokenFile)
	if u.hasHost() {
		fmt.Fprintf(out, "  boot seam %s\n", local.AgentSocket())
	}
	if _, shared := local.PostgresURL(); shared {
		fmt.Fprintf(out, "  replica   %s, with others on one PostgreSQL\n", u.replicaID)
	}
	fmt.Fprintf(out, "  data      %s\n\n", local.DataDir)
}

func (u *Up) printTry(ctx context.Context, v host.View) {
	fleet := u.gateway.Fleet()
	if class := u.roomiest(ctx, fleet, v); u.hasHost() && class != "" {
		fmt.Fprintf(u.Out, "Try, in another terminal:\n\n  plimsoll %srun --class %s -- sh -c 'echo hello from a sandbox'\n  plimsoll %shost show %s\n\n",
			u.dataDirFlag(), class, u.dataDirFlag(), v.Config.ID)
		return
	}
	for i := range fleet.Classes {
		if c := &fleet.Classes[i]; fleet.WithoutHosts(c) {
			fmt.Fprintf(u.Out, "Try, in another terminal:\n\n  curl -H \"Authorization: Bearer $(cat %s)\" -H 'Content-Type: application/json' \\\n    -d '{\"key\": \"first\", \"class\": \"%s\"}' %s/v1/admissions\n  plimsoll %spools\n\n",
				u.secrets.tokenFile, c.Name, u.url(), u.dataDirFlag())
			return
		}
	}
	fmt.Fprintf(u.Out, "Try, in another terminal:\n\n  plimsoll %spools\n\n", u.dataDirFlag())
}

// dataDirFlag is what other commands need to find this one.
func (u *Up) dataDirFlag() string {
	if u.File.Local.DataDir == discover.DefaultDataDir() {
		return ""
	}
	return "--data-dir " + u.File.Local.DataDir + " "
}

// roomiest is the class of which most would fit now, the smallest of those: the one to try.
// It is empty when no class is for hosts.
func (u *Up) roomiest(ctx context.Context, f *config.Fleet, v host.View) string {
	var best *config.Class
	for i := range f.Classes {
		c := &f.Classes[i]
		switch {
		case f.WithoutHosts(c):
			continue
		case best == nil:
			best = c
		}
		if n := cmp.Compare(u.room(ctx, c, v), u.room(ctx, best, v)); n > 0 || n == 0 && c.Memory < best.Memory {
			best = c
		}
	}
	if best == nil {
		return ""
	}
	return best.Name
}

// room is how many of a class the host would admit now, by its own arithmetic.
func (u *Up) room(ctx context.Context, c *config.Class, v host.View) int64 {
	return int64(v.Verdict.Admittable / max(u.needOf(ctx, c, v), 1))
}

// needOf is what the next one of a class is charged at least: by what was learned, where that is
// in force.
func (u *Up) needOf(ctx context.Context, c *config.Class, v host.View) gate.Bytes {
	ask, err := u.gateway.UsualAsk(ctx, c)
	if err != nil {
		return gate.PiB // its own default is out of its bounds: config refuses such a class
	}
	return gate.Need(ask, v.Config.Mode)
}

func (u *Up) fitting(ctx context.Context, c *config.Class, v host.View) string {
	kind := "stateless"
	if c.Stateful {
		kind = "stateful"
	}
	return fmt.Sprintf("%s, charged at least %s: room for %d", kind, u.needOf(ctx, c, v), u.room(ctx, c, v))
}
