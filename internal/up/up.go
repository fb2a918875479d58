// Package up puts Plimsoll into one process: a replica over a store, and beside it this
// machine's agent where the file has a host section. `plimsoll up` and `plimsoll server` are
// the same process with other words around it. It wires, and decides nothing.
package up

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/discover"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/link"
)

// Options are what the command line adds to the file.
type Options struct {
	File    *config.File // without a host section no agent is run
	Path    string       // of the file; empty: none was given
	Version string
	Out     io.Writer // for people
	Log     *slog.Logger
}

// Up is one process's worth of Plimsoll.
type Up struct {
	Options
	lock      *os.File // on the data directory, for as long as this process lives
	replicaID string
	secrets   secrets
	identity  *tls.Config   // nil: plaintext
	opened    chan struct{} // closed when the store is there
	store     store         // only once opened is closed
	keys      keys
	presence  presence
	api       net.Listener
	front     front

	// Of the replica.
	gateway *control.Gateway
	dialer  *link.Dialer
	metrics *prometheus.Registry
	noted   bool // the note for other commands is ours

	// Of this machine's agent; nil without one.
	machine *hostmem.Machine
	driver  *driver.Driver
	agent   *agent.Agent
	seam    net.Listener
}

// Run brings everything up and keeps it up until ctx ends or a part fails. Sandboxes
// outlive it: the next Run re-adopts them.
func Run(ctx context.Context, o Options) error {
	u := &Up{Options: o, opened: make(chan struct{}), presence: presence{changed: make(chan struct{}, 1)}}
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	parts, over := errgroup.WithContext(stopped)
	// The API ends first, so that every call it holds is answered by a store and an agent
	// that still work.
	late, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	err := u.bringUp(over, late, end, parts)
	if err == nil {
		<-over.Done()
	} else {
		stop()
		end() // there may be no API that would
	}
	failed := parts.Wait()
	if failed != nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // a part failed, or we were stopped, before it was up: that is all there is to say
	}
	return errors.Join(failed, err, u.close())
}

// bringUp makes the parts and starts them. When ctx ends the API answers what it holds, and
// then the others end with late.
func (u *Up) bringUp(ctx, late context.Context, end func(), parts *errgroup.Group) error {
	if err := u.prepare(ctx); err != nil {
		return cli.NotValid(err)
	}
	parts.Go(func() error {
		defer end()
		err := u.serveAPI(ctx)
		u.front.finish()
		u.takeLeave(ctx)
		return err
	})
	parts.Go(func() error { return u.keepStore(ctx, late) })
	parts.Go(func() error { u.followKeys(ctx); return nil })
	if u.hasHost() {
		if err := u.startAgent(ctx, late, parts); err != nil {
			return err
		}
	}
	if err := u.awaitStore(ctx); err != nil {
		return err
	}
	if err := u.assemble(ctx); err != nil {
		return err
	}
	u.startReplica(ctx, late, parts)
	return u.announce(ctx)
}

func (u *Up) hasHost() bool { return u.File.Local.Host != nil }

func (u *Up) close() error {
	var errs []error
	if u.noted {
		errs = append(errs, discover.Remove(u.File.Local.DataDir))
	}
	if u.api != nil {
		u.api.Close()
	}
	if u.store != nil {
		errs = append(errs, u.store.Close())
	}
	if u.lock != nil {
		u.lock.Close()
	}
	return errors.Join(errs...)
}
