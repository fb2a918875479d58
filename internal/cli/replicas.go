package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) replicasCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "replicas",
		Short: "List the control plane's processes, and which ticket keys each knows",
		Long: `Lists the processes that serve the API, as each has said within the last hour that it is up.
Needs the role operator.`,
		Example: `  plimsoll replicas
  plimsoll replicas -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			list, err := c.Replicas(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, list)
			case len(list.Replicas) == 0:
				_, err = fmt.Fprintln(a.stdout, "no replica has said that it is up")
				return err
			}
			t := newTable("REPLICA", "STATE", "ADDRESS", "SIGNS WITH", "ALSO KNOWS", "VERSION")
			for _, r := range list.Replicas {
				signs, knows := keysOf(r)
				t.row(r.ID, presence(r), dash(r.Address), dash(signs), dash(strings.Join(knows, ", ")), r.Version)
			}
			return t.write(a.stdout, "")
		},
	}
}

// gone says whether a replica has said that it stopped: it then names no address.
func gone(r api.Replica) bool { return r.Address == "" }

func presence(r api.Replica) string {
	heard := time.Duration(r.HeardMSAgo) * time.Millisecond
	switch {
	case gone(r):
		return "stopped " + age(heard) + " ago"
	case heard > silent:
		return "silent for " + age(heard)
	}
	return "up"
}

// keysOf parts the ticket key that a replica signs with from those that it accepts besides.
func keysOf(r api.Replica) (signs string, knows []string) {
	if len(r.KeyIDs) == 0 {
		return "", nil
	}
	return r.KeyIDs[0], r.KeyIDs[1:]
}
