package demo

import (
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/gate"
)

// The mission's own figures, once, as a check of what gate makes of the configuration.
func TestWhatTheConfigurationComesTo(t *testing.T) {
	cases := []struct {
		budget         gate.Bytes
		committed, set int
	}{
		{4 * gate.GiB, 7, 30}, {gate.GiB, 1, 6}, {leastBudget, 1, 4}, {mostBudget, 15, 60},
	}
	for _, c := range cases {
		p := plan{budget: c.budget, dir: "/tmp/plimsoll-demo-1", run: "plimsoll-demo-1"}
		for m, want := range map[gate.Mode]int{gate.Committed: c.committed, gate.WorkingSet: c.set} {
			a, err := p.expect(m)
			if err != nil || a.room != want || a.mode != m {
				t.Errorf("%s, %s: %+v, %v, want room for %d", c.budget, m, a, err, want)
			}
		}
		if p.creates() <= c.set || p.creates() < leastBurst {
			t.Errorf("%s: %d creates do not fill the host", c.budget, p.creates())
		}
	}
}

func TestABudgetShrinksToWhatIsThere(t *testing.T) {
	for _, free := range []gate.Bytes{64 * gate.GiB, 6 * gate.GiB, 3 * gate.GiB, 2 * gate.GiB, 1600 * gate.MiB} {
		p := plan{budget: 4 * gate.GiB, dir: "/tmp/plimsoll-demo-1"}
		if err := p.shrink(free, "machine"); err != nil {
			t.Errorf("%s free: %v", free, err)
			continue
		}
		if p.uses() > free || p.budget < leastBudget {
			t.Errorf("%s free: a budget of %s uses %s", free, p.budget, p.uses())
		}
		if said := p.asked > 0; said != (p.budget < 4*gate.GiB) {
			t.Errorf("%s free: a budget of %s, asked for %s", free, p.budget, p.asked)
		}
	}
	p := plan{budget: 4 * gate.GiB, dir: "/tmp/plimsoll-demo-1"}
	if err := p.shrink(512*gate.MiB, "cgroup:/small"); err == nil || !strings.Contains(err.Error(), "cgroup:/small") {
		t.Errorf("512 MiB free: %v", err)
	}
}

func TestASmallerBudgetIsSaid(t *testing.T) {
	var out strings.Builder
	s := &screen{out: &out, style: blocks()}
	p := plan{budget: 4 * gate.GiB, dir: "/tmp/plimsoll-demo-1", run: "plimsoll-demo-1"}
	if err := p.shrink(3*gate.GiB, "machine"); err != nil {
		t.Fatal(err)
	}
	s.introduce(p)
	if !strings.Contains(out.String(), "too little memory for a budget of 4096 MiB") {
		t.Errorf("%s", &out)
	}
}

func TestBudgetsOnTheCommandLine(t *testing.T) {
	for text, want := range map[string]gate.Bytes{"4GiB": 4 * gate.GiB, "768MiB": leastBudget, "1.5GiB": 1536 * gate.MiB} {
		if got, err := parseBudget(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "4", "767MiB", "9GiB", "-4GiB", "x", "4GiB\n"} {
		if got, err := parseBudget(bad); err == nil {
			t.Errorf("%q became %s", bad, got)
		}
	}
}

func TestSizesOfSandboxes(t *testing.T) {
	var m mebibytes
	if err := m.Set("40MiB"); err != nil || m.String() != "40MiB" {
		t.Errorf("%s, %v", m.String(), err)
	}
	for _, bad := range []string{"", "MiB", "40", "40GiB", "-1MiB", "9999999999MiB"} {
		if err := m.Set(bad); err == nil {
			t.Errorf("%q became %s", bad, m.String())
		}
	}
}

func TestMetricsAreRead(t *testing.T) {
	m, err := parseMetrics(strings.NewReader(`# HELP plimsoll_refusals_total Refusals, by reason.
# TYPE plimsoll_refusals_total counter
plimsoll_refusals_total{class="a b",reason="no_capacity"} 33
plimsoll_refusals_total{class="",reason="pool_full"} 2
plimsoll_refusals_total_of_others 5
plimsoll_host_free_bytes{host="committed"} 4.294967296e+09
`))
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := m.sum("plimsoll_refusals_total", `reason="no_capacity"`); n != 33 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if n, _ := m.sum("plimsoll_refusals_total", ""); n != 35 {
		t.Errorf("%d", n)
	}
	if n, _ := m.sum("plimsoll_host_free_bytes", ""); size(n) != 4*gate.GiB {
		t.Errorf("%d", n)
	}
	if _, ok := m.sum("plimsoll_host_reserved_bytes", ""); ok {
		t.Error("a gauge that is not there was found")
	}
	if _, err := parseMetrics(strings.NewReader("plimsoll_x many\n")); err == nil {
		t.Error("what is no number was taken")
	}
}

func TestAForgedTicketDiffersInItsMAC(t *testing.T) {
	for _, text := range []string{"plm1.aaaaaaaaaA", "plm1.aaaaaaaaAA", "plm1.aaaaaaaa_-"} {
		got := forge(text)
		if got == text || len(got) != len(text) || got[:len(got)-2] != text[:len(text)-2] {
			t.Errorf("%s became %s", text, got)
		}
	}
}

func TestALongTemporaryDirectoryIsAvoided(t *testing.T) {
	if got := place("/var/tmp"); got != "/var/tmp" {
		t.Errorf("%s", got)
	}
	if got := place("/" + strings.Repeat("x", 60)); got != "/tmp" {
		t.Errorf("%s", got)
	}
}
