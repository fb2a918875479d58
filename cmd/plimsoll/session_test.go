package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/discover"
)

// TestSessions runs whole sessions with the built binary: a server of its own, real
// processes in sandboxes. The binary is built and not this test under another name, for the
// agent starts itself again for each boot.
func TestSessions(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "plimsoll"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/session",
		Setup: func(env *testscript.Env) error {
			// Sockets have short paths, and a script's own folder has a long one.
			data, err := os.MkdirTemp("", "plim")
			if err != nil {
				return err
			}
			env.Defer(func() { os.RemoveAll(data) })
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("PLIMSOLL_DATA_DIR", data)
			env.Setenv("PLIMSOLL_HOST_ID", "demo")
			env.Setenv("PLIMSOLL_HOST_BUDGET", "1GiB")
			// Each script has a cgroup of its own: an agent clears what an earlier life left in it.
			env.Setenv("PLIMSOLL_HOST_CGROUP_PARENT", "plimsoll/"+filepath.Base(env.WorkDir))
			env.Setenv("LC_ALL", "C.UTF-8")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "admit": admit, "redeem": redeem},
	})
}

// exits STATUS CMD ARGS... runs a command that must end with a status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS CMD [ARG]...")
	}
	ts.Check(ts.Exec("sh", append([]string{"-c", `want=$1; shift; "$@"; got=$?; [ $got = $want ] || { echo "exit status $got" >&2; exit 1; }`, "sh"}, args...)...))
}

// service speaks to the server of a script as whoever has a token file.
func service(ts *testscript.TestScript, tokenFile string) *client.Client {
	note, err := discover.Read(ts.Getenv("PLIMSOLL_DATA_DIR"))
	ts.Check(err)
	c, err := client.New(note.URL, strings.TrimSpace(ts.ReadFile(tokenFile)))
	ts.Check(err)
	return c
}

// admit TOKENFILE CLASS KEY TICKETFILE asks once, and keeps the ticket.
func admit(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: admit TOKENFILE CLASS KEY TICKETFILE")
	}
	a, err := service(ts, args[0]).Admit(context.Background(), api.AdmissionRequest{Class: args[1], Key: args[2]}, client.Options{Wait: client.Once})
	outcome(ts, neg, err)
	if err == nil {
		ts.Check(os.WriteFile(ts.MkAbs(args[3]), []byte(a.Ticket+"\n"), 0o600))
	}
}

// redeem TOKENFILE TICKETFILE gives a ticket up for a boot.
func redeem(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: redeem TOKENFILE TICKETFILE")
	}
	_, err := service(ts, args[0]).RedeemTicket(context.Background(), api.TicketRequest{Ticket: strings.TrimSpace(ts.ReadFile(args[1]))})
	outcome(ts, neg, err)
}

// outcome logs a no, and ends the script when it is not the one that was expected.
func outcome(ts *testscript.TestScript, neg bool, err error) {
	if err != nil {
		ts.Logf("%v", err)
	}
	if (err != nil) != neg {
		ts.Fatalf("got %v", err)
	}
}
