package control_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/plimsoll-project/plimsoll/pool"
)

// TestMostHostsSilent: when more than half of the hosts fall silent that is told, by the log,
// the list of hosts and a metric, until half of them are heard again; and so is for how long
// nobody has heard each. What was shut down an hour ago, and holds nothing, does not count.
func TestMostHostsSilent(t *testing.T) {
	bubble(t, append(twoHosts(8192), &fakeHost{id: "h3", budget: 8 << 30}), func(r *rig) {
		for _, h := range r.hosts {
			_, err := r.memory.Register(r.t.Context(), h.id)
			r.must(err)
		}
		told := func(deaf bool, silent time.Duration) {
			r.t.Helper()
			list, err := r.g.Hosts(r.t.Context())
			r.must(err)
			const help = "# HELP plimsoll_hosts_mostly_silent 1 while more than half of the hosts are silent, so that none is taken for dead: an alarm. " +
				"Those that are gone for good have to be buried.\n# TYPE plimsoll_hosts_mostly_silent gauge\nplimsoll_hosts_mostly_silent "
			gauge := map[bool]string{true: "1\n", false: "0\n"}[deaf]
			if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(help+gauge), "plimsoll_hosts_mostly_silent"); err != nil {
				t.Error(err)
			}
			// A lease is written every 10 s, or later.
			if ms := list.Hosts[2].SilentMS; list.MostlySilent != deaf || list.Hosts[2].ID != "h3" || ms < silent.Milliseconds() || ms > (silent+time.Minute).Milliseconds() {
				t.Errorf("mostly silent: %v; h3 is silent for %d ms, want %v and %v", list.MostlySilent, ms, deaf, silent)
			}
		}
		time.Sleep(time.Minute)
		told(false, 0)
		for _, h := range r.hosts[1:] {
			h.set(func() { h.deaf = true })
		}
		time.Sleep(2 * time.Minute)
		told(true, 90*time.Second)
		if !strings.Contains(r.log.String(), "more than half of the hosts are silent") {
			t.Error("the log does not say so")
		}
		time.Sleep(pool.HostLeft)
		told(false, pool.HostLeft+90*time.Second)
		if !strings.Contains(r.log.String(), "at least half of the hosts are heard again") {
			t.Error("the log does not say so")
		}
	})
}
