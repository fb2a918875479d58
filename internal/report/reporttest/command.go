package reporttest

import (
	"bytes"
	"io"

	"github.com/spf13/cobra"
)

// Output runs a command that plays with these words, with -o as plimsoll has it, and returns what
// it printed for who asked.
func Output(c *cobra.Command, words ...string) (string, error) {
	var out bytes.Buffer
	c.Flags().StringP("output", "o", "table", "")
	c.SetOut(&out)
	c.SetErr(io.Discard)
	c.SetArgs(words)
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.Execute()
	return out.String(), err
}
