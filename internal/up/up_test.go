package up_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

// What stands against a start is said in words that name the remedy, and nothing panics.
func TestWhatStandsAgainstAStart(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(s *site)
		words []string
	}{
		"the port is taken": {func(s *site) {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
			if err != nil {
				s.t.Fatal(err)
			}
			s.t.Cleanup(func() { l.Close() })
		}, []string{"address already in use", "--listen"}},
		"the address is none":           {func(s *site) { s.args = []string{"--listen", "nonsense"} }, []string{"nonsense"}},
		"the data directory is a file":  {func(s *site) { os.WriteFile(s.data, nil, 0o600) }, []string{"data directory", "--data-dir"}},
		"it may not be made":            {func(s *site) { os.Chmod(s.dir, 0o755); s.uid = 65534 }, []string{"permission denied", "--data-dir"}},
		"it may not be written":         {func(s *site) { os.Mkdir(s.data, 0o755); s.uid = 65534 }, []string{"permission denied", "uid 65534", "--data-dir"}},
		"the database is no database":   {func(s *site) { s.put("plimsoll.db", strings.Repeat("garbage ", 1000)) }, []string{"not a SQLite database", "check the path"}},
		"the database is a directory":   {func(s *site) { os.MkdirAll(s.data+"/plimsoll.db", 0o700) }, []string{"plimsoll.db"}},
		"the keys are garbage":          {func(s *site) { s.put("keys.json", "{nonsense") }, []string{"keys.json", "backup"}},
		"the keys are empty":            {func(s *site) { s.put("keys.json", "") }, []string{"keys.json", "backup"}},
		"the token is short":            {func(s *site) { s.put("token", "x\n") }, []string{"too short", "remove the file"}},
		"the token is a directory":      {func(s *site) { os.MkdirAll(s.data+"/token", 0o700) }, []string{"token", "readable"}},
		"the socket's path is too long": {func(s *site) { s.set("PLIMSOLL_HOST_SOCKET", "/tmp/"+strings.Repeat("x", 110)) }, []string{"115 bytes", "host.socket"}},
		"the data directory's is":       {func(s *site) { s.args = []string{"--data-dir", s.dir + "/" + strings.Repeat("x", 110)} }, []string{"shorter than 108", "host.socket"}},
		"the socket's path is a file":   {func(s *site) { s.set("PLIMSOLL_HOST_SOCKET", "/etc/hostname") }, []string{"is no socket", "another path"}},
		"PostgreSQL without keys":       {func(s *site) { s.set("PLIMSOLL_STORE", "postgres://u:geheim@h/d") }, []string{"no ticket keys", "keyring create"}},
		"PostgreSQL at no address": {func(s *site) {
			s.put("keys.json", keysFile)
			s.set("PLIMSOLL_STORE", "postgres://u:geheim@h:port/d")
		}, []string{"not understood"}},
		"the replica's id is none":        {func(s *site) { s.put("replica_id", "a b\n") }, []string{"replica_id", "remove the file"}},
		"the file is not there":           {func(s *site) { s.args = []string{"--config", "/no/such.yaml"} }, []string{"/no/such.yaml"}},
		"the file has faults":             {func(s *site) { s.write("lisen: x\nfleet:\n  default_quota: nine\n") }, []string{"plimsoll.yaml:1:", "plimsoll.yaml:3:"}},
		"the file has no fleet":           {func(s *site) { s.write("listen: 127.0.0.1:0\nhost: {}\n") }, []string{"plimsoll.yaml", "no fleet section", "config example"}},
		"a variable is wrong":             {func(s *site) { s.set("PLIMSOLL_HOST_BUDGET", "lots") }, []string{"PLIMSOLL_HOST_BUDGET", "lots"}},
		"--log is wrong":                  {func(s *site) { s.args = []string{"--log", "loud"} }, []string{"--log loud", "debug, info, warn or error"}},
		"an argument too many":            {func(s *site) { s.args = []string{"now"} }, []string{"now"}},
		"the cgroup parent is the root":   {func(s *site) { s.set("PLIMSOLL_HOST_CGROUP_PARENT", "/") }, []string{"cgroup"}},
		"the state is a directory":        {func(s *site) { os.MkdirAll(s.data+"/state.log", 0o700) }, []string{"agent's state", "must be a file"}},
		"the disk is full":                {func(s *site) { s.fullDisk(64 << 10) }, []string{"the disk is full"}},
		"the disk is full a little later": {func(s *site) { s.fullDisk(0) }, []string{"space"}},
		"the note's place is a directory": {func(s *site) { os.MkdirAll(s.data+"/client.json/x", 0o700) }, []string{"client.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if strings.Contains(name, "may not") && os.Getuid() != 0 {
				t.Skip("only root can be another user")
			}
			tt.spoil(s)
			said := s.fails(tt.words...)
			t.Log(said)
			if strings.Contains(said, "geheim") {
				t.Error("it shows a password")
			}
			_, verdict, _ := strings.Cut(said, "plimsoll: ")
			if strings.Contains(verdict, "context canceled") {
				t.Error("it speaks of contexts")
			}
		})
	}
}

// keysFile is one of keys, for tests alone.
const keysFile = `{"version": 1, "roots": [{"id": "k1", "state": "signing", "secret": "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="}]}`

// put writes a file of the data directory.
func (s *site) put(name, text string) {
	s.t.Helper()
	os.MkdirAll(s.data, 0o711)
	if err := os.WriteFile(filepath.Join(s.data, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// fullDisk makes the data directory a disk of 256 KiB, all but some of it used.
func (s *site) fullDisk(free int64) {
	s.t.Helper()
	s.mount("size=256k")
	ballast := filepath.Join(s.data, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 256<<10), 0o600); !errors.Is(err, unix.ENOSPC) && err != nil {
		s.t.Fatal(err)
	}
	if free > 0 {
		os.Truncate(ballast, 256<<10-free)
	}
}

func (s *site) mount(options string) {
	s.t.Helper()
	os.MkdirAll(s.data, 0o711)
	if err := unix.Mount("tmpfs", s.data, "tmpfs", 0, options); err != nil {
		s.t.Skipf("mount a small disk: %v", err)
	}
	s.t.Cleanup(func() { s.kill(); unix.Unmount(s.data, unix.MNT_DETACH) })
}

// A database that is damaged or newer than the program is left as it is.
func TestADatabaseThatIsNotOurs(t *testing.T) {
	s := newSite(t)
	s.up()
	s.stop()
	path := filepath.Join(s.data, "plimsoll.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO schema_version (version) VALUES (9999)"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(s.fails("newer"))
	bad := append([]byte(nil), good...)
	for i := 4096; i < len(bad); i++ {
		bad[i] = byte(i * 7)
	}
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Log(s.fails("damaged", "backup"))
}

// Of two on one data directory the second leaves the first alone, whatever store it has.
func TestTwoOnOneDataDirectory(t *testing.T) {
	s := newSite(t)
	s.up()
	note := s.note()
	for name, env := range map[string][]string{
		"the same store": nil,
		"another store":  {"PLIMSOLL_STORE=sqlite:" + filepath.Join(s.dir, "other.db")},
	} {
		other := &site{t: t, verb: "up", dir: s.dir, data: s.data, parent: s.parent, env: append(s.env, append(env, "PLIMSOLL_LISTEN=127.0.0.1:0")...)}
		t.Log(name, other.fails("in use", "--data-dir"))
	}
	elsewhere := newSite(t)
	elsewhere.set("PLIMSOLL_STORE", "sqlite:"+filepath.Join(s.data, "plimsoll.db"))
	t.Log(elsewhere.fails("in use by another process", strconv.Itoa(s.cmd.Process.Pid)))
	if !reflect.DeepEqual(s.note(), note) {
		t.Error("the note is another")
	}
	if _, err := s.client().Pools(within(t, 5*time.Second)); err != nil {
		t.Error(err)
	}
}

// TERM: whoever waits is answered, sandboxes go on, the note is gone; the next start has the
// same keys, token and configuration, and the sandbox is its own again.
func TestStopAndStartAgain(t *testing.T) {
	s := newSite(t)
	s.write("fleet:\n  default_quota: none\n  pools: [{name: default, cap: 1}]\n  classes: [{name: small, pool: default, memory: 64MiB}]\n")
	s.up()
	c := s.client()
	ctx := within(t, 30*time.Second)
	a, err := c.Admit(ctx, api.AdmissionRequest{Key: "a", Class: "small"}, client.Options{Wait: client.Once})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.boot().Run(ctx, a.Ticket, boot.Command{Argv: []string{"/bin/sleep", "1000"}, Detach: true}, io.Discard, io.Discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := s.sandboxes()
	waited := make(chan *http.Response, 1)
	if _, err := c.Admit(ctx, api.AdmissionRequest{Key: "b", Class: "small", Mode: api.WaitModeQueue}, client.Options{Wait: client.Once}); err == nil {
		t.Error("two in a pool of one")
	}
	place := s.presentUntil("b")
	go func() { waited <- s.post("/v1/admissions/b/attempt?wait_ms=30000") }()
	s.eventually("its long poll to be held", func() bool { return s.presentUntil("b") > place+2000 })
	// A connection on which nothing is ever asked keeps nobody from stopping.
	silent, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if status := s.stop(); status != 0 {
		t.Errorf("exit status %d: %s", status, s.stderr)
	}
	resp := <-waited
	if resp == nil {
		t.Fatal("the waiter got no answer")
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 503 && resp.StatusCode != 202 || !json.Valid(body) {
		t.Errorf("the waiter was told %d %s", resp.StatusCode, body)
	}
	for _, name := range []string{"client.json", "agent.sock"} {
		if _, err := os.Stat(filepath.Join(s.data, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	if strings.Contains(s.stderr.String(), "level=ERROR") {
		t.Error(s.stderr)
	}
	files := s.secrets()
	s.up()
	if s.secrets() != files {
		t.Error("the keys or the token are others")
	}
	after := s.sandboxes()
	if len(before) != 1 || len(after) != 1 || before[0].PID != after[0].PID {
		t.Errorf("%+v, then %+v", before, after)
	}
	config, err := c.Config(ctx)
	if err != nil || config.Generation != 1 {
		t.Errorf("generation %+v %v", config, err)
	}
	if got, err := c.Get(ctx, "a"); err != nil || got.State != api.AdmissionStateRunning {
		t.Errorf("%+v %v", got, err)
	}
	// The place in the queue was kept, and its turn comes.
	if _, err := c.Release(ctx, "a"); err != nil {
		t.Error(err)
	}
	var told struct {
		DecisionID string `json:"decision_id"`
	}
	if err := json.Unmarshal(body, &told); err != nil {
		t.Error(err)
	}
	if d, err := c.Decision(ctx, told.DecisionID); err != nil || d.Key != "b" {
		t.Errorf("what the waiter was told as it stopped: %+v %v", d, err)
	}
	if b, err := c.Resume(ctx, "b", client.Options{Wait: 10 * time.Second}); err != nil || b.Ticket == "" {
		t.Errorf("%+v %v", b, err)
	}
	if _, err := c.Release(ctx, "b"); err != nil {
		t.Error(err)
	}
	// What the file says by now is not what is in force, and that is said.
	s.stop()
	s.write("fleet:\n  default_quota: none\n  pools: [{name: default, cap: 2}]\n  classes: [{name: small, pool: default, memory: 64MiB}]\n")
	s.up()
	if !strings.Contains(s.stderr.String(), "config diff") {
		t.Error("a file that differs is not spoken of")
	}
	// And without a file it comes up with what is in force.
	s.stop()
	s.args = nil
	s.up()
	if config, err := c.Config(ctx); err != nil || config.Generation != 1 {
		t.Errorf("generation %+v %v", config, err)
	}
}

// presentUntil is how far ahead a waiter is known to be there, in ms: it is while its long
// poll is held. Only the database knows.
func (s *site) presentUntil(key string) (until int64) {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.data, "plimsoll.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT present_until FROM admissions WHERE key = ?", key).Scan(&until); err != nil {
		s.t.Fatal(err)
	}
	return until
}

func (s *site) sandboxes() []api.Sandbox {
	s.t.Helper()
	var h *api.Host
	s.eventually("the sandbox to be measured", func() bool {
		var err error
		h, err = s.client().Host(within(s.t, 5*time.Second), "h1")
		if err != nil {
			s.t.Fatal(err)
		}
		return len(h.Sandboxes) == 1 && h.Sandboxes[0].ResidentMB >= 0
	})
	return h.Sandboxes
}

func (s *site) secrets() (all string) {
	s.t.Helper()
	for _, name := range []string{"keys.json", "token"} {
		path := filepath.Join(s.data, name)
		text, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			s.t.Errorf("%s: mode %v", name, info.Mode())
		}
		all += string(text)
	}
	return all
}

func (s *site) post(path string) *http.Response {
	token, _ := os.ReadFile(filepath.Join(s.data, "token"))
	q, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path), nil)
	if err != nil {
		return nil
	}
	q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil
	}
	return resp
}

// The banner's numbers are the API's.
func TestTheBanner(t *testing.T) {
	s := newSite(t)
	s.up()
	h, err := s.client().Host(within(t, 5*time.Second), "h1")
	if err != nil {
		t.Fatal(err)
	}
	if h.AdmittableMB != 1024-256 || h.HeadroomMB != 256 || h.BindingLimit != "budget" {
		t.Fatalf("the host says %+v", h)
	}
	note := s.note()
	for _, want := range []string{
		"host      h1, working-set admission, enforced, intake open",
		fmt.Sprintf("may promise %d MiB: 1024 MiB free under the limit %q, less %d MiB of headroom", h.AdmittableMB, h.BindingLimit, h.HeadroomMB),
		"small        512 MiB, stateless, charged at least 512 MiB: room for 1",
		"database    2048 MiB, stateful, charged at least 2048 MiB: room for 0",
		note.URL, note.TokenFile, note.Socket, s.data, "host show h1", "run --class small",
	} {
		if !strings.Contains(s.stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, s.stdout)
		}
	}
	// The variable names the data directory to this process alone, so the commands that it
	// proposes name it too.
	if !strings.Contains(s.stdout.String(), "--data-dir "+s.data) {
		t.Error("the commands that it proposes would not find it")
	}
}

// Flags win over variables, and variables over the file.
func TestTheOrderOfSettings(t *testing.T) {
	s := newSite(t)
	s.write("data_dir: /no/such/dir\nlisten: 127.0.0.1:1\nhost: {id: h9, budget: 7GiB, headroom: 300MiB}\n" +
		"fleet: {default_quota: none, pools: [{name: default, cap: none}], classes: [{name: c, pool: default, memory: 64MiB}]}\n")
	s.port = freePort(t)
	s.args = append(s.args, "--listen", fmt.Sprintf("127.0.0.1:%d", s.port))
	s.up()
	h, err := s.client().Host(within(t, 5*time.Second), "h1")
	if err != nil || h.HeadroomMB != 300 || h.AdmittableMB != 1024-300 {
		t.Errorf("%+v %v", h, err)
	}
}

// Without the right to make cgroups it works, and says once what is missing and what to do.
func TestAsAnyUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	s := newSite(t)
	s.uid = 65534
	s.up()
	said := s.stderr.String()
	if strings.Count(said, "level=WARN") == 0 || strings.Count(said, "without cgroups") != 1 || !strings.Contains(said, "Delegate=yes") {
		t.Errorf("it says %s", said)
	}
	c, ctx := s.client(), within(t, 20*time.Second)
	a, err := c.Admit(ctx, api.AdmissionRequest{Class: "small"}, client.Options{Wait: client.Once})
	if err != nil {
		t.Fatal(err)
	}
	// Whoever asks is root, and this agent cannot be: it says so, and the memory is free.
	_, err = s.boot().Run(ctx, a.Ticket, boot.Command{Argv: []string{"/bin/true"}}, io.Discard, io.Discard, nil)
	if !errors.Is(err, api.InvalidRequest) || !strings.Contains(err.Error(), "run it as root") {
		t.Error(err)
	}
	s.eventually("the memory to be free", func() bool {
		h, err := c.Host(ctx, "h1")
		return err == nil && h.AdmittableMB == 768
	})
}

// A disk that fills up under it: creates are refused in words, what runs goes on, and with
// room again everything does.
func TestTheDiskFillsUp(t *testing.T) {
	s := newSite(t)
	s.mount("size=16m")
	s.up()
	c, ctx := s.client(), within(t, 60*time.Second)
	a, err := c.Admit(ctx, api.AdmissionRequest{Key: "a", Class: "small"}, client.Options{Wait: client.Once})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.boot().Run(ctx, a.Ticket, boot.Command{Argv: []string{"/bin/sleep", "1000"}, Detach: true}, io.Discard, io.Discard, nil)
	if err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(s.data, "ballast")
	fill := func() { os.WriteFile(ballast, make([]byte, 16<<20), 0o600) }
	fill()
	refused := 0
	for i := range 40 {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := c.Admit(ctx, api.AdmissionRequest{Key: fmt.Sprint("x", i), Class: "small", MemoryMB: nil}, client.Options{Wait: client.Once})
		cancel()
		var unreachable *client.Unreachable
		if errors.As(err, &unreachable) || errors.Is(err, api.Internal) {
			t.Errorf("create %d on a full disk: %v", i, err)
		}
		if errors.Is(err, api.Unavailable) {
			refused++
		}
		c.Release(within(t, time.Second), fmt.Sprint("x", i))
		fill()
	}
	t.Logf("%d of 40 refused as unavailable", refused)
	select {
	case <-s.ended:
		t.Fatalf("it ended: %s", s.stderr)
	default:
	}
	os.Remove(ballast)
	s.eventually("creates to go on", func() bool {
		_, err := c.Release(within(t, 5*time.Second), "a")
		if err != nil && !errors.Is(err, api.NotFound) {
			return false
		}
		_, err = c.Admit(ctx, api.AdmissionRequest{Key: "y", Class: "small"}, client.Options{Wait: client.Once})
		return err == nil
	})
	c.Release(ctx, "y")
	s.eventually("nothing to be held", func() bool {
		h, err := c.Host(ctx, "h1")
		return err == nil && h.Reservations == 0 && len(h.Sandboxes) == 0
	})
}

func TestHelp(t *testing.T) {
	s := newSite(t)
	s.args = []string{"--help"}
	s.begin()
	<-s.ended
	for _, want := range []string{"Sandboxes outlive it", "--config", "--listen", "--log", "--data-dir", "PLIMSOLL_HOST_BUDGET", "Examples:"} {
		if !strings.Contains(s.stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, s.stdout)
		}
	}
	for line := range strings.Lines(s.stdout.String()) {
		if len(line) > 101 {
			t.Errorf("%d wide: %s", len(line), line)
		}
	}
}
