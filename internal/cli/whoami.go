package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) whoamiCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "whoami",
		Short:   "Say who the server takes you for",
		Example: "  plimsoll whoami\n  plimsoll whoami --url http://127.0.0.1:7070 --token-file token",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, w, err := a.connect()
			if err != nil {
				return err
			}
			me, err := c.Whoami(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, me)
			}
			roles := make([]string, len(me.Roles))
			for i, role := range me.Roles {
				roles[i] = string(role)
			}
			_, err = fmt.Fprintf(a.stdout, "consumer %s at %s\nroles    %s\ntenants  %s\n",
				me.Consumer, w.url, dash(strings.Join(roles, ", ")), dash(strings.Join(me.Tenants, ", ")))
			return err
		},
	}
}
