package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

// runFlags are the flags of run.
type runFlags struct {
	class, key, tenant, template, memory, mode, host string
	wait                                             time.Duration
	bypass                                           bool
}

const runLong = `Asks for a sandbox to be admitted, boots CMD in it on this machine, streams its output, and
exits with its status. All is quiet when all goes well. A sandbox that had to go because the
host ran out of memory is told as such, with exit status 75: run it again.

The sandbox gets this environment (without PLIMSOLL_TOKEN) and working directory, and no
standard input. INT, TERM and HUP are passed on to it. Its end frees its memory and its slot
by itself. Ctrl-C while it waits gives the place back.

With --wait the request stands in the pool's queue for that long; --mode refuse --wait asks
again and again instead, without a place. Without --wait a no comes at once.`

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run --class CLASS [flags] -- CMD [ARG]...",
		Short: "Admit and boot a command, and exit as it does",
		Long:  runLong,
		Example: `  plimsoll run --class small -- python3 task.py
  plimsoll run --class small --key task-7421 --wait 30s -- make test
  plimsoll run --class medium --template node-22 -- ./serve`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags behind CMD are CMD's
	flags.StringVar(&f.class, "class", "", "class of the sandbox (required)")
	flags.StringVar(&f.key, "key", "", "your own name for this execution; the same key is the same admission")
	flags.StringVar(&f.tenant, "tenant", "", "on whose behalf, if the token has several tenants")
	flags.StringVar(&f.template, "template", "", "what it is started from, where the class leaves it open")
	flags.StringVar(&f.memory, "memory", "", "size, as in 512MiB, within the class's bounds (default: the class's)")
	flags.StringVar(&f.mode, "mode", "", "refuse or queue: what a no should become (default: queue with --wait)")
	flags.StringVar(&f.host, "host", "", "take this host and no other, if the token may choose")
	flags.BoolVar(&f.bypass, "bypass", false, "boot without a ticket, on a machine where plimsoll bypass was said; needs --memory")
	flags.DurationVar(&f.wait, "wait", 0, "how long to wait at most, as in 30s")
	return cmd
}

func (a *app) run(cmd *cobra.Command, f runFlags, argv []string) error {
	if f.bypass && len(argv) > 0 {
		return a.runBypassed(cmd, f, argv)
	}
	q, err := f.request()
	switch {
	case err != nil:
		return mistake(cmd, "%s", err)
	case len(argv) == 0:
		return mistake(cmd, "there is no command to run: put it behind --, as in: plimsoll run --class %s -- sleep 60", f.class)
	}
	c, w, err := a.connect()
	if err != nil {
		return err
	}
	command, err := commandOf(argv)
	if err != nil {
		return err
	}
	signals, stop := takeSignals()
	defer stop()
	r := &runner{
		client: c, way: w, request: q, ownKey: f.key == "", deadline: time.Now().Add(f.patience()),
		command: command, stdout: a.stdout, stderr: a.stderr, line: newWaitLine(a.stderr), signals: signals,
	}
	return nothingAnswers(r.run(cmd.Context()))
}

// nothingAnswers says what there is when no replica, or no store, is there to ask. A command is
// never run outside the gate for that.
func nothingAnswers(err error) error {
	var unreachable *client.Unreachable
	if !errors.As(err, &unreachable) {
		return err
	}
	return &Failure{
		ExitUnavailable, err,
		"is `plimsoll up` running there? Nothing was booted; when no replica can answer, root may let hosts boot without tickets for a while: plimsoll bypass --help",
	}
}

// request is what the flags ask for.
func (f runFlags) request() (api.AdmissionRequest, error) {
	q := api.AdmissionRequest{
		Key: first(f.key, client.NewKey()), Class: f.class, Tenant: f.tenant, Template: f.template,
		Mode: api.WaitMode(f.mode),
	}
	if q.Class == "" {
		return q, fmt.Errorf("--class is missing: the configuration names the classes (plimsoll config get)")
	}
	if f.wait < 0 {
		return q, fmt.Errorf("--wait %s: a time above zero, as in 30s", f.wait)
	}
	if f.mode == "" {
		q.Mode = api.WaitModeRefuse
		if f.wait > 0 {
			q.Mode = api.WaitModeQueue
		}
	} else if !q.Mode.Valid() {
		return q, fmt.Errorf("--mode %s: there is refuse and queue", f.mode)
	}
	if q.Mode == api.WaitModeQueue && f.wait > 0 {
		most := max(f.wait.Milliseconds(), 1) // should this process die, its place ends too
		q.MaxQueueAgeMS = &most
	}
	if f.memory != "" {
		size, err := parseMemory(f.memory)
		if err != nil {
			return q, fmt.Errorf("--memory: %w", err)
		}
		q.MemoryMB = &size
	}
	if f.host != "" {
		q.Host = &api.HostPin{ID: f.host, Mode: api.HostPinModeRequire}
	}
	return q, nil
}

// patience is how long to go on. A place in the queue without --wait lasts as long as the
// pool lets it.
func (f runFlags) patience() time.Duration {
	if f.wait == 0 && f.mode == string(api.WaitModeQueue) {
		return 365 * 24 * time.Hour
	}
	return f.wait
}

// commandOf is what the agent boots: with this environment, but not with the token in it,
// which a sandbox could use to admit others.
func commandOf(argv []string) (boot.Command, error) {
	dir, err := os.Getwd()
	if err != nil {
		return boot.Command{}, &Failure{ExitUsage, fmt.Errorf("find the working directory: %w", err), "cd to one that exists"}
	}
	return boot.Command{Argv: argv, Env: withoutToken(os.Environ()), Dir: dir}, nil
}

func withoutToken(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, e := range env {
		if !strings.HasPrefix(e, "PLIMSOLL_TOKEN=") {
			kept = append(kept, e)
		}
	}
	return kept
}

// detached is the time that undoing gets, whatever ended the work itself.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}
