package up

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/discover"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/link"
	"github.com/plimsoll-project/plimsoll/internal/standin"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// RunAgent runs this machine's agent: alone, or with replicas elsewhere that dial it. It ends
// when ctx does, and sandboxes outlive it.
func RunAgent(ctx context.Context, o Options) error {
	if !o.File.Local.HasReplicas() {
		return RunAlone(ctx, o)
	}
	return runLives(ctx, o, nil, nil)
}

// runLives runs the agent of one host, again under each other life that the registry gives it.
// For a host elsewhere it stands in, and tells whom it made of each life.
func runLives(ctx context.Context, o Options, standIn *standin.Host, made func(*agent.Agent)) error {
	for life := int64(0); ; {
		err := (&joined{Up: &Up{Options: o}, standIn: standIn, made: made}).run(ctx, life)
		var other otherLife
		if !errors.As(err, &other) {
			return err
		}
		o.Log.Info("the registry has this host's life under another number; the agent goes on with that", "incarnation", other.incarnation)
		life = other.incarnation
	}
}

// otherLife ends an agent that the registry knows under another incarnation: what it says
// under its own would be taken for older than what was said before.
type otherLife struct{ incarnation int64 }

func (o otherLife) Error() string { return fmt.Sprintf("the life of the host is %d", o.incarnation) }

// joined is an agent with replicas elsewhere.
type joined struct {
	*Up
	listener  net.Listener
	enrolment *enrolment
	keys      *link.Keys
	server    *link.Server
	serves    atomic.Pointer[agent.Agent] // who gets other keys
	first     *api.HostRegistered         // of a registration before the agent was there
	again     chan struct{}               // holds one when the host should register again

	standIn *standin.Host      // whose ledger this is; nil: this machine
	made    func(*agent.Agent) // told of each life's agent, where it stands in
}

func (j *joined) run(ctx context.Context, life int64) error {
	j.again = make(chan struct{}, 1)
	parts, over := errgroup.WithContext(ctx)
	err := j.start(over, parts, life)
	if err == nil {
		<-over.Done()
	}
	failed := parts.Wait()
	if failed != nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil
	}
	if j.listener != nil {
		j.listener.Close()
	}
	return errors.Join(failed, err, j.close())
}

func (j *joined) start(ctx context.Context, parts *errgroup.Group, life int64) (err error) {
	local := &j.File.Local
	if j.lock, err = takeDir(local.DataDir); err != nil {
		return err
	}
	if j.identity, err = identityOf(local); err != nil {
		return cli.NotValid(err)
	}
	if j.standIn != nil {
		j.machine, err = hostmem.Discover("/") // for the boot that the ledger is of
	} else {
		err = j.measure()
	}
	if err != nil {
		return err
	}
	if err := j.meet(local); err != nil {
		return cli.NotValid(err)
	}
	if err := j.makeAgent(ctx, life); err != nil {
		return err
	}
	if j.standIn == nil {
		if j.seam, err = j.agent.Listen(); err != nil {
			return err
		}
		if err := serveMetrics(ctx, &j.Options, j.identity, parts, control.HostGauges(local.HostID(), j.agent.View)); err != nil {
			return err
		}
		parts.Go(func() error { return j.agent.Serve(ctx, j.seam) })
	}
	parts.Go(func() error { return j.agent.Run(ctx) })
	parts.Go(func() error { return j.server.Serve(ctx, j.listener) })
	if j.standIn != nil {
		j.made(j.agent)
	} else if err := j.announceJoined(ctx); err != nil {
		return err
	}
	parts.Go(func() error { return j.enrol(ctx) })
	return nil
}

// identityOf reads the certificate of a process; nil for plaintext.
func identityOf(local *config.Local) (*tls.Config, error) {
	if local.TLS == nil {
		return nil, nil
	}
	return link.Identity(local.TLS.Cert, local.TLS.Key, local.TLS.CA)
}

// meet opens what replicas reach this host by, and reads what it knows of them.
func (j *joined) meet(local *config.Local) (err error) {
	if j.listener, err = net.Listen("tcp", local.Agent.Listen); err != nil {
		return fmt.Errorf("listen for replicas: %w; choose another address with agent.listen, as in 127.0.0.1:7072, or port 0 for a free one", err)
	}
	j.enrolment, err = newEnrolment(local, j.Version, local.AgentAddress(j.listener.Addr()), j.identity, j.Log)
	if err != nil {
		return err
	}
	j.keys, err = link.OpenKeys(filepath.Join(local.DataDir, "host-keys.json"), local.HostID(), func(k ticket.AudienceKeys) {
		if a := j.serves.Load(); a != nil {
			a.SetKeys(k)
		}
	}, time.Now)
	return err
}

// makeAgent makes the agent, which remembers its life or is told one. When no replica answers
// soon it begins without a number, and is made again when it has one.
func (j *joined) makeAgent(ctx context.Context, life int64) error {
	c, err := j.agentConfig()
	if err != nil {
		return err
	}
	c.Keys, c.Register, c.Incarnation = j.keys.Current(), j.firstLife, life
	if j.standIn != nil {
		j.standInFor(&c)
	}
	if j.agent, err = agent.New(ctx, c); err != nil {
		return err
	}
	j.serves.Store(j.agent)
	j.agent.SetKeys(j.keys.Current())
	j.server = link.NewServer(link.ServerOptions{
		Host: j.agent, Keys: j.keys, Version: j.Version, TLS: j.identity, Log: j.Log, Stranger: j.registerAgain,
	})
	return nil
}

const firstLifeWithin = 3 * time.Second

func (j *joined) firstLife(ctx context.Context, _ string) (int64, error) {
	bounded, cancel := context.WithTimeout(ctx, firstLifeWithin)
	defer cancel()
	got, err := j.enrolment.until(bounded, 0)
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case errors.As(err, new(final)):
		return 0, err
	case err != nil:
		return 0, nil
	}
	j.first = got
	return got.Incarnation, j.takeKeys(got)
}

func (j *joined) takeKeys(got *api.HostRegistered) error {
	file, err := json.Marshal(got.Keys)
	if err == nil {
		_, err = j.keys.Take(nil, file)
	}
	return err
}

func (j *joined) registerAgain() {
	select {
	case j.again <- struct{}{}:
	default:
	}
}

// How often a host looks whether it should register again: a stranger may ask for it in vain,
// and where no replica is connected the registry may have lost it.
const (
	registerPause = 10 * time.Second
	alonePause    = time.Minute
)

// enrol keeps the host registered: at the start, when a replica shows that it lacks this
// host's keys, and when none is connected for long.
func (j *joined) enrol(ctx context.Context) error {
	for {
		got := j.first
		if j.first = nil; got == nil {
			var err error
			if got, err = j.enrolment.until(ctx, j.agent.Incarnation()); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			if err := j.takeKeys(got); err != nil {
				j.Log.Error("the ticket keys of the registration were not taken", "err", err)
			}
		}
		if got.Incarnation != j.agent.Incarnation() {
			return otherLife{got.Incarnation}
		}
		j.Log.Info("registered", "host", j.enrolment.host, "incarnation", got.Incarnation, "endpoint", j.enrolment.endpoint)
		wait(ctx, registerPause)
		for alone := false; ; {
			timer := time.NewTimer(alonePause)
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-j.again:
				alone = true
			case <-timer.C:
				alone = j.server.Connected() == 0
			}
			timer.Stop()
			if alone {
				break
			}
		}
	}
}

// announceJoined says what this host may promise, and where it looks for replicas.
func (j *joined) announceJoined(ctx context.Context) error {
	local := j.File.Local
	v, err := j.firstView(ctx)
	if err != nil {
		return err
	}
	note := discover.Note{Socket: local.AgentSocket()}
	if err := note.Write(local.DataDir); err != nil {
		return err
	}
	j.noted = true
	fmt.Fprintf(j.Out, `plimsoll %s is up: the agent of host %s

  may promise %s: %s free under the limit %q, less %s of headroom, %s admission
  replicas    reach it at %s; it registers at %v
  boot seam   %s

Try, in another terminal:

  plimsoll %shost show

`, j.Version, v.Config.ID, v.Verdict.Admittable, v.Account.Free, v.Binding, v.Account.Headroom, v.Config.Mode,
		j.enrolment.endpoint, local.Agent.Replicas, local.AgentSocket(), j.dataDirFlag())
	return nil
}
