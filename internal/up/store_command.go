package up

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/store/postgres"
)

// StoreCommand is `plimsoll store`.
func StoreCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "store",
		Short: "Look at the store's schema, and bring it up to date",
		Long: `Look at the schema of the store that a configuration names, and bring it up to date.

Only PostgreSQL needs it: several replicas share that store, so none of them changes the
schema by itself. The embedded store does when it is opened.`,
		Example: `  plimsoll store status --config plimsoll.yaml
  plimsoll store migrate --config plimsoll.yaml --dry-run
  plimsoll store migrate --config plimsoll.yaml`,
	}
	c.AddCommand(statusCommand(), migrateCommand())
	return c
}

// exitNotNow is the exit status of a schema that no replica can work on yet.
const exitNotNow = 75

// notReady is why replicas cannot work on the store.
type notReady struct{ error }

func (notReady) ExitStatus() int { return exitNotNow }

func statusCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "status --config FILE",
		Short: "Say which version the schema is of, and whether this program can work on it",
		Long: `Say which version the schema is of, and whether this program can work on it. The exit status
is 0 if it can and 75 if not: whoever starts replicas may wait for that.`,
		Example: "  plimsoll store status --config plimsoll.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := postgresOf(path)
			if err != nil || at == "" {
				return orEmbedded(c, err)
			}
			s, err := postgres.Status(c.Context(), at)
			if err != nil {
				return err
			}
			if err := printSchema(c, s, at); err != nil {
				return err
			}
			if err := s.Check(); err != nil {
				return notReady{err}
			}
			return nil
		},
	}
	c.Flags().StringVar(&path, "config", "", "configuration `file` that names the store")
	return c
}

func migrateCommand() *cobra.Command {
	var (
		path string
		dry  bool
	)
	c := &cobra.Command{
		Use:   "migrate --config FILE",
		Short: "Make the schema, or bring it up to date",
		Long: `Make the schema, or bring it up to date. Replicas may run meanwhile: a migration first only
adds, so that those of the former version go on and can be rolled back to. Of several that
migrate at once one does. Run it as the owner of the schema.`,
		Example: `  plimsoll store migrate --config plimsoll.yaml --dry-run
  plimsoll store migrate --config plimsoll.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := postgresOf(path)
			if err != nil || at == "" {
				return orEmbedded(c, err)
			}
			if dry {
				return dryRun(c.Context(), c.OutOrStdout(), at)
			}
			s, err := postgres.Migrate(c.Context(), at)
			if err != nil {
				return err
			}
			return printSchema(c, s, at)
		},
	}
	c.Flags().StringVar(&path, "config", "", "configuration `file` that names the store")
	c.Flags().BoolVar(&dry, "dry-run", false, "print the SQL that would be run, and change nothing")
	return c
}

// postgresOf is the PostgreSQL that a configuration names, "" for the embedded store.
func postgresOf(path string) (string, error) {
	file, err := load(path, "", "")
	if err != nil {
		return "", err
	}
	if at, ok := file.Local.PostgresURL(); ok {
		return at, nil
	}
	return "", nil
}

func orEmbedded(c *cobra.Command, err error) error {
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.OutOrStdout(), "the embedded store brings its schema up to date when it is opened: there is nothing to do")
	return err
}

func printSchema(c *cobra.Command, s postgres.Schema, at string) error {
	out := c.OutOrStdout()
	if f := c.Flags().Lookup("output"); f != nil && f.Value.String() == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(map[string]any{"version": s.Version, "oldest_program": s.Oldest, "known": s.Known, "usable": s.Check() == nil})
	}
	fmt.Fprintf(out, "store     %s\n", redacted(at))
	if s.Version == 0 {
		_, err := fmt.Fprintf(out, "schema    none yet; this program knows version %d\n", s.Known)
		return err
	}
	fmt.Fprintf(out, "schema    version %d; this program knows version %d\n", s.Version, s.Known)
	_, err := fmt.Fprintf(out, "programs  that know version %d or later can work on it\n", s.Oldest)
	return err
}

// redacted is a connection string without its password.
func redacted(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return "PostgreSQL"
	}
	u.RawQuery = ""
	return u.Redacted()
}

func dryRun(ctx context.Context, out io.Writer, at string) error {
	s, err := postgres.Status(ctx, at)
	if err != nil {
		return err
	}
	script, err := postgres.Script(s.Version)
	if err != nil {
		return err
	}
	if script == "" {
		_, err = fmt.Fprintf(out, "-- the schema is at version %d: there is nothing to do\n", s.Version)
		return err
	}
	_, err = io.WriteString(out, script)
	return err
}
