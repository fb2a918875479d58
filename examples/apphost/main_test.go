package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/hostmem"
)

// The test's own program is the app host and the sample app, too: as processes they can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "app" || os.Args[1] == "--up") {
		main()
		return
	}
	status := m.Run()
	if path, err := plimsoll(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}

// plimsoll is the program, built once for all tests.
var plimsoll = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "apphost-bin")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "plimsoll"), "github.com/plimsoll-project/plimsoll/cmd/plimsoll")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return filepath.Join(dir, "plimsoll"), nil
})

// process is a program that a test starts, kills and starts again.
type process struct {
	t     *testing.T
	argv  []string
	env   []string
	ready string // what it says once it is up
	cmd   *exec.Cmd
	said  *output
	ended chan struct{}
}

type output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (p *process) start() {
	p.t.Helper()
	p.said, p.ended = new(output), make(chan struct{})
	p.cmd = exec.Command(p.argv[0], p.argv[1:]...)
	p.cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.said, p.said
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	cmd, ended := p.cmd, p.ended
	go func() { defer close(ended); cmd.Wait() }()
	eventually(p.t, "it to be up", func() bool {
		select {
		case <-p.ended:
			p.t.Fatalf("%s ended: %s", p.argv[0], p.said)
		default:
		}
		return strings.Contains(p.said.String(), p.ready)
	})
}

func (p *process) kill() {
	if p.cmd != nil {
		p.cmd.Process.Kill()
		<-p.ended
	}
}

func (p *process) stop() {
	p.t.Helper()
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(15 * time.Second):
		p.t.Fatalf("%s does not end by TERM: %s", p.argv[0], p.said)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

const fleet = `
fleet:
  default_quota: none
  pools: [{name: apps, cap: 2}, {name: other, cap: 1}]
  classes:
    - {name: app, pool: apps, memory: 32MiB, reserve_floor: 32MiB}
    - {name: other, pool: other, memory: 32MiB, reserve_floor: 32MiB}
`

// stage is a plimsoll up, and an app host beside it.
type stage struct {
	t    *testing.T
	dir  string
	gate process
	apps process
	port int
}

// newStage starts both. Addresses of replicas besides the first may be named.
func newStage(t *testing.T, idle time.Duration, more ...string) *stage {
	t.Helper()
	t.Parallel()
	path, err := plimsoll()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ah") // short: it holds Unix sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &stage{t: t, dir: dir, port: freePort(t)}
	s.write("plimsoll.yaml", fleet)
	const quick = `"env":["GORACE=atexit_sleep_ms=0"]` // the race detector sleeps for a second at the end of a process
	s.write("apps.json", `[{"name":"blog","class":"app",`+quick+`},{"name":"shop","class":"app",`+quick+`},{"name":"wiki","class":"app",`+quick+`},
		{"name":"typo","class":"ap"},{"name":"broken","class":"other","argv":["/bin/false"]},{"name":"lost","class":"other","argv":["./nowhere"]}]`)
	gatePort := freePort(t)
	s.gate = process{t: t, argv: []string{path, "up", "--config", s.path("plimsoll.yaml")}, ready: "Try, in another terminal", env: []string{
		"PLIMSOLL_HOST_ID=h1", "PLIMSOLL_HOST_BUDGET=1GiB", "PLIMSOLL_HOST_STOP_GRACE=1s", "PLIMSOLL_DATA_DIR=" + s.path("up"),
		"PLIMSOLL_HOST_CGROUP_PARENT=" + s.cgroup(),
		fmt.Sprintf("PLIMSOLL_LISTEN=127.0.0.1:%d", gatePort),
	}}
	server := strings.Join(append([]string{fmt.Sprintf("http://127.0.0.1:%d", gatePort)}, more...), ",")
	s.apps = process{t: t, ready: "apphost serves", argv: []string{
		os.Args[0], "--up", s.path("up"), "--server", server, "--apps", s.path("apps.json"), "--dir", s.path("a"), "--listen", fmt.Sprintf("127.0.0.1:%d", s.port),
		"--idle", idle.String(), "--patience", "2s", "--hold", "15s", "--page-after", "300ms", "--start-within", "15s",
	}}
	t.Cleanup(s.end)
	s.gate.start()
	s.apps.start()
	return s
}

// cgroup is the parent of the sandboxes' own.
func (s *stage) cgroup() string {
	return fmt.Sprintf("apphost-test-%d-%s", os.Getpid(), filepath.Base(s.dir))
}

// removeCgroup fails where an app was left behind.
func (s *stage) removeCgroup() {
	machine, err := hostmem.Discover("/")
	if err != nil {
		s.t.Error(err)
		return
	}
	for _, h := range []hostmem.Hierarchy{machine.Memory(), machine.Unified()} {
		if !h.Mounted() {
			continue
		}
		if err := os.Remove(h.Dir(s.cgroup())); err != nil && !os.IsNotExist(err) {
			s.t.Errorf("an app was left behind: %v", err)
		}
	}
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// end also checks what must hold after every test: no app was ever written down as anything but one of the
// three states, whatever the gate said.
func (s *stage) end() {
	for _, a := range s.look().Apps {
		for _, step := range a.Steps {
			if step.State != Running && step.State != Hibernated && step.State != Waiting {
				s.t.Errorf("app %s was %q", a.Name, step.State)
			}
		}
		if s.t.Failed() {
			s.t.Logf("%s: %s %+v", a.Name, a.State, a.Steps)
		}
	}
	s.apps.kill()
	for _, name := range []string{"blog", "shop", "wiki", "broken", "lost"} {
		exec.Command(s.gate.argv[0], "release", "--data-dir", s.path("up"), "app:"+name).Run()
	}
	s.gate.kill()
	s.removeCgroup()
	if s.t.Failed() {
		s.t.Logf("the app host:\n%s\nplimsoll:\n%s", s.apps.said, s.gate.said)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// visitor keeps no connection: one that was opened to a killed process is no other test's.
var visitor = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get asks an app, as a program does, or as a person's browser.
func (s *stage) get(app, path, accept string) (int, string, http.Header) {
	s.t.Helper()
	status, body, header, err := s.try(app, path, accept)
	if err != nil {
		s.t.Fatal(err)
	}
	return status, body, header
}

func (s *stage) try(app, path, accept string) (int, string, http.Header, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", s.port, path), nil)
	if err != nil {
		return 0, "", nil, err
	}
	if app != "" {
		r.Host = app + ".localhost"
	}
	r.Header.Set("Accept", accept)
	answer, err := visitor.Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), answer.Header, err
}

// visit asks an app that must answer, and returns its process and how often it was visited.
func (s *stage) visit(app string) (pid, visits int) {
	s.t.Helper()
	status, body, _ := s.get(app, "/", "*/*")
	if status != http.StatusOK {
		s.t.Fatalf("app %s answered %d: %s", app, status, body)
	}
	return said(s.t, body, "process "), said(s.t, body, "visit ")
}

// said is the number behind a word of the sample app.
func said(t *testing.T, body, word string) int {
	t.Helper()
	_, rest, _ := strings.Cut(body, word)
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	n, err := strconv.Atoi(rest[:max(digits, 0)])
	if err != nil {
		t.Fatalf("%q in %q: %v", word, body, err)
	}
	return n
}

func (s *stage) look() (o Overview) {
	_, body, _, err := s.try("", "/apps.json", "application/json")
	if err == nil {
		err = json.Unmarshal([]byte(body), &o)
	}
	if err != nil {
		s.t.Errorf("look at the apps: %v", err)
	}
	return o
}

func (s *stage) app(name string) AppStatus {
	for _, a := range s.look().Apps {
		if a.Name == name {
			return a
		}
	}
	return AppStatus{}
}

func (s *stage) becomes(name string, want State) AppStatus {
	s.t.Helper()
	var a AppStatus
	eventually(s.t, name+" to be "+string(want), func() bool { a = s.app(name); return a.State == want })
	return a
}
