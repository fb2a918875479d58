package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check, read and change the configuration",
		Long: `One file sets Plimsoll up. What is local to a process is read from it by that process; its
section "fleet" (pools, classes, quotas, consumers) is kept by the store and changed by apply.`,
		Example: `  plimsoll config example > plimsoll.yaml
  plimsoll config check plimsoll.yaml
  plimsoll config diff plimsoll.yaml
  plimsoll config apply plimsoll.yaml
  plimsoll config set pools.ci.cap=40
  plimsoll config history`,
	}
	return group(cmd, a.configCheck(), a.configExample(), a.configGet(), a.configDiff(), a.configApply(), a.configSet(), a.configHistory(), a.configRollback())
}

func (a *app) configCheck() *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE",
		Short:   "Find every fault in a file; nothing is changed",
		Example: "  plimsoll config check plimsoll.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := parseConfig(args[0])
			if err != nil {
				return err
			}
			warnings := config.Warnings(*f, nil)
			if a.json() {
				return writeJSON(a.stdout, map[string]any{"valid": true, "warnings": warnings})
			}
			for _, w := range warnings {
				fmt.Fprintln(a.stderr, "warning: "+w)
			}
			_, err = fmt.Fprintln(a.stdout, args[0]+" is valid")
			return err
		},
	}
}

func (a *app) configExample() *cobra.Command {
	noHosts, agent := false, false
	cmd := &cobra.Command{
		Use:   "example",
		Short: "Print a file with every setting and a word about each",
		Example: `  plimsoll config example > plimsoll.yaml
  plimsoll config example --no-hosts > two.yaml && plimsoll up --config two.yaml
  plimsoll config example --agent > agent.yaml`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text := config.Example()
			switch {
			case noHosts:
				text = config.NoHostsExample()
			case agent:
				text = config.AgentExample()
			}
			if a.json() {
				return writeJSON(a.stdout, map[string]string{"document": text})
			}
			_, err := io.WriteString(a.stdout, text)
			return err
		},
	}
	cmd.Flags().BoolVar(&noHosts, "no-hosts", false, "a short one that runs as it is: two services on one account, and no hosts")
	cmd.Flags().BoolVar(&agent, "agent", false, "a short one for plimsoll agent on one host")
	cmd.MarkFlagsMutuallyExclusive("no-hosts", "agent")
	return cmd
}

func (a *app) configGet() *cobra.Command {
	var generation int64
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Print the fleet's configuration that is in force, or a former one",
		Long: `Prints the fleet's configuration that is in force, or a former one, as a file that plimsoll
config diff and plimsoll config apply take.`,
		Example: `  plimsoll config get
  plimsoll config get > fleet.yaml; vi fleet.yaml; plimsoll config diff fleet.yaml
  plimsoll config get --generation 3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			read := c.Config
			if cmd.Flags().Changed("generation") {
				read = func(ctx context.Context) (*api.ConfigDocument, error) { return c.ConfigAt(ctx, generation) }
			}
			doc, err := read(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, doc)
			}
			_, err = fmt.Fprintf(a.stdout, "# generation %d%s\nfleet:\n%s", doc.Generation, appliedBy(doc), indented(doc.Document))
			return err
		},
	}
	cmd.Flags().Int64Var(&generation, "generation", 0, "one of plimsoll config history; by default the one in force")
	return cmd
}

// indented is a document below the key of its section, so that what was printed can be changed
// and applied.
func indented(document string) string {
	var b strings.Builder
	for line := range strings.Lines(document) {
		if strings.TrimSpace(line) != "" {
			line = "  " + line
		}
		b.WriteString(line)
	}
	return b.String()
}

func appliedBy(doc *api.ConfigDocument) string {
	text := ""
	if doc.AppliedBy != "" {
		text += ", applied by " + plain(doc.AppliedBy)
	}
	if doc.AppliedAt != nil {
		text += ", " + doc.AppliedAt.Format("2006-01-02 15:04:05 MST")
	}
	return text
}

func (a *app) configDiff() *cobra.Command {
	return &cobra.Command{
		Use:     "diff FILE",
		Short:   "Show what apply would change",
		Example: "  plimsoll config diff plimsoll.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ch, err := a.change(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, map[string]any{"generation": ch.old.Generation, "changes": ch.diff != "", "diff": ch.diff})
			case ch.diff == "":
				_, err = fmt.Fprintf(a.stdout, "no change: generation %d is the same\n", ch.old.Generation)
				return err
			}
			_, err = io.WriteString(a.stdout, ch.diff)
			return err
		},
	}
}

func (a *app) configApply() *cobra.Command {
	return &cobra.Command{
		Use:   "apply FILE",
		Short: "Bring the file's fleet section into force",
		Long: `Shows what changes and brings the file's section "fleet" into force, if nobody else has changed
the configuration meanwhile. Needs the role admin. What is not valid changes nothing.`,
		Example: "  plimsoll config apply plimsoll.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ch, err := a.change(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			doc := ch.old
			if ch.diff != "" {
				doc, err = ch.client.PutConfig(cmd.Context(), api.ConfigChange{Document: ch.document, Generation: ch.old.Generation})
			}
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, doc)
			case ch.diff == "":
				_, err = fmt.Fprintf(a.stdout, "no change: generation %d stays in force\n", doc.Generation)
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "%sgeneration %d is in force\n", ch.diff, doc.Generation)
			return err
		},
	}
}
