// Command plimsoll is the one binary: flags and wiring only.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/bench"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/demo"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/simcmd"
	"github.com/plimsoll-project/plimsoll/internal/up"
)

// version is set by the linker.
var version = "unknown"

func main() {
	// Before anything else: the agent starts this binary as the held helper of each boot.
	if len(os.Args) > 1 && os.Args[1] == driver.ExecCommand {
		os.Exit(driver.ExecMain(os.Args[2:]))
	}
	os.Exit(cli.Run(context.Background(), os.Args[1:], cli.Options{
		Version: version,
		Extra: []*cobra.Command{
			stoppable(up.Command(version)), stoppable(up.ServerCommand(version)), stoppable(up.AgentCommand(version)), up.StoreCommand(),
			stoppable(demo.Command(version)), bench.Command(version), simcmd.Command(),
		},
	}))
}

// stoppable ends a command's context at the first signal. A command that does not watch its
// context must not be: it would outlive the signal.
func stoppable(c *cobra.Command) *cobra.Command {
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := cli.UntilStopped(c)
		defer stop()
		c.SetContext(ctx)
		return run(c, args)
	}
	return c
}
