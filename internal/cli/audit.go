package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) auditCommand() *cobra.Command {
	limit := 50
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List what operators did, and why",
		Long:  "Lists what operators did: caps set for a while, configurations brought into force. Newest first. Needs the role operator.",
		Example: `  plimsoll audit
  plimsoll audit --limit 10 -o json
  plimsoll audit export > arrivals.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > 1000 {
				return mistake(cmd, "--limit %d: from 1 to 1000", limit)
			}
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			list, err := c.Audit(cmd.Context(), limit)
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, list)
			case len(list.Deeds) == 0:
				_, err = fmt.Fprintln(a.stdout, "no operator has done anything yet")
				return err
			}
			t, now := newTable("WHEN", ">AGE", "BY", "WHAT", "REASON"), time.Now()
			for _, d := range list.Deeds {
				t.row(clock(d.At), age(now.Sub(d.At)), d.By, d.What, dash(d.Reason))
			}
			return t.write(a.stdout, "")
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "how many at most")
	cmd.AddCommand(a.auditExport())
	return cmd
}
