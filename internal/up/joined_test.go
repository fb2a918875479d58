package up_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/internal/cli"
)

const wireConfig = `
fleet:
  default_quota: none
  pools: [{name: default, cap: none}]
  classes: [{name: small, pool: default, memory: 16MiB, reserve_floor: 16MiB}]
`

// agentOf is an agent in a process of its own that belongs to these replicas.
func agentOf(t *testing.T, id string, replicas ...*site) *site {
	t.Helper()
	a := newSite(t)
	a.verb = "agent"
	a.set("PLIMSOLL_HOST_ID", id)
	a.set("PLIMSOLL_HOST_HEADROOM", "128MiB")
	a.set("PLIMSOLL_AGENT_LISTEN", "127.0.0.1:0")
	var all []string
	for _, r := range replicas {
		all = append(all, fmt.Sprintf("http://127.0.0.1:%d", r.port))
	}
	a.set("PLIMSOLL_AGENT_REPLICAS", strings.Join(all, ","))
	token, err := replicas[0].client().CreateJoinToken(within(t, 10*time.Second), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(a.dir, "join_token")
	if err := os.WriteFile(file, []byte(token.JoinToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.set("PLIMSOLL_AGENT_JOIN_TOKEN_FILE", file)
	return a
}

// admit asks until the hosts are heard.
func (s *site) admit(key string) *api.Admission {
	s.t.Helper()
	a, err := s.client().Admit(within(s.t, 30*time.Second), api.AdmissionRequest{Key: key, Class: "small"}, client.Options{Wait: 20 * time.Second})
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *site) runs(a *api.Admission, argv ...string) error {
	s.t.Helper()
	_, err := s.boot().Run(within(s.t, 20*time.Second), a.Ticket, boot.Command{Argv: argv, Detach: true}, io.Discard, io.Discard, nil)
	return err
}

// TestJoinedAgent: an agent without a store joins by a token, is dialled, and takes what a
// replica places there. Killed, it comes back by its credential, with what runs; and with no
// replica there it boots what was promised before.
func TestJoinedAgent(t *testing.T) {
	s := newSite(t)
	s.verb = "server"
	s.write(wireConfig)
	s.up()
	a := agentOf(t, "h7", s)
	a.up()
	one, two := s.admit("one"), s.admit("two")
	if one.Host != "h7" {
		t.Errorf("%+v", one)
	}
	if err := a.runs(one, "/bin/sleep", "1000"); err != nil {
		t.Fatal(err)
	}
	a.kill()
	os.Remove(filepath.Join(a.dir, "join_token"))
	s.kill()
	a.up()
	if err := a.runs(two, "/bin/sleep", "1000"); err != nil {
		t.Error("what was promised does not boot with no replica there:", err)
	}
	s.up()
	three := s.admit("three")
	if err := a.runs(three, "/bin/sleep", "1000"); err != nil {
		t.Error(err)
	}
	ctx := within(t, 20*time.Second)
	if h, err := s.client().Host(ctx, "h7"); err != nil || len(h.Sandboxes) != 3 {
		t.Errorf("%+v %v", h, err)
	}
	for _, key := range []string{"one", "two", "three"} {
		if _, err := s.client().Release(ctx, key); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"credential.json", "host-keys.json"} {
		if info, err := os.Stat(filepath.Join(a.data, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", name, err)
		}
	}
	a.eventually("the sandboxes to end", func() bool {
		h, err := s.client().Host(ctx, "h7")
		return err == nil && len(h.Sandboxes) == 0 && h.Reservations == 0
	})
	if status := a.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// TestJoinRefused: an agent that can never register says so, and ends.
func TestJoinRefused(t *testing.T) {
	s := newSite(t)
	s.verb = "server"
	s.write(wireConfig)
	s.up()
	for name, c := range map[string]struct {
		token, want string
		status      int
	}{
		"a wrong token": {"plj_wrong", "join_token: there is no such token; it may have been revoked\ntry: make one with plimsoll host token create", cli.ExitNotAllowed},
		"no token":      {"", "holds no join token; it must hold the token and nothing else\ntry: plimsoll host token create --host h1", cli.ExitConfig},
	} {
		t.Run(name, func(t *testing.T) {
			a := agentOf(t, "h1", s)
			if err := os.WriteFile(filepath.Join(a.dir, "join_token"), []byte(c.token), 0o600); err != nil {
				t.Fatal(err)
			}
			a.fails(c.want)
			if got := a.cmd.ProcessState.ExitCode(); got != c.status {
				t.Errorf("exit status %d, want %d", got, c.status)
			}
		})
	}
	a := agentOf(t, "h1", s)
	os.Remove(filepath.Join(a.dir, "join_token"))
	a.fails("agent.join_token_file: host h1 has no credential yet", "no such file", "\ntry: plimsoll host token create --host h1 --out "+a.dir)
	a.set("PLIMSOLL_AGENT_JOIN_TOKEN_FILE", "")
	a.fails("PLIMSOLL_AGENT_JOIN_TOKEN_FILE", "plimsoll host token")
	if got := a.cmd.ProcessState.ExitCode(); got != cli.ExitConfig {
		t.Errorf("exit status %d, want %d", got, cli.ExitConfig)
	}
}

// TestNextReplica: where one address does not answer the next does, and an agent that finds
// none at first comes in later.
func TestNextReplica(t *testing.T) {
	s := newSite(t)
	s.verb = "server"
	s.write(wireConfig)
	s.up()
	dead := newSite(t)
	a := agentOf(t, "h7", s)
	a.set("PLIMSOLL_AGENT_REPLICAS", fmt.Sprintf("http://127.0.0.1:%d,http://127.0.0.1:%d", dead.port, s.port))
	s.kill()
	a.up() // it says that it is not registered, and measures
	a.eventually("word that it is not registered", func() bool { return strings.Contains(a.stderr.String(), "not registered") })
	s.up()
	if got := s.admit("one"); got.Host != "h7" {
		t.Errorf("%+v", got)
	}
	if _, err := s.client().Release(within(t, 10*time.Second), "one"); err != nil {
		t.Error(err)
	}
}

// TestRotationOverTheWire changes the ticket key while replicas and hosts are processes of
// their own: no boot is refused.
func TestRotationOverTheWire(t *testing.T) {
	f := newFleet(t)
	f.migrate()
	var servers, agents []*site
	for range 2 {
		s := f.replica("server")
		s.write(strings.Replace(wireConfig, "fleet:", "fleet:\n  ceiling: none", 1))
		s.up()
		servers = append(servers, s)
	}
	for i := range 2 {
		a := agentOf(t, fmt.Sprintf("w%d", i), servers...)
		a.up()
		agents = append(agents, a)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	booted := make([]int, len(servers))
	for i, s := range servers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				booted[i] += bootOnce(ctx, t, s, agents, fmt.Sprintf("c%d-%d", i, n))
			}
		})
	}
	time.Sleep(2 * time.Second) // under the old key alone
	r := &rotating{t: t, sites: servers}
	out, err := r.plimsoll("keyring", "rotate", "--keys", f.keys, "--wait", "--settle", "3s", "--ticket-life", "5s")
	t.Logf("%v\n%s", err, out)
	if err != nil {
		t.Error("the rotation failed")
	}
	time.Sleep(2 * time.Second) // under the new key alone
	stop()
	all.Wait()
	t.Logf("booted %d", booted)
	if booted[0] == 0 || booted[1] == 0 {
		t.Error("a replica's callers booted nothing")
	}
}

// bootOnce takes a ticket for a walk and boots with it.
func bootOnce(ctx context.Context, t *testing.T, s *site, agents []*site, key string) int {
	c := s.client()
	a, err := c.Admit(ctx, api.AdmissionRequest{Key: key, Class: "small"}, client.Options{Wait: 20 * time.Second})
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return 0
	}
	sleep(ctx, 300*time.Millisecond)
	host := agents[0]
	if a.Host == "w1" {
		host = agents[1]
	}
	_, err = host.boot().Run(context.WithoutCancel(ctx), a.Ticket, boot.Command{Argv: []string{"/bin/true"}}, io.Discard, io.Discard, nil)
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("%s: a boot was refused: %v", key, err)
		return 0
	}
	return 1
}
