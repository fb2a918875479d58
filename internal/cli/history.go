package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

func (a *app) configHistory() *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List the generations of the configuration",
		Long:  "Lists the generations of the fleet's configuration, the one in force first. Needs the role operator.",
		Example: `  plimsoll config history
  plimsoll config get --generation 3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > 1000 {
				return mistake(cmd, "--limit %d: from 1 to 1000", limit)
			}
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			list, err := c.Configs(cmd.Context(), limit)
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, list)
			case len(list.Configs) == 0:
				_, err = fmt.Fprintln(a.stdout, "no configuration has been in force yet")
				return err
			}
			t, now := newTable(">GENERATION", "APPLIED", ">AGE", "BY", ""), time.Now()
			for i, g := range list.Configs {
				t.row(strconv.FormatInt(g.Generation, 10), clock(g.AppliedAt), age(now.Sub(g.AppliedAt)), dash(g.AppliedBy), map[bool]string{true: "in force"}[i == 0])
			}
			return t.write(a.stdout, "")
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "how many at most")
	return cmd
}

func (a *app) configRollback() *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "rollback GENERATION",
		Short: "Bring a former generation into force again",
		Long: `Shows what changes and, once that is confirmed, brings the document of a former generation
into force again, under a new generation, if nobody else has changed the configuration
meanwhile. Needs the role admin.`,
		Example: `  plimsoll config history
  plimsoll config rollback 3
  plimsoll config rollback 3 --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || to < 1 {
				return mistake(cmd, "%q is no generation; plimsoll config history lists them", args[0])
			}
			return a.rollback(cmd, to, yes)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (a *app) rollback(cmd *cobra.Command, to int64, yes bool) error {
	c, _, err := a.connect()
	if err != nil {
		return err
	}
	former, err := c.ConfigAt(cmd.Context(), to)
	if r, ok := api.AsRefusal(err); ok && r.Code == api.NotFound {
		r.Detail, r.Remedy = fmt.Sprintf("generation %d was never in force", to), "plimsoll config history lists those that were"
	}
	if err != nil {
		return err
	}
	old, err := c.Config(cmd.Context())
	if err != nil {
		return err
	}
	diff := config.Diff(old.Document, former.Document)
	if diff == "" {
		return a.rolledBack(old, fmt.Sprintf("no change: generation %d is the same, and stays in force", old.Generation))
	}
	if !a.json() {
		if _, err := io.WriteString(a.stdout, diff); err != nil {
			return err
		}
	}
	if !yes {
		if err := a.confirm(cmd, fmt.Sprintf("bring the document of generation %d into force instead of generation %d?", to, old.Generation)); err != nil {
			return err
		}
	}
	return a.putBack(cmd, c, old, former)
}

func (a *app) putBack(cmd *cobra.Command, c *client.Client, old, former *api.ConfigDocument) error {
	doc, err := c.PutConfig(cmd.Context(), api.ConfigChange{Document: former.Document, Generation: old.Generation})
	if err != nil {
		return err
	}
	return a.rolledBack(doc, fmt.Sprintf("generation %d is in force, with the document of generation %d", doc.Generation, former.Generation))
}

func (a *app) rolledBack(doc *api.ConfigDocument, text string) error {
	if a.json() {
		return writeJSON(a.stdout, doc)
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}

// confirm asks whoever sits at the terminal; where nobody does, --yes must have been said.
func (a *app) confirm(cmd *cobra.Command, question string) error {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return mistake(cmd, "nobody can be asked here: look at the change, then say --yes")
	}
	fmt.Fprint(a.stderr, plain(question)+" [y/N] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return mistake(cmd, "no answer was given; nothing was changed")
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &Failure{Status: ExitUsage, Err: fmt.Errorf("nothing was changed")}
}
