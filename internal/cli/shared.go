package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// What commands that come from elsewhere share with those of this package.

// Printed is a result that is shown to people, or as its JSON.
type Printed interface{ Print(w io.Writer) error }

// Show prints a result in the form that -o asks for.
func Show(c *cobra.Command, r Printed) error {
	if f := c.Flags().Lookup("output"); f != nil && f.Value.String() == "json" {
		return writeJSON(c.OutOrStdout(), r)
	}
	return r.Print(c.OutOrStdout())
}

// UntilStopped is the context of a command that may take long: it ends when somebody interrupts it.
func UntilStopped(c *cobra.Command) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
}

// Count returns what tells how many of so many are done, in a unit as "rows". It may be called by
// many at once.
func Count[N int | int64](c *cobra.Command, unit string) func(done, total N) {
	progress := Progress(c.ErrOrStderr())
	return func(done, total N) { progress(done >= total, "%d of %d %s", done, total, unit) }
}

// Progress returns what tells how far something long has come: it rewrites one line on a terminal,
// which is gone when it is over, and says something now and then elsewhere. It may be called by
// many at once.
func Progress(w io.Writer) func(over bool, format string, args ...any) {
	file, ok := w.(*os.File)
	live := ok && term.IsTerminal(int(file.Fd()))
	var mu sync.Mutex // guards last and the line
	last := time.Now()
	return func(over bool, format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case live && over:
			fmt.Fprint(w, "\r\x1b[K")
		case live && time.Since(last) > 100*time.Millisecond:
			fmt.Fprintf(w, "\r"+format, args...)
		case !live && time.Since(last) > 10*time.Second:
			fmt.Fprintf(w, format+"\n", args...)
		default:
			return
		}
		last = time.Now()
	}
}

// Wrap breaks a text at blanks, and what has none where it must.
func Wrap(text string, n int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > n {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
		for utf8.RuneCountInString(line) > n {
			r := []rune(line)
			lines, line = append(lines, string(r[:n])), string(r[n:])
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
