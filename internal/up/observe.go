package up

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/observe"
)

// writeEvery is how often what was observed is left for plimsoll observe.
const writeEvery = 2 * time.Second

// RunObserver watches this machine until ctx ends, and writes nothing but its newest report
// into the data directory. It starts, stops and scores no process, and opens no socket but the
// one for metrics, where the file names one.
func RunObserver(ctx context.Context, o Options) (err error) {
	local := &o.File.Local
	rules, err := observe.RulesOf(local.Host)
	if err != nil {
		return unfit(err.Error(), "plimsoll agent --help shows both")
	}
	machine, err := hostmem.Discover("/")
	if err != nil {
		return err
	}
	lock, err := takeDir(local.DataDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	w := watch{Options: o, observer: observe.New(local.HostID(), machine, rules)}
	if former, err := observe.Read(local.DataDir); err == nil { // one that cannot be read is written anew
		w.observer.Resume(&former)
	}
	if err := w.look(); err != nil {
		return err
	}
	identity, err := identityOf(local)
	if err != nil {
		return cli.NotValid(err)
	}
	parts, over := errgroup.WithContext(ctx)
	if err := serveMetrics(over, &o, identity, parts, observe.Gauges(w.newest)); err != nil {
		return err
	}
	parts.Go(func() error { return w.run(over) })
	return parts.Wait()
}

type watch struct {
	Options
	observer *observe.Observer
	written  time.Time
	failed   string // what the last look failed of; "" if it did not

	mu     sync.Mutex // guards what follows
	report observe.Report
}

// newest is the last report.
func (w *watch) newest() observe.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report
}

func (w *watch) run(ctx context.Context) error {
	seen := w.newest()
	fmt.Fprintf(w.Out, "plimsoll %s observes host %s and touches nothing: %d found\n\nTry, in another terminal:\n\n  plimsoll %sobserve\n\n",
		w.Version, seen.Host, seen.Found, (&Up{Options: w.Options}).dataDirFlag())
	tick := time.NewTicker(w.File.Local.Host.SampleSandboxes)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last := w.newest()
			return last.Write(w.File.Local.DataDir)
		case <-tick.C:
			w.say(w.look())
		}
	}
}

func (w *watch) look() error {
	now := time.Now()
	r, err := w.observer.Look(now)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.report = r
	w.mu.Unlock()
	if now.Sub(w.written) < writeEvery {
		return nil
	}
	w.written = now
	return r.Write(w.File.Local.DataDir)
}

// say says once that looks fail, or no longer do. Nobody is paged: nothing depends on it.
func (w *watch) say(err error) {
	switch {
	case err == nil && w.failed != "":
		w.Log.Info("the machine is seen again")
		w.failed = ""
	case err != nil && w.failed != err.Error() && !errors.Is(err, context.Canceled):
		w.Log.Info("the machine is not seen; the last report stands", "err", err)
		w.failed = err.Error()
	}
}
