package up

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/discover"
)

// RunAlone runs this machine's agent without any replica, until ctx ends: the host gate that
// a node daemon asks at the boot seam. Sandboxes outlive it.
func RunAlone(ctx context.Context, o Options) error {
	u := &Up{Options: o}
	parts, over := errgroup.WithContext(ctx)
	err := u.standAlone(over, parts)
	if err == nil {
		<-over.Done()
	}
	failed := parts.Wait()
	if failed != nil {
		err = nil
	}
	return errors.Join(failed, err, u.close())
}

func (u *Up) standAlone(ctx context.Context, parts *errgroup.Group) (err error) {
	if u.lock, err = takeDir(u.File.Local.DataDir); err != nil {
		return err
	}
	if err := u.measure(); err != nil {
		return err
	}
	c, err := u.agentConfig()
	if err != nil {
		return err
	}
	c.Register = agent.Alone
	if u.agent, err = agent.New(ctx, c); err != nil {
		return err
	}
	if u.seam, err = u.agent.Listen(); err != nil {
		return err
	}
	identity, err := identityOf(&u.File.Local)
	if err != nil {
		return cli.NotValid(err)
	}
	if err := serveMetrics(ctx, &u.Options, identity, parts, control.HostGauges(c.Host.ID, u.agent.View)); err != nil {
		return err
	}
	parts.Go(func() error { return u.agent.Run(ctx) })
	parts.Go(func() error { return u.agent.Serve(ctx, u.seam) })
	return u.announceAlone(ctx)
}

// announceAlone says what this host may promise, and how to ask it.
func (u *Up) announceAlone(ctx context.Context) error {
	local := u.File.Local
	v, err := u.firstView(ctx)
	if err != nil {
		return err
	}
	note := discover.Note{Socket: local.AgentSocket()}
	if err := note.Write(local.DataDir); err != nil {
		return err
	}
	u.noted = true
	fmt.Fprintf(u.Out, `plimsoll %s: the gate of host %s, with no replica (agent.replicas is empty)

  may promise %s: %s free under the limit %q, less %s of headroom, %s admission
  boot seam   %s

Try, in another terminal:

  plimsoll %shost show
  plimsoll %sgate run --memory 512MiB -- sh -c 'echo hello from a sandbox'

`, u.Version, v.Config.ID, v.Verdict.Admittable, v.Account.Free, v.Binding, v.Account.Headroom, v.Config.Mode,
		local.AgentSocket(), u.dataDirFlag(), u.dataDirFlag())
	return nil
}

// groupOf finds a group by name or number; nil for none.
func groupOf(name string) (*uint32, error) {
	if name == "" {
		return nil, nil
	}
	id := name
	if g, err := user.LookupGroup(name); err == nil {
		id = g.Gid
	}
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return nil, unfit("host.reserve_group: there is no group "+name+" on this machine", "name one that there is, or its number")
	}
	gid := uint32(n)
	return &gid, nil
}
