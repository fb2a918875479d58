package up_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// Two services on one account: the example of fifteen lines is all it takes, and no agent
// runs at all.
func TestWithoutHost(t *testing.T) {
	s := newSite(t)
	s.bare()
	s.write(config.NoHostsExample())
	s.up()
	if _, err := os.Stat(filepath.Join(s.data, "agent.sock")); err == nil || s.note().Socket != "" {
		t.Error("an agent runs")
	}
	c, ctx := s.client(), within(t, 20*time.Second)
	a, err := c.Admit(ctx, api.AdmissionRequest{Key: "a", Class: "build"}, client.Options{Wait: client.Once})
	if err != nil || a.Ticket == "" || a.Audience != "sandboxes" || a.Host != "" {
		t.Fatalf("%+v %v", a, err)
	}
	if r, err := c.RedeemTicket(ctx, api.TicketRequest{Ticket: a.Ticket, Instance: "i-1"}); err != nil || r.Key != "a" {
		t.Errorf("%+v %v", r, err)
	}
	if status, body := s.get("/readyz"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	for _, want := range []string{"pool      sandboxes  10 slots, no host", `"class": "build"`, "plimsoll --data-dir " + s.data + " pools"} {
		if !strings.Contains(s.stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, s.stdout)
		}
	}
	if hosts, err := c.Hosts(ctx); err != nil || len(hosts.Hosts) != 0 {
		t.Errorf("%+v %v", hosts, err)
	}
	if status := s.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// bare leaves the host out of the environment.
func (s *site) bare() {
	var kept []string
	for _, e := range s.env {
		if !strings.HasPrefix(e, "PLIMSOLL_HOST_") {
			kept = append(kept, e)
		}
	}
	s.env = kept
}

// get asks without a token, as a load balancer does.
func (s *site) get(path string) (status int, body string) {
	s.t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// fleet is the replicas of one PostgreSQL.
type fleet struct {
	t    *testing.T
	url  string // of the store, in a schema of its own
	keys string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	at := os.Getenv("PLIMSOLL_TEST_POSTGRES")
	if at == "" {
		t.Fatal("PLIMSOLL_TEST_POSTGRES is not set: run the tests by scripts/test or scripts/postgres")
	}
	schema := fmt.Sprintf("up_%x", rand.Uint64())
	execute(t, at, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { execute(t, at, "DROP SCHEMA "+schema+" CASCADE") })
	f := &fleet{t: t, url: at + "&search_path=" + schema, keys: filepath.Join(t.TempDir(), "keys.json")}
	if err := os.WriteFile(f.keys, []byte(keysFile), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func execute(t *testing.T, at, sql string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}

// replica is one server, not started yet.
func (f *fleet) replica(verb string) *site {
	f.t.Helper()
	s := newSite(f.t)
	s.verb = verb
	s.set("PLIMSOLL_STORE", f.url)
	s.set("PLIMSOLL_KEYS", f.keys)
	s.write(config.NoHostsExample())
	return s
}

// plimsoll runs a command to its end.
func (f *fleet) plimsoll(args ...string) (string, error) {
	f.t.Helper()
	path, err := binary()
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"PLIMSOLL_STORE=" + f.url, "HOME=/"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (f *fleet) migrate() {
	f.t.Helper()
	if out, err := f.plimsoll("store", "migrate"); err != nil || strings.Contains(out, "none yet") {
		f.t.Fatalf("%v: %s", err, out)
	}
}

// A server comes before the schema: it lives, says what it waits for, and goes on by itself.
// Nothing but the command makes the schema.
func TestServerBeforeTheSchema(t *testing.T) {
	f := newFleet(t)
	out, err := f.plimsoll("store", "status")
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 75 || !strings.Contains(out, "none yet") {
		t.Errorf("%v: %s", err, out)
	}
	s := f.replica("server")
	s.begin()
	s.eventually("it to answer", func() bool { status, _ := s.get("/healthz"); return status == 200 })
	if status, body := s.get("/readyz"); status != 503 || !strings.Contains(body, "has not reached its store") {
		t.Errorf("%d %s", status, body)
	}
	resp := s.post("/v1/admissions")
	if resp == nil || resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Fatalf("%+v", resp)
	}
	resp.Body.Close()
	s.eventually("it to say what to do", func() bool { return strings.Contains(s.stderr.String(), "plimsoll store migrate") })
	if said := s.stderr.String(); strings.Count(said, "level=WARN") != 1 || strings.Contains(said, password(f.url)) {
		t.Errorf("it says %s", said)
	}
	before, err := f.plimsoll("store", "migrate", "--dry-run")
	if err != nil || !strings.Contains(before, "CREATE TABLE") {
		t.Errorf("%v: %s", err, before)
	}
	f.migrate()
	s.eventually("it to be ready", func() bool { status, _ := s.get("/readyz"); return status == 200 })
	if _, err := s.client().Admit(within(t, 10*time.Second), api.AdmissionRequest{Key: "a", Class: "build"}, client.Options{Wait: client.Once}); err != nil {
		t.Error(err)
	}
	if out, err := f.plimsoll("store", "status"); err != nil || strings.Contains(out, password(f.url)) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := f.plimsoll("store", "migrate", "--dry-run"); err != nil || !strings.Contains(out, "nothing to do") {
		t.Errorf("%v: %s", err, out)
	}
}

// A server that is stopped while it still waits for its store ends as any other does.
func TestStoppedBeforeTheStore(t *testing.T) {
	s := newSite(t)
	s.verb = "server"
	s.put("keys.json", keysFile)
	s.set("PLIMSOLL_STORE", "postgres://u@127.0.0.1:1/d")
	s.write(config.NoHostsExample())
	s.begin()
	s.eventually("it to answer", func() bool { status, _ := s.get("/healthz"); return status == 200 })
	if status := s.stop(); status != 0 {
		t.Errorf("exit status %d: %s", status, s.stderr)
	}
}

// The embedded store has no schema that anybody would have to bring up to date.
func TestStoreCommandsWithoutPostgres(t *testing.T) {
	for _, verb := range []string{"status", "migrate"} {
		s := newSite(t)
		s.verb, s.args = "store", []string{verb}
		s.begin()
		<-s.ended
		if s.cmd.ProcessState.ExitCode() != 0 || !strings.Contains(s.stdout.String(), "nothing to do") {
			t.Errorf("%s: %s %s", verb, s.stdout, s.stderr)
		}
	}
}

func password(at string) string {
	u, _ := url.Parse(at)
	p, _ := u.User.Password()
	return p
}

// Servers that start at one moment on an empty store settle one configuration; any of them
// may be killed, and each says of itself that it is up and which keys it knows.
func TestServersAtOnce(t *testing.T) {
	f := newFleet(t)
	f.migrate()
	var servers [4]*site
	for i := range servers {
		servers[i] = f.replica("server")
		servers[i].begin()
	}
	for _, s := range servers {
		s.eventually("it to be ready", func() bool { status, _ := s.get("/readyz"); return status == 200 })
		if strings.Contains(s.stderr.String(), "level=ERROR") {
			t.Error(s.stderr)
		}
	}
	ctx := within(t, 30*time.Second)
	for i, s := range servers {
		if doc, err := s.client().Config(ctx); err != nil || doc.Generation != 1 {
			t.Errorf("%+v %v", doc, err)
		}
		if _, err := s.client().Admit(ctx, api.AdmissionRequest{Key: fmt.Sprint("k", i), Class: "build"}, client.Options{Wait: client.Once}); err != nil {
			t.Error(err)
		}
	}
	live := func() (n int) {
		list, err := servers[3].client().Replicas(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.Replicas {
			if r.Address != "" && strings.Join(r.KeyIDs, ",") == "k1" {
				n++
			}
		}
		return n
	}
	servers[3].eventually("four replicas to say so", func() bool { return live() == 4 })
	servers[0].kill()
	if status := servers[1].stop(); status != 0 {
		t.Errorf("exit status %d: %s", status, servers[1].stderr)
	}
	if n := live(); n != 3 { // of a killed one nobody knows
		t.Errorf("%d replicas say that they are up", n)
	}
	for i := range servers {
		if _, err := servers[2].client().Get(ctx, fmt.Sprint("k", i)); err != nil {
			t.Errorf("k%d: %v", i, err)
		}
	}
	servers[0].begin()
	servers[0].eventually("it to be ready again", func() bool { status, _ := servers[0].get("/readyz"); return status == 200 })
	if n := live(); n != 3 {
		t.Errorf("a replica that came back counts anew: %d", n)
	}
}

// Two replicas of one id, as a copied data directory makes them, find each other.
func TestReplicasOfOneID(t *testing.T) {
	f := newFleet(t)
	f.migrate()
	var servers [2]*site
	for i := range servers {
		servers[i] = f.replica("server")
		servers[i].set("PLIMSOLL_REPLICA_ID", "twin")
		servers[i].up()
	}
	servers[0].eventually("one of them to say so", func() bool {
		return strings.Contains(servers[0].stderr.String()+servers[1].stderr.String(), "another replica has the same id")
	})
}

// The store goes away under a server and comes back: not now, and then all is well again. At
// a start it may be away too.
func TestStoreGoesAndComes(t *testing.T) {
	f := newFleet(t)
	f.migrate()
	d := newDoor(t, f)
	d.shut()
	s := f.replica("server")
	s.set("PLIMSOLL_STORE", d.url)
	s.begin()
	s.eventually("it to answer", func() bool { status, _ := s.get("/healthz"); return status == 200 })
	for range 3 {
		d.open()
		s.eventually("it to be ready", func() bool { status, _ := s.get("/readyz"); return status == 200 })
		if _, err := s.client().Admit(within(t, 20*time.Second), api.AdmissionRequest{Key: "a", Class: "build"}, client.Options{Wait: client.Once}); err != nil {
			t.Error(err)
		}
		d.shut()
		s.eventually("it to say so", func() bool { status, _ := s.get("/readyz"); return status == 503 })
		_, err := s.client().Admit(within(t, 20*time.Second), api.AdmissionRequest{Key: "b", Class: "build"}, client.Options{Wait: client.Once})
		if !errors.Is(err, api.Unavailable) {
			t.Error(err)
		}
	}
	if status := s.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if strings.Contains(s.stderr.String(), password(f.url)) {
		t.Error("it shows a password")
	}
}

// door stands in front of PostgreSQL, and can be shut.
type door struct {
	t    *testing.T
	url  string
	to   string
	port int

	mu       sync.Mutex // guards what follows
	listener net.Listener
	conns    []net.Conn
}

func newDoor(t *testing.T, f *fleet) *door {
	u, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{t: t, to: u.Host, port: freePort(t)}
	u.Host = fmt.Sprintf("127.0.0.1:%d", d.port)
	d.url = u.String()
	t.Cleanup(d.shut)
	return d
}

func (d *door) open() {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", d.port))
	if err != nil {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	d.listener = l
	d.mu.Unlock()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", d.to)
			if err != nil {
				in.Close()
				continue
			}
			d.mu.Lock()
			d.conns = append(d.conns, in, out)
			d.mu.Unlock()
			go func() { io.Copy(in, out); in.Close() }()
			go func() { io.Copy(out, in); out.Close() }()
		}
	}()
}

func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != nil {
		d.listener.Close()
	}
	for _, c := range d.conns {
		c.Close()
	}
	d.conns = nil
}

// One process over PostgreSQL with this machine's agent: what it admits boots here, and its
// agent begins again while the store is away.
func TestUpOnPostgres(t *testing.T) {
	f := newFleet(t)
	f.migrate()
	d := newDoor(t, f)
	d.open()
	s := f.replica("up")
	s.set("PLIMSOLL_STORE", d.url)
	s.write("fleet:\n  default_quota: none\n  pools: [{name: default, cap: 3}]\n  classes: [{name: small, pool: default, memory: 64MiB}]\n")
	s.up()
	c, ctx := s.client(), within(t, 40*time.Second)
	first, err := c.Admit(ctx, api.AdmissionRequest{Key: "first", Class: "small"}, client.Options{Wait: client.Once})
	if err != nil {
		t.Fatal(err)
	}
	sleep := boot.Command{Argv: []string{"/bin/sleep", "1000"}, Detach: true}
	if _, err := s.boot().Run(ctx, first.Ticket, sleep, io.Discard, io.Discard, nil); err != nil {
		t.Fatal(err)
	}
	second, err := c.Admit(ctx, api.AdmissionRequest{Key: "second", Class: "small"}, client.Options{Wait: client.Once})
	if err != nil {
		t.Fatal(err)
	}
	s.kill()
	d.shut()
	s.begin()
	s.eventually("the boot seam to be there", func() bool {
		_, err := s.boot().Run(ctx, second.Ticket, sleep, io.Discard, io.Discard, nil)
		return err == nil
	})
	if status, _ := s.get("/readyz"); status != 503 {
		t.Errorf("ready without a store: %d", status)
	}
	d.open()
	s.eventually("both to be known to run", func() bool {
		list, err := c.Admissions(ctx, api.ListAdmissionsParams{State: api.AdmissionStateRunning})
		return err == nil && len(list.Admissions) == 2
	})
	for _, key := range []string{"first", "second"} {
		if _, err := c.Release(ctx, key); err != nil {
			t.Error(err)
		}
	}
}
