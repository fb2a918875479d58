// Package up puts a whole Plimsoll into one process: a replica, an agent and a SQLite
// store. It wires, and decides nothing.
package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/discover"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/store/sqlite"
	"github.com/plimsoll-project/plimsoll/internal/web"
)

// Options are what the command line adds to the file.
type Options struct {
	File    *config.File
	Path    string // of the file; empty: none was given
	Version string
	Out     io.Writer // for people
	Log     *slog.Logger
}

// Up is one process's worth of Plimsoll.
type Up struct {
	Options
	lock    *os.File // on the data directory, for as long as this process lives
	secrets secrets
	store   *sqlite.Store
	machine *hostmem.Machine
	driver  *driver.Driver
	agent   *agent.Agent
	gateway *control.Gateway
	metrics *prometheus.Registry
	api     net.Listener
	seam    net.Listener
	noted   bool // the note for other commands is ours
}

// Run brings everything up and keeps it up until ctx ends or a part fails. Sandboxes
// outlive it: the next Run re-adopts them.
func Run(ctx context.Context, o Options) error {
	u := &Up{Options: o}
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

// bringUp makes the parts and starts them.
func (u *Up) bringUp(ctx, late context.Context, end func(), parts *errgroup.Group) error {
	if err := u.prepare(ctx); err != nil {
		return err
	}
	parts.Go(func() error { return u.store.Run(late) })
	if err := u.assemble(ctx); err != nil {
		return err
	}
	u.start(ctx, late, end, parts)
	return u.announce(ctx)
}

// prepare makes what needs no other part: directories, secrets, the store, the sockets.
func (u *Up) prepare(ctx context.Context) (err error) {
	local := u.File.Local
	if err := os.MkdirAll(local.DataDir, 0o711); err != nil {
		return fmt.Errorf("make the data directory: %w; choose one that you can write with --data-dir", err)
	}
	if u.lock, err = lockDir(local.DataDir); err != nil {
		return err
	}
	if u.secrets, err = openSecrets(local.DataDir); err != nil {
		return err
	}
	path, ok := local.SQLitePath()
	if !ok {
		return errors.New("the store setting names PostgreSQL, and this version of plimsoll up keeps its state in SQLite only; write store: sqlite")
	}
	if u.store, err = sqlite.Open(ctx, path, sqlite.Options{}); err != nil {
		return err
	}
	if u.api, err = net.Listen("tcp", local.Listen); err != nil {
		return fmt.Errorf("listen for the API: %w; choose another address with --listen, as in 127.0.0.1:7071, or port 0 for a free one", err)
	}
	return u.measure()
}

// lockDir keeps a second process out of a data directory: it would make keys of its own, and
// the tickets of one would be forged to the other. The lock ends with the process.
func lockDir(dir string) (*os.File, error) {
	lock, err := agent.Lock(filepath.Join(dir, "up.lock"))
	switch {
	case errors.Is(err, agent.ErrLocked):
		return nil, fmt.Errorf("the data directory %s is in use by another plimsoll up; stop that one, or choose another with --data-dir", dir)
	case err != nil:
		return nil, fmt.Errorf("lock the data directory: %w; it must be writable by the user who runs plimsoll up (uid %d), or choose another with --data-dir", err, os.Getuid())
	}
	return lock, nil
}

// measure finds out what this machine is.
func (u *Up) measure() (err error) {
	local := u.File.Local
	if u.machine, err = hostmem.Discover("/"); err != nil {
		return err
	}
	u.driver, err = driver.New(driver.Config{
		Machine: u.machine, Parent: local.AgentCgroup(), Dir: filepath.Join(local.DataDir, "logs"), Grace: local.Host.StopGrace,
	})
	if err != nil {
		return err
	}
	for _, w := range u.driver.Warnings() {
		u.Log.Warn(w)
	}
	return nil
}

// assemble makes the replica and the agent over the running store.
func (u *Up) assemble(ctx context.Context) error {
	if err := u.settleConfig(ctx); err != nil {
		return err
	}
	u.metrics = prometheus.NewRegistry()
	u.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := u.makeGateway(ctx); err != nil {
		return err
	}
	return u.makeAgent(ctx)
}

func (u *Up) makeGateway(ctx context.Context) (err error) {
	started := time.Now()
	passage := admission.DefaultConfig()
	passage.BootWithin = u.File.Local.Host.BootWithin
	u.gateway, err = control.New(control.Options{
		Store: u.store, Keys: u.secrets.keys, Passage: passage, Metrics: control.NewMetrics(u.metrics), Log: u.Log,
		Now: func() time.Duration { return time.Since(started) }, Wall: time.Now, Rand: rand.Uint64,
		Local: u.secrets.consumer(),
	})
	if err != nil {
		return err
	}
	u.metrics.MustRegister(u.gateway.Gauges())
	return u.gateway.Load(ctx)
}

func (u *Up) makeAgent(ctx context.Context) error {
	local := u.File.Local
	keys, err := u.secrets.keys.Audience(local.HostID())
	if err != nil {
		return fmt.Errorf("derive the host's keys: %w", err)
	}
	u.agent, err = agent.New(ctx, agent.Config{
		Host: local.HostConfig(runtime.NumCPU(), nil), Budget: local.Host.Budget,
		Dir: local.DataDir, Socket: local.AgentSocket(),
		SampleLimits: local.Host.SampleLimits, SampleSandboxes: local.Host.SampleSandboxes,
		Machine: u.machine, Driver: u.driver, Keys: keys, Register: u.store.Register, Log: u.Log,
	})
	if err != nil {
		return err
	}
	u.seam, err = u.agent.Listen()
	return err
}

// settleConfig puts the file's fleet section in force where none is yet. Afterwards only
// plimsoll config apply changes it: a restart never does so by accident.
func (u *Up) settleConfig(ctx context.Context) error {
	inForce, err := u.store.Config(ctx)
	if err != nil {
		return err
	}
	fleet, document := u.File.Fleet, u.File.FleetDocument
	switch {
	case inForce.Generation == 0 && fleet == nil:
		return fmt.Errorf("%s has no fleet section, and the store has none in force; add one, as plimsoll config example shows", u.Path)
	case inForce.Generation == 0:
		_, _, err := u.store.Apply(ctx, control.Config{Document: document, By: "up"}, fleet.Settings())
		return err
	case u.Path != "" && fleet != nil && document != inForce.Document:
		u.Log.Warn("the fleet section of the file differs from the generation in force, which stands; see plimsoll config diff, then apply",
			"file", u.Path, "generation", inForce.Generation)
	}
	return nil
}

// start runs the parts. When ctx ends the API answers what it holds, and then the others
// end with late.
func (u *Up) start(ctx, late context.Context, end func(), parts *errgroup.Group) {
	parts.Go(func() error { return u.agent.Run(late) })
	parts.Go(func() error { return u.agent.Serve(late, u.seam) })
	parts.Go(func() error { return u.gateway.Attach(late, u.agent, u.agent.Subscribe()) })
	parts.Go(func() error { u.gateway.SweepUntil(late); return nil })
	parts.Go(func() error { defer end(); return u.serveAPI(ctx) })
}

const stopWithin = 2 * time.Second

// serveAPI answers until ctx ends; then every held long poll is answered before it closes.
func (u *Up) serveAPI(ctx context.Context) error {
	handler := (&web.Server{Gateway: u.gateway, Metrics: u.metrics, Log: u.Log}).Handler()
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(u.Log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		u.gateway.Stop()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		stopped <- closeAll(server, server.Shutdown(closing))
	}()
	if err := server.Serve(u.api); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the API: %w", err)
	}
	return <-stopped
}

// closeAll ends what a shutdown waited for in vain: a connection on which nothing was ever
// asked would keep a process from ending that has answered all its callers.
func closeAll(server *http.Server, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return err
}

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
