package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

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
