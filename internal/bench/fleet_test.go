package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/internal/up"
)

func stopped() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// TestMain plays the hosts, too, and an agent: bench fleet and bench sample start their own
// program again for them.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		c := up.AgentCommand("test")
		c.SetArgs(os.Args[2:])
		if err := c.ExecuteContext(stopped()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[2] == hostsWord {
		if err := Hosts(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestFleet: every host is heard, says its word as often as it is to, and a create is placed
// on one.
func TestFleet(t *testing.T) {
	r, err := Fleet(t.Context(), FleetOptions{Hosts: 40, Every: time.Second, For: 3 * time.Second, Store: embedded})
	if err != nil {
		t.Fatal(err)
	}
	if r.WordsLate != 0 || r.FirstYesMS == 0 || r.AllHeardMS == 0 || r.BytesPerHost <= 0 || r.CPUPercent <= 0 || r.VerdictsPerS < 10 {
		t.Errorf("%+v", r)
	}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil || !strings.Contains(out.String(), "% of a core") {
		t.Errorf("%s (%v)", &out, err)
	}
}
