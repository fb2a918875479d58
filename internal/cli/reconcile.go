package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) reconcileCommand() *cobra.Command {
	var q api.ReconcileRequest
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Compare the store, the hosts and the clock, and mend what disagrees",
		Long: `Compares what the store has with what each host holds, in both directions, and with the time,
shows what disagrees and mends it: slots without a sandbox, sandboxes without a slot, boots and
ends that were never written, places and placings that nobody holds any more. A second run
finds nothing, but what only a person may settle: a stateful sandbox that should not run, what
the store knows nothing of, and what runs out of gate: in no ledger's name, because the file
that remembered it was lost.

A server does most of this by itself every 10 seconds. This shows it, and does it now.`,
		Example: `  plimsoll reconcile --dry-run
  plimsoll reconcile
  plimsoll reconcile --stop-unknown -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			found, err := c.Reconcile(cmd.Context(), q)
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, found)
			}
			return drawFindings(a.stdout, found.Findings, q.DryRun)
		},
	}
	cmd.Flags().BoolVar(&q.DryRun, "dry-run", false, "show what disagrees, and change nothing")
	cmd.Flags().BoolVar(&q.StopUnknown, "stop-unknown", false, "stop stateless sandboxes of which the store, or their host, knows nothing; not after the store was restored from a backup")
	return cmd
}

func drawFindings(w io.Writer, findings []api.Finding, dry bool) error {
	if len(findings) == 0 {
		_, err := fmt.Fprintln(w, "nothing disagrees")
		return err
	}
	t := newTable("WHAT", "ADMISSION", ">EPOCH", "KEY", "STATE", "HOST", "REMEDY")
	for _, f := range findings {
		t.row(f.What, f.ID, epoch(f.Epoch), dash(f.Key), dash(f.State), dash(f.Host), outcome(f, dry))
	}
	return t.write(w, "")
}

func epoch(n int64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// outOfGate is what runs in no ledger's name. While its admission stands its caller may end it.
const outOfGate = "out_of_gate"

// outcome says what mends a finding, and whether it was done.
func outcome(f api.Finding, dry bool) string {
	switch {
	case f.What == outOfGate && f.Deed == "" && f.Key != "" && (f.State == string(api.AdmissionStateAdmitted) || f.State == string(api.AdmissionStateRunning)):
		return "plimsoll release " + f.Key + " ends it: " + f.Detail
	case f.Deed == "" && f.Detail != "":
		return "look at it: " + f.Detail
	case f.Deed == "":
		return "look at it: no program should"
	case dry:
		return "would " + f.Deed
	case f.Mended:
		return "done: " + f.Deed
	case f.Error != "":
		return "failed: " + f.Deed + ": " + f.Error
	}
	return "not done yet: " + f.Deed
}
