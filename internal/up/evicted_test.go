package up_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// what is of class job may be started again where it ran, and goes before what is of class burst.
const evictConfig = `
fleet:
  default_quota: none
  pools: [{name: default, cap: none}]
  classes:
    - {name: job, pool: default, memory: 768MiB, reserve: fixed, reserve_fraction: 0.01, reserve_floor: 16MiB, hold_on_exit: true}
    - {name: burst, pool: default, memory: 800MiB, reserve: fixed, reserve_fraction: 0.01, reserve_floor: 16MiB, priority: 5}
`

// holder holds so many MiB from the moment that it reads how many.
const holder = `open my $in, '<', $ARGV[0] or die; while (my $mib = <$in>) { our @held = map { 'x' x 1048576 } 1 .. $mib; }`

// boots runs a holder where it was admitted, and has it hold so much.
func (s *site) boots(at *site, a *api.Admission, mib int) {
	s.t.Helper()
	fifo := filepath.Join(at.dir, fmt.Sprintf("%s-%d", a.ID, a.Epoch))
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		s.t.Fatal(err)
	}
	if err := at.runs(a, "perl", "-e", holder, fifo); err != nil {
		s.t.Fatal(err)
	}
	pipe, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { pipe.Close() })
	fmt.Fprintln(pipe, mib)
}

// asks has something admitted, on that host where one is named.
func (s *site) asks(key, class, host string, wait time.Duration) (*api.Admission, error) {
	q := api.AdmissionRequest{Key: key, Class: class}
	if host != "" {
		q.Host = &api.HostPin{ID: host, Mode: api.HostPinModeRequire}
	}
	return s.client().Admit(within(s.t, 60*time.Second), q, client.Options{Wait: client.Within(wait)})
}

// placed is asks that must be admitted.
func (s *site) placed(key, class, host string) *api.Admission {
	s.t.Helper()
	a, err := s.asks(key, class, host, 30*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

// losing is a replica with agents of 1 GiB each, whose valves stay shut for five seconds at least.
func losing(t *testing.T, ids ...string) (*site, map[string]*site) {
	s := newSite(t)
	s.verb = "server"
	s.write(evictConfig)
	s.up()
	agents := map[string]*site{}
	for _, id := range ids {
		a := agentOf(t, id, s)
		a.set("PLIMSOLL_HOST_DWELL", "5s")
		a.set("PLIMSOLL_HOST_SAMPLE_LIMITS", "20ms")
		a.set("PLIMSOLL_HOST_SAMPLE_SANDBOXES", "100ms")
		a.up()
		agents[id] = a
	}
	s.heard(len(ids))
	return s, agents
}

// evicted has a job on h1 evicted, by one of a higher priority that holds what nobody counted on,
// and returns what the job's caller sees.
func (s *site) evicted(agents map[string]*site, job *api.Admission) *api.Admission {
	s.t.Helper()
	s.boots(agents["h1"], job, 260)
	s.eventually("the job to hold what it holds", func() bool {
		h, err := s.client().Host(within(s.t, 5*time.Second), "h1")
		return err == nil && h.ResidentMB >= 250
	})
	s.boots(agents["h1"], s.placed("grows", "burst", "h1"), 750)
	var seen *api.Admission
	s.eventually("the job to be evicted", func() bool {
		a, err := s.client().Get(within(s.t, 5*time.Second), job.Key)
		if err != nil {
			s.t.Fatal(err)
		}
		seen = a
		return a.State == api.AdmissionStateEvicted
	})
	return seen
}

// TestTheEvictedComeBackThroughTheGate (T102): the caller of a real process that had to go sees
// that, and why, asks again under the same key, and is placed on another host, where it boots:
// not in place, where there is no room, though its class may start again in place.
func TestTheEvictedComeBackThroughTheGate(t *testing.T) {
	s, agents := losing(t, "h1", "h2")
	first := s.placed("job", "job", "h1")
	seen := s.evicted(agents, first)
	if !strings.HasPrefix(seen.Reason, "killed: the host had ") || seen.Epoch != first.Epoch {
		t.Errorf("its caller sees %+v", seen)
	}
	if err := agents["h1"].runs(first, "/bin/sleep", "1000"); err == nil {
		t.Error("it starts again in place by its old ticket")
	}
	second := s.placed("job", "job", "")
	if second.Host != "h2" || second.Epoch <= first.Epoch || second.ID == "" {
		t.Fatalf("asked again: %+v", second)
	}
	s.boots(agents["h2"], second, 260)
	s.eventually("it to run there", func() bool {
		a, err := s.client().Get(within(t, 5*time.Second), "job")
		return err == nil && a.State == api.AdmissionStateRunning && a.Host == "h2"
	})
	h, err := s.client().Host(within(t, 5*time.Second), "h1")
	if err != nil || len(h.Evictions) == 0 || h.Evictions[0].ID != first.ID || h.Evictions[0].By != "killed" || h.Tally.Evicted < 1 {
		t.Errorf("%+v %v", h, err)
	}
	s.empty()
}

// TestTheEvictedWait: where there is no other host its caller is told no for as long as the valve is
// shut, waits by the client's own pace, and boots there when it is open again.
func TestTheEvictedWait(t *testing.T) {
	s, agents := losing(t, "h1")
	first := s.placed("job", "job", "h1")
	s.evicted(agents, first)
	if a, err := s.asks("job", "job", "", 0); !errors.Is(err, api.HostPressure) {
		t.Errorf("at once: %+v %v", a, err)
	}
	type answer struct {
		a   *api.Admission
		err error
	}
	waits := make(chan answer, 1)
	go func() {
		a, err := s.asks("job", "job", "", 50*time.Second)
		waits <- answer{a, err}
	}()
	s.release(t, "grows")
	got := <-waits
	if got.err != nil || got.a.Host != "h1" || got.a.Epoch <= first.Epoch {
		t.Fatalf("%+v %v", got.a, got.err)
	}
	s.boots(agents["h1"], got.a, 260)
	s.eventually("it to run again", func() bool {
		a, err := s.client().Get(within(t, 5*time.Second), "job")
		return err == nil && a.State == api.AdmissionStateRunning
	})
	s.empty()
}

// TestRunSaysThatItWasEvicted (T102): whoever waits at plimsoll run for a real process that had to
// go is told so, and why, and that asking again is the remedy; not that its command failed. So is
// whoever asked the host alone.
func TestRunSaysThatItWasEvicted(t *testing.T) {
	for _, words := range [][]string{
		{"run", "--class", "job", "--key", "job"},
		{"gate", "run", "--memory", "700MiB", "--key", "job"},
	} {
		t.Run(words[0], func(t *testing.T) {
			s := newSite(t)
			s.set("PLIMSOLL_HOST_HEADROOM", "128MiB")
			s.set("PLIMSOLL_HOST_SAMPLE_LIMITS", "20ms")
			s.set("PLIMSOLL_HOST_SAMPLE_SANDBOXES", "100ms")
			s.write(evictConfig)
			s.up()
			ends := s.runHolder("job", 260, words...)
			s.boots(s, s.placed("grows", "burst", "h1"), 750)
			text, got := ends()
			if got != 75 || !strings.HasPrefix(text, "plimsoll: evicted: killed: the host had ") || !strings.Contains(text, "\ntry: again, ") {
				t.Errorf("status %d: %s", got, text)
			}
			status, metrics := s.get("/metrics")
			if status != 200 || strings.Contains(metrics, `plimsoll_host_lost_bets_total{host="h1"} 0`) {
				t.Errorf("status %d: %s", status, metrics)
			}
			wantSeries(t, metrics, `plimsoll_host_lost_bets_total{host="h1"} `, `plimsoll_host_evictions_total{host="h1",how="evicted"} 1`,
				`plimsoll_host_evictions_total{host="h1",how="kernel"} 0`, `plimsoll_host_ramping{host="h1"} 0`, `plimsoll_templates_broken_total{class="job"} 0`)
			s.release(t, "grows")
			s.empty()
		})
	}
}

// runHolder has a command run a holder of so many MiB, waits until it holds them, and returns what
// waits for the command's end.
func (s *site) runHolder(name string, mib int, words ...string) (ends func() (said string, status int)) {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	fifo := filepath.Join(s.dir, name)
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		s.t.Fatal(err)
	}
	pipe, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { pipe.Close() })
	fmt.Fprintln(pipe, mib)
	cmd, out := exec.Command(path, append(append([]string{"--data-dir", s.data}, words...), "--", "/usr/bin/perl", "-e", holder, fifo)...), new(output)
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"HOME=/"}, out, out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { defer close(over); cmd.Wait() }()
	s.t.Cleanup(func() { cmd.Process.Kill(); <-over })
	s.eventually("it to hold what it holds", func() bool {
		h, err := s.client().Host(within(s.t, 5*time.Second), "h1")
		return err == nil && h.ResidentMB >= int64(mib)-10
	})
	return func() (string, int) { <-over; return out.String(), cmd.ProcessState.ExitCode() }
}
