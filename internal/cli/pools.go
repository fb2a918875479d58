package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) poolsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pools",
		Short: "List the pools: caps, and who holds the slots",
		Example: `  plimsoll pools
  plimsoll pools -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			list, err := c.Pools(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, list)
			}
			return drawPools(a.stdout, *list)
		},
	}
}

func drawPools(w io.Writer, list api.PoolList) error {
	if len(list.Pools) == 0 {
		_, err := fmt.Fprintln(w, "no pools: plimsoll config apply brings some")
		return err
	}
	t := newTable("POOL", ">BUSY", ">CAP", ">WAITING", ">OF", "SLOTS OF CLASSES", "SLOTS OF CONSUMERS")
	var caps int64
	for _, p := range list.Pools {
		slots := "none"
		if p.Capped {
			slots = grouped(p.Cap)
			caps += p.Cap
		}
		t.row(p.Name, grouped(p.Busy), slots, grouped(p.Waiting), grouped(p.MaxWaiting), holders(p.Classes), holders(p.Consumers))
	}
	if err := t.write(w, ""); err != nil || list.Ceiling == nil {
		return err
	}
	_, err := fmt.Fprintf(w, "caps %s of the ceiling %s\n", grouped(caps), grouped(*list.Ceiling))
	return err
}

// holders names who holds or waits: the most slots first.
func holders(of map[string]api.Occupancy) string {
	names := slices.SortedFunc(maps.Keys(of), func(x, y string) int {
		if of[x].Busy != of[y].Busy {
			return int(of[y].Busy - of[x].Busy)
		}
		return strings.Compare(x, y)
	})
	var parts []string
	for _, name := range names {
		o := of[name]
		switch {
		case o.Waiting > 0:
			parts = append(parts, fmt.Sprintf("%s %d+%d waiting", name, o.Busy, o.Waiting))
		case o.Busy > 0:
			parts = append(parts, fmt.Sprintf("%s %d", name, o.Busy))
		}
	}
	return dash(strings.Join(parts, ", "))
}
