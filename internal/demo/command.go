package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/cli"
)

// flags are those of the command.
type flags struct {
	budget   string
	keepLogs bool
	broken   string
}

// Command is `plimsoll demo`.
func Command(version string) *cobra.Command {
	f := flags{budget: "4GiB"}
	c := &cobra.Command{
		Use:   "demo",
		Short: "See the main job done on real processes, in under a minute",
		Long: `Shows the main job on real processes whose memory is really measured, in under a minute.

Two hosts of their own, one per mode, admit, boot, measure and refuse side by side. What
must come out is computed from the configuration on the screen, what came out is read from
their API and /metrics; a step that is not as it should be ends the demo with exit status 1
and says which, what was expected and what came. It needs nothing that runs already and
leaves nothing behind. As root each sandbox has a cgroup of its own.`,
		Example: `  plimsoll demo
  plimsoll demo --budget 1GiB
  plimsoll demo --keep-logs
  NO_COLOR=1 plimsoll demo`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, version) },
	}
	c.Flags().StringVar(&f.budget, "budget", f.budget, "what the sandboxes of each host may hold, as in 1GiB; less is taken where there is less")
	c.Flags().BoolVar(&f.keepLogs, "keep-logs", false, "keep the hosts' data and logs, and say where")
	c.Flags().StringVar(&f.broken, "break", "", "for tests alone: make one `step` wrong in the real system ("+strings.Join(stepNames(), ", ")+")")
	c.Flags().Lookup("break").Hidden = true
	c.AddCommand(sandboxCommand())
	return c
}

func (f flags) run(c *cobra.Command, version string) error {
	if f.broken != "" && !slices.Contains(stepNames(), f.broken) {
		return mistake("--break %s: the steps are %s", f.broken, strings.Join(stepNames(), ", "))
	}
	budget, err := parseBudget(f.budget)
	if err != nil {
		return mistake("--budget %s: %s", f.budget, err)
	}
	// A hang-up, or a reader of the screen that goes away, must clear up as Ctrl-C does.
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	return perform(ctx, c.OutOrStdout(), budget, f, version)
}

func perform(ctx context.Context, out io.Writer, budget size, f flags, version string) error {
	p, err := newPlan(budget, f.keepLogs, version)
	if err != nil {
		return err
	}
	d := &demo{plan: p, screen: newScreen(out), broken: f.broken}
	for _, mode := range modes() {
		d.nodes = append(d.nodes, newNode(p, mode))
	}
	return d.run(ctx)
}

func mistake(format string, args ...any) error {
	return &cli.Failure{Status: cli.ExitUsage, Err: fmt.Errorf(format, args...), Try: "plimsoll demo --help"}
}

// self is our own binary: what the hosts and the sandboxes run.
func self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find our own binary: %w", err)
	}
	return path, nil
}
