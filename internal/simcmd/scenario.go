package simcmd

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/sim"
)

// scenarioCommand is `plimsoll sim scenario`: the same files that the tests play.
func scenarioCommand() *cobra.Command {
	var seed uint64
	c := &cobra.Command{
		Use:   "scenario FILE…",
		Short: "Play situations that are written as text, and say whether they end as they say",
		Long: `Play situations that are written as text, and say whether they end as they say.

A scenario builds a small fleet, tells what happens to it, and says what must be true
afterwards; the files under scenarios/ read like a tutorial.`,
		Example: "  plimsoll sim scenario scenarios/01_twenty_at_once.txt",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			for _, file := range files {
				if err := playScenarios(c, file, seed); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().Uint64Var(&seed, "seed", 1, "of the delays of frames and writes")
	return c
}

func playScenarios(c *cobra.Command, file string, seed uint64) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return cli.Mistake(c, "read the scenario: %w", err)
	}
	all, err := sim.ParseScenarios(file, string(text))
	if err != nil {
		return cli.Mistake(c, "%w", err)
	}
	for _, sc := range all {
		if err := sc.Play(seed); err != nil {
			return &cli.Failure{Status: 1, Err: err}
		}
		fmt.Fprintf(c.OutOrStdout(), "ok  %s %s\n", file, sc.Name)
	}
	return nil
}
