package cli

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"plimsoll": func() { os.Exit(Run(context.Background(), os.Args[1:], Options{Version: "v0-test"})) },
	})
}

type fakeKey struct{}

// TestScripts runs testdata/script. Each script has a server whose answers are the files in
// its folder server, and an agent on $PLIMSOLL_SOCKET that boots whatever ticket it is given
// unless that says otherwise.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			f := newFake(t, filepath.Join(env.WorkDir, "server"))
			s := f.start()
			agent, err := newFakeAgent(t)
			if err != nil {
				return err
			}
			env.Defer(s.Close)
			env.Defer(agent.close)
			env.Values[fakeKey{}] = f
			env.Setenv("URL", s.URL)
			env.Setenv("SOCKET", agent.socket)
			env.Setenv("PLIMSOLL_URL", s.URL)
			env.Setenv("PLIMSOLL_TOKEN", "good")
			env.Setenv("PLIMSOLL_SOCKET", agent.socket)
			env.Setenv("PLIMSOLL_DATA_DIR", filepath.Join(env.WorkDir, "data"))
			env.Setenv("LC_ALL", "C.UTF-8")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"calls": calls,
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// exits STATUS CMD ARGS... runs a command that must end with a status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS CMD [ARG]...")
	}
	ts.Check(ts.Exec("sh", append([]string{"-c", `want=$1; shift; "$@"; got=$?; [ $got = $want ] || { echo "exit status $got" >&2; exit 1; }`, "sh"}, args...)...))
}

// calls FILE writes what the server was asked.
func calls(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: calls FILE")
	}
	f := ts.Value(fakeKey{}).(*fake)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(f.seen()), 0o600))
}
