package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
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
			env.Setenv("LC_ALL", "C.UTF-8")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits STATUS CMD ARGS... runs a command that must end with a status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS CMD [ARG]...")
	}
	ts.Check(ts.Exec("sh", append([]string{"-c", `want=$1; shift; "$@"; got=$?; [ $got = $want ] || { echo "exit status $got" >&2; exit 1; }`, "sh"}, args...)...))
}
