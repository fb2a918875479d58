package up_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A real process that somebody started past the gate, and that the file's pattern finds, is listed
// and alarmed by a real agent, and stopped where the file says so; one that keeps state is not.
func TestOutOfGateIsStopped(t *testing.T) {
	s, port := newSite(t), freePort(t)
	s.verb = "agent"
	s.set("PLIMSOLL_METRICS", fmt.Sprintf("127.0.0.1:%d", port))
	mark := fmt.Sprintf("past-the-gate-%d", os.Getpid())
	s.write(fmt.Sprintf(`
host:
  boot_within: 5s
  stop_grace: 1s
  out_of_gate: stop
  observe: {match: %s, stateful_match: keeps-state}
`, mark))
	s.up()
	start := func(name string) (int, chan struct{}) {
		c := exec.Command("sleep", "1000")
		c.Args[0] = name
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		go func() { defer close(over); c.Wait() }()
		t.Cleanup(func() { c.Process.Kill(); <-over })
		return c.Process.Pid, over
	}
	plain, over := start(mark)
	base, _ := start(mark + "-keeps-state")
	s.eventually("both to be listed", func() bool {
		return strings.Contains(s.metrics(port), "\n"+`plimsoll_host_out_of_gate{host="h1"} 2`)
	})
	shown, err := s.boot().Show(t.Context())
	if err != nil || shown.OutOfGateCount != 2 || len(shown.Sandboxes) != 2 || shown.Sandboxes[0].State != "unticketed" {
		t.Errorf("%+v, %v", shown, err)
	}
	select {
	case <-over:
	case <-time.After(40 * time.Second):
		t.Fatalf("process %d runs on", plain)
	}
	s.eventually("one to be left", func() bool {
		return strings.Contains(s.metrics(port), "\n"+`plimsoll_host_out_of_gate{host="h1"} 1`)
	})
	if err := unix.Kill(base, 0); err != nil {
		t.Errorf("what keeps state was stopped: %v", err)
	}
	if said := s.stderr.String(); strings.Count(said, "runs out of gate: no ledger") != 2 || strings.Count(said, "is stopped, as host.out_of_gate says") != 1 {
		t.Error(said)
	}
	if status := s.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
