package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say which build this is",
		Example: "  plimsoll version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if a.json() {
				return writeJSON(a.stdout, map[string]string{"version": a.version, "go": runtime.Version(), "platform": platform})
			}
			_, err := fmt.Fprintf(a.stdout, "plimsoll %s (%s, %s)\n", a.version, runtime.Version(), platform)
			return err
		},
	}
}
