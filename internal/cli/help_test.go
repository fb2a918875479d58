package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A default in the help is a value that somebody could write there: an empty list is none.
func TestHelpShowsNoEmptyDefaults(t *testing.T) {
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		if help := c.UsageString(); strings.Contains(help, "(default [") {
			t.Errorf("%s: %s", c.CommandPath(), help)
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(New(Options{}))
}
