package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) hostToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and revoke join tokens",
		Long: `A join token lets one host join the fleet, once, until its time is over. The host gets a
credential of its own for it, which nobody else has. Needs the role admin.`,
		Example: `  plimsoll host token create --host host-1 --for 10m
  plimsoll host token list
  plimsoll host token revoke join-5be0cd19137e2179`,
	}
	return group(cmd, a.hostTokenCreate(), a.hostTokenList(), a.hostTokenRevoke())
}

func (a *app) hostTokenCreate() *cobra.Command {
	var (
		host, out string
		lasts     time.Duration
	)
	cmd := &cobra.Command{
		Use:   "create [--host ID] [--for TIME]",
		Short: "Make a join token, and show it once",
		Long: `Makes a join token and prints it on standard output, and nothing else; it can be shown never
again. Bound to a host by --host it is good for that one alone, and gives a host that is
registered already a new credential: the old one is void then. Without, it registers any
host that is new or was buried.`,
		Example: `  plimsoll host token create --host host-1
  plimsoll host token create --for 24h --out join.token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if lasts < time.Minute || lasts > 30*24*time.Hour {
				return mistake(cmd, "--for %s: from 1m to 720h", lasts)
			}
			return a.createHostToken(cmd, host, out, lasts)
		},
	}
	cmd.Flags().StringVar(&host, "host", "", "the only host that may use it, by its `ID`")
	cmd.Flags().DurationVar(&lasts, "for", time.Hour, "how long it may be used")
	cmd.Flags().StringVar(&out, "out", "", "write it to this new `file`, readable by you alone, instead of showing it")
	return cmd
}

func (a *app) createHostToken(cmd *cobra.Command, host, path string, lasts time.Duration) error {
	c, _, err := a.connect()
	if err != nil {
		return err
	}
	var out *os.File
	if path != "" {
		if out, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return &Failure{ExitUsage, fmt.Errorf("write the token: %w", err), "name a file that is not there yet"}
		}
		defer out.Close()
	}
	made, err := c.CreateJoinToken(cmd.Context(), host, lasts)
	if err != nil {
		if out != nil {
			os.Remove(path)
		}
		return err
	}
	if out != nil {
		if _, err := fmt.Fprintln(out, made.JoinToken); err != nil {
			return &Failure{ExitInternal, fmt.Errorf("write the token: %w", err), "plimsoll host token revoke " + made.Token.ID + ", then make another"}
		}
		made.JoinToken = ""
	}
	return a.showHostToken(made, path)
}

func (a *app) showHostToken(made *api.JoinTokenMade, path string) error {
	if a.json() {
		return writeJSON(a.stdout, made)
	}
	where := "it is shown this once, and kept nowhere"
	if path != "" {
		where = "it is in " + path
	}
	whose := "any new host"
	if made.Token.Host != "" {
		whose = "host " + plain(made.Token.Host)
	}
	fmt.Fprintf(a.stderr, "join token %s for %s, until %s; %s\n", plain(made.Token.ID), whose, clock(made.Token.ExpiresAt), where)
	if path != "" {
		return nil
	}
	_, err := fmt.Fprintln(a.stdout, made.JoinToken)
	return err
}

func (a *app) hostTokenList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the join tokens, without their text",
		Long:  "Lists the join tokens that are unused, and those that were used or ended within the last day.",
		Example: `  plimsoll host token list
  plimsoll host token list -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			list, err := c.JoinTokens(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, list)
			case len(list.Tokens) == 0:
				_, err = fmt.Fprintln(a.stdout, "no join tokens: plimsoll host token create makes one")
				return err
			}
			t, now := newTable("TOKEN", "FOR", "BY", "STATE"), time.Now()
			for _, token := range list.Tokens {
				t.row(token.ID, first(token.Host, "any new host"), token.CreatedBy, tokenState(token, now))
			}
			return t.write(a.stdout, "")
		},
	}
}

func tokenState(t api.JoinToken, now time.Time) string {
	switch {
	case t.UsedAt != nil:
		return "used by " + t.UsedBy + " " + age(now.Sub(*t.UsedAt)) + " ago"
	case !now.Before(t.ExpiresAt):
		return "its time is over"
	}
	return "unused, for " + age(t.ExpiresAt.Sub(now))
}

func (a *app) hostTokenRevoke() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke TOKEN",
		Short:   "Make an unused join token void",
		Long:    "Makes an unused join token void, by its id. A host that joined with it before stays; bury it, if it must go.",
		Example: `  plimsoll host token revoke join-5be0cd19137e2179`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			t, err := c.RevokeJoinToken(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, t)
			}
			_, err = fmt.Fprintf(a.stdout, "%s is void\n", plain(t.ID))
			return err
		},
	}
}
