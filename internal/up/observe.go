package up

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/observe"
)

// writeEvery is how often what was observed is left for plimsoll observe.
const writeEvery = 2 * time.Second

// RunObserver watches this machine until ctx ends, and writes nothing but its newest report
// into the data directory. It opens no socket and starts, stops and scores no process.
func RunObserver(ctx context.Context, o Options) (err error) {
	local := &o.File.Local
	rules, err := observe.RulesOf(local.Host)
	if err != nil {
		return err
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
	return w.run(ctx)
}

type watch struct {
	Options
	observer *observe.Observer
	written  time.Time
	report   observe.Report
	failed   string // what the last look failed of; "" if it did not
}

func (w *watch) run(ctx context.Context) error {
	if err := w.look(); err != nil {
		return err
	}
	fmt.Fprintf(w.Out, "plimsoll %s observes host %s and touches nothing: %d found\n\nTry, in another terminal:\n\n  plimsoll %sobserve\n\n",
		w.Version, w.report.Host, w.report.Found, (&Up{Options: w.Options}).dataDirFlag())
	tick := time.NewTicker(w.File.Local.Host.SampleSandboxes)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return w.report.Write(w.File.Local.DataDir)
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
	w.report = r
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
