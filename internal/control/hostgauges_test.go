package control_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pressure"
)

// A host counts who had to go, by how, and what was read again of files; a machine whose kernel
// does not count that has no such figure.
func TestHostCounters(t *testing.T) {
	view := host.View{Refaults: 7, AllRefaults: host.Counter{N: 99, Known: true}, Tally: host.Tally{Evicted: 2, WouldEvict: 3, Killed: 1}}
	r := prometheus.NewRegistry()
	r.MustRegister(control.HostGauges("h1", func(context.Context) (host.View, error) { return view, nil }))
	const head = `# HELP plimsoll_host_evictions_total Sandboxes that had to go because the host ran out of memory, since its agent started: evicted, killed by the kernel, or only told in a dry-run.
# TYPE plimsoll_host_evictions_total counter
plimsoll_host_evictions_total{host="h1",how="dry-run"} 3
plimsoll_host_evictions_total{host="h1",how="evicted"} 2
plimsoll_host_evictions_total{host="h1",how="kernel"} 1
# HELP plimsoll_host_file_refaults_total Pages of files that were read again soon after they had been dropped for want of memory: of sandboxes with a cgroup, since the agent started, and of the whole machine, since it did. Absent for a machine whose kernel does not count them.
# TYPE plimsoll_host_file_refaults_total counter
`
	const machine, sandboxes = "plimsoll_host_file_refaults_total{host=\"h1\",of=\"machine\"} 99\n", "plimsoll_host_file_refaults_total{host=\"h1\",of=\"sandboxes\"} 7\n"
	names := []string{"plimsoll_host_evictions_total", "plimsoll_host_file_refaults_total"}
	if err := testutil.GatherAndCompare(r, strings.NewReader(head+machine+sandboxes), names...); err != nil {
		t.Error(err)
	}
	view.AllRefaults.Known = false
	if err := testutil.GatherAndCompare(r, strings.NewReader(head+sandboxes), names...); err != nil {
		t.Error(err)
	}
}

// What docs/operating/memory.md tells to watch is there to be watched: lost bets, the ramp after an
// out-of-memory kill, and stalls, which a kernel without them does not say.
func TestWatchedGauges(t *testing.T) {
	view := host.View{Reading: pressure.Reading{PSI: true, Some: 1250, Full: 75}, RampNext: 1, Tally: host.Tally{Lost: 4}}
	r := prometheus.NewRegistry()
	r.MustRegister(control.HostGauges("h1", func(context.Context) (host.View, error) { return view, nil }))
	lost := `# HELP plimsoll_host_lost_bets_total Times that a host was about to run out of memory, since its agent started: what it promised was asked of it all at once.
# TYPE plimsoll_host_lost_bets_total counter
plimsoll_host_lost_bets_total{host="h1"} 4
`
	stalls := `# HELP plimsoll_host_psi_percent Time in which some of what runs on a host, or all of it (full), stalled for want of memory, of the last second or by avg10, whichever is more: what the valve goes by. Absent where the kernel does not say.
# TYPE plimsoll_host_psi_percent gauge
plimsoll_host_psi_percent{host="h1",stalled="full"} 0.75
plimsoll_host_psi_percent{host="h1",stalled="some"} 12.5
`
	ramp := `# HELP plimsoll_host_ramping 1 while a host promises little, and more by steps, because the kernel has killed for want of its memory.
# TYPE plimsoll_host_ramping gauge
plimsoll_host_ramping{host="h1"} `
	names := []string{"plimsoll_host_lost_bets_total", "plimsoll_host_psi_percent", "plimsoll_host_ramping"}
	if err := testutil.GatherAndCompare(r, strings.NewReader(lost+stalls+ramp+"1\n"), names...); err != nil {
		t.Error(err)
	}
	view.Reading.PSI, view.RampNext = false, 0
	if err := testutil.GatherAndCompare(r, strings.NewReader(lost+ramp+"0\n"), names...); err != nil {
		t.Error(err)
	}
}
