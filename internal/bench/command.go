package bench

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// printed is a result that a person or a program reads.
type printed interface{ Print(io.Writer) error }

// Command is `plimsoll bench`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the decision and the ticket on this machine, against their peers in one run",
		Long: `Measure the decision and the ticket on this machine.

Timings depend on the machine; ratios hold between peers of one run, on the same table
and the same stream of requests.`,
		Example: `  plimsoll bench pick --hosts 100000 -o json
  plimsoll bench ticket`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(pickCommand(), ticketCommand())
	return c
}

func pickCommand() *cobra.Command {
	var o PickOptions
	c := &cobra.Command{
		Use:     "pick",
		Short:   "An exact pick, reserve and release in process, against the essay's loop",
		Example: "  plimsoll bench pick --hosts 100000 -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Hosts < 1 || o.Ops < 1 {
				return fmt.Errorf("--hosts %d --ops %d: both must be at least 1", o.Hosts, o.Ops)
			}
			r, err := Pick(o)
			return show(c, r, err)
		},
	}
	c.Flags().IntVar(&o.Hosts, "hosts", 100_000, "hosts in the table")
	c.Flags().IntVar(&o.Ops, "ops", 400_000, "timed picks")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "of the fleet and the requests")
	return c
}

func ticketCommand() *cobra.Command {
	var o TicketOptions
	c := &cobra.Command{
		Use:     "ticket",
		Short:   "Mint and verify a ticket",
		Example: "  plimsoll bench ticket -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Ops < 1 {
				return fmt.Errorf("--ops %d: must be at least 1", o.Ops)
			}
			r, err := Ticket(o)
			return show(c, r, err)
		},
	}
	c.Flags().IntVar(&o.Ops, "ops", 400_000, "timed mints, and as many verifications")
	return c
}

// show prints a result in the form that -o asks for.
func show(c *cobra.Command, r printed, err error) error {
	if err != nil {
		return err
	}
	if f := c.Flags().Lookup("output"); f != nil && f.Value.String() == "json" {
		out := json.NewEncoder(c.OutOrStdout())
		out.SetIndent("", "  ")
		return out.Encode(r)
	}
	return r.Print(c.OutOrStdout())
}
