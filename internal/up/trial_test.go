package up_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/cli"
)

// memberPID is the process of one member, as the screen has it.
func (s *site) memberPID(name string) int {
	s.t.Helper()
	m := regexp.MustCompile(`(?m)^  ` + name + ` +pid (\d+)`).FindStringSubmatch(s.stdout.String())
	if m == nil {
		s.t.Fatalf("no %s in\n%s", name, s.stdout)
	}
	pid, _ := strconv.Atoi(m[1])
	return pid
}

// TestTrial brings a whole fleet up on this machine. What is created lands on several hosts;
// a replica and an agent are killed, and it goes on; and when the first process is killed
// nothing is left of any.
func TestTrial(t *testing.T) {
	f := newFleet(t)
	s := newSite(t)
	s.bare()
	s.set("PLIMSOLL_HOST_BUDGET", "1536MiB")
	s.set("PLIMSOLL_KEYS", f.keys)
	s.args = []string{"--agents", "3", "--replicas", "2", "--store", f.url}
	s.up()
	pids := map[string]int{}
	for _, name := range []string{"replica-1", "replica-2", "host-1", "host-2", "host-3"} {
		pids[name] = s.memberPID(name)
	}
	hosts := map[string]int{}
	c := s.trialClient("replica-1")
	for i := range 9 {
		hosts[s.create(c, fmt.Sprint("a", i)).Host]++
	}
	if len(hosts) < 2 {
		t.Errorf("all landed on one: %v", hosts)
	}
	if out, err := s.plimsoll("run", "--class", "small", "--", "echo", "hello"); err != nil || !strings.Contains(out, "hello") {
		t.Errorf("%v %s", err, out)
	}
	unix.Kill(pids["replica-1"], unix.SIGKILL)
	unix.Kill(pids["host-3"], unix.SIGKILL)
	s.eventually("word of what ended", func() bool {
		out := s.stdout.String()
		return strings.Contains(out, "replica-1 has ended") && strings.Contains(out, "host-3 has ended")
	})
	c = s.trialClient("replica-2")
	for _, key := range []string{"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"} {
		if a, err := c.Get(within(t, 10*time.Second), key); err == nil && a.Host != "host-3" {
			if _, err := c.Release(within(t, 10*time.Second), key); err != nil {
				t.Error(key, err)
			}
		}
	}
	if a := s.create(c, "b"); a.Host == "host-3" {
		t.Error("a create landed on a host that is gone")
	}
	s.kill()
	s.eventually("every process to end", func() bool {
		for _, pid := range pids {
			if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && strings.HasSuffix(exe, "/plimsoll") {
				return false
			}
		}
		return true
	})
}

// TestTrialAgain: what an operator did to a host does not keep the fleet from coming up again. A
// cordoned one is as it was, a buried one joins anew.
func TestTrialAgain(t *testing.T) {
	f := newFleet(t)
	s := newSite(t)
	s.bare()
	s.set("PLIMSOLL_HOST_BUDGET", "1536MiB")
	s.set("PLIMSOLL_KEYS", f.keys)
	s.args = []string{"--agents", "3", "--replicas", "1", "--store", f.url}
	s.up()
	ctx, c := within(t, 30*time.Second), s.trialClient("replica-1")
	for _, deed := range []func() error{
		func() error { _, err := c.CordonHost(ctx, "host-1", ""); return err },
		func() error { _, err := c.DrainHost(ctx, "host-2", "test"); return err },
		func() error { _, err := c.BuryHost(ctx, "host-2", "test"); return err },
	} {
		if err := deed(); err != nil {
			t.Fatal(err)
		}
	}
	if status := s.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	s.up()
	list, err := s.trialClient("replica-1").Hosts(ctx)
	if err != nil || len(list.Hosts) != 3 || list.Hosts[0].State != api.HostStateCordoned || list.Hosts[1].State != api.HostStateActive {
		t.Errorf("%+v %v", list, err)
	}
}

// TestTrialRefused: what cannot be brought up is said, with what to do.
func TestTrialRefused(t *testing.T) {
	s := newSite(t)
	s.args = []string{"--agents", "2", "--replicas", "2"}
	s.fails("--store postgres://")
	if got := s.cmd.ProcessState.ExitCode(); got != cli.ExitUsage {
		t.Errorf("exit status %d, want %d", got, cli.ExitUsage)
	}
	for _, n := range []string{"65", "0", "-1"} {
		s.args = []string{"--agents", n}
		s.fails("1 to 64")
	}
}

// trialClient asks one replica of a fleet by its address on the screen.
func (s *site) trialClient(name string) *client.Client {
	s.t.Helper()
	m := regexp.MustCompile(`(?m)^  ` + name + ` +pid \d+ +API (\S+)`).FindStringSubmatch(s.stdout.String())
	token, err := os.ReadFile(s.data + "/replica-1/token")
	if m == nil || err != nil {
		s.t.Fatalf("%v in\n%s", err, s.stdout)
	}
	c, err := client.New(m[1], strings.TrimSpace(string(token)))
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *site) create(c *client.Client, key string) *api.Admission {
	s.t.Helper()
	a, err := c.Admit(within(s.t, 40*time.Second), api.AdmissionRequest{Key: key, Class: "small"}, client.Options{Wait: 30 * time.Second})
	if err != nil {
		s.t.Fatal(key, err)
	}
	return a
}
