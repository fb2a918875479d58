package report

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/wholefile"
)

// Flag adds --report. That the page cannot be written there is said before anything is played.
func Flag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "report", "", "`file` to write the result to as a page (HTML)")
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if err := placeFor(c, *to); err != nil {
			return err
		}
		if before != nil {
			return before(c, args)
		}
		return nil
	}
}

func placeFor(c *cobra.Command, to string) error {
	if to == "" {
		if c.Flags().Changed("report") {
			return cli.Mistake(c, "--report: name the file to write, as in --report out.html")
		}
		return nil
	}
	if there, err := os.Stat(to); err == nil && there.IsDir() {
		return cli.NotValid(fmt.Errorf("--report %s is a directory: name a file in it, as in %s", to, filepath.Join(to, "out.html")))
	}
	in, err := os.Stat(filepath.Dir(to))
	if err != nil {
		return cli.NotValid(fmt.Errorf("--report %s: its directory must be there: %w", to, err))
	}
	if !in.IsDir() {
		return cli.NotValid(fmt.Errorf("--report %s: %s is no directory", to, filepath.Dir(to)))
	}
	return nil
}

// Paged is a result that is shown to people, as its JSON, or as a page.
type Paged interface {
	cli.Printed
	Page() *Page
}

// Judged is a result that says whether what ours promises held.
type Judged interface{ Broken() error }

// Play plays until somebody interrupts it, shows what came of it, and fails if that is Judged, and
// broken.
func Play(c *cobra.Command, to string, simulate func(context.Context) (Paged, error)) error {
	ctx, stop := cli.UntilStopped(c)
	defer stop()
	r, err := simulate(ctx)
	if err != nil {
		return err
	}
	if err := Show(c, r, to); err != nil {
		return err
	}
	if j, ok := r.(Judged); ok {
		return j.Broken()
	}
	return nil
}

// Show prints a result in the form that -o asks for, and then writes its page where one is wanted,
// so that what was played is not lost with it. The page is told which command wrote it.
func Show(c *cobra.Command, r Paged, to string) error {
	err := cli.Show(c, r)
	if err != nil || to == "" {
		return err
	}
	p := r.Page()
	p.Command = CommandOf(c)
	return WriteFile(to, p)
}

// WriteFile writes the page whole or not at all.
func WriteFile(path string, p *Page) error {
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		return err
	}
	if err := wholefile.Write(path, out.Bytes(), 0o644, false); err != nil {
		return cli.NotValid(fmt.Errorf("write the report to %s: %w", path, err))
	}
	return nil
}

// CommandOf is the command line that plays the same once more. What does not change a figure is
// left out: where the page goes, how it is printed, how many play at a time.
func CommandOf(c *cobra.Command) string {
	words := []string{c.CommandPath()}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed || f.Name == "report" || f.Name == "output" || f.Name == "jobs" {
			return
		}
		value := strings.Trim(f.Value.String(), "[]")
		if f.Value.Type() == "bool" && value == "true" {
			words = append(words, "--"+f.Name)
			return
		}
		words = append(words, "--"+f.Name, quoted(value))
	})
	for _, arg := range c.Flags().Args() {
		words = append(words, quoted(arg))
	}
	return strings.Join(words, " ")
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./,:=@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
