package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

func (a *app) configSet() *cobra.Command {
	return &cobra.Command{
		Use:   "set PATH=VALUE...",
		Short: "Change single settings of the configuration in force",
		Long: `Shows what changes and brings it into force, all of it or nothing, over whatever somebody else
has changed meanwhile. A path names what stands in a list by its name, and a share by whose it
is. A quota that is not there yet is made. The file that the configuration came from does not
follow: write it there, too, or the next plimsoll config apply takes it back. Needs the role
admin.`,
		Example: `  plimsoll config set pools.ci.cap=40
  plimsoll config set quotas.acme=12 pools.ci.shares.bot.max=8
  plimsoll config set classes.small.max_memory=2GiB consumers.ci.tenants=acme,beta`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.setConfig(cmd, args) },
	}
}

func (a *app) setConfig(cmd *cobra.Command, sets []string) error {
	for _, s := range sets {
		if path, _, ok := strings.Cut(s, "="); !ok || path == "" {
			return mistake(cmd, "%q is no PATH=VALUE, as in pools.ci.cap=40", s)
		}
	}
	c, _, err := a.connect()
	if err != nil {
		return err
	}
	var doc *api.ConfigDocument
	diff := ""
	for range editTries {
		doc, diff, err = setOnce(cmd.Context(), c, sets)
		if !errors.Is(err, api.GenerationConflict) {
			break
		}
	}
	switch {
	case err != nil:
		return err
	case a.json():
		return writeJSON(a.stdout, doc)
	case diff == "":
		_, err = fmt.Fprintf(a.stdout, "no change: generation %d stays in force\n", doc.Generation)
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "%sgeneration %d is in force\n", diff, doc.Generation)
	return err
}

func setOnce(ctx context.Context, c *client.Client, sets []string) (*api.ConfigDocument, string, error) {
	doc, fleet, err := readFleet(ctx, c)
	if err != nil {
		return nil, "", err
	}
	before := fleet.Document()
	for _, s := range sets {
		path, value, _ := strings.Cut(s, "=")
		if err := fleet.Set(path, value); err != nil {
			return nil, "", &Failure{ExitUsage, err, "plimsoll config get shows what there is"}
		}
	}
	after := fleet.Document()
	if _, err := config.ParseFleet("the configuration with this change", []byte(after)); err != nil {
		return nil, "", err
	}
	diff := config.Diff(before, after)
	if diff == "" {
		return doc, "", nil
	}
	doc, err = c.PutConfig(ctx, api.ConfigChange{Document: after, Generation: doc.Generation})
	return doc, diff, err
}
