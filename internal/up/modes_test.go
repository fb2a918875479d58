package up_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// TestOneHostOnCommitted is a fleet of three agents, one of them in mode committed, that is filled
// with real processes. One command lays the one beside the others: on a host of 1,080 MiB with 128
// of headroom 3 of 256 MiB, which hold 12 MB each, against 7.
func TestOneHostOnCommitted(t *testing.T) {
	s := newSite(t)
	s.verb = "server"
	s.write(learnConfig)
	s.up()
	agents := map[string]*site{}
	for _, id := range []string{"h1", "h2", "h3"} {
		agents[id] = agentOf(t, id, s)
	}
	agents["h2"].set("PLIMSOLL_HOST_MODE", "committed")
	for _, a := range agents {
		a.set("PLIMSOLL_HOST_SAMPLE_SANDBOXES", "50ms")
		a.set("PLIMSOLL_HOST_BUDGET", "1080MiB")
		a.up()
	}
	s.heard(len(agents))
	booted := s.fill(agents)
	if booted["h1"] != 7 || booted["h2"] != 3 || booted["h3"] != 7 {
		t.Errorf("booted %v", booted)
	}
	var got api.ModeComparison
	s.eventually("them to hold what they hold", func() bool {
		out, err := s.plimsoll("mode", "compare", "-o", "json")
		if err != nil {
			t.Fatal(err, out)
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Sides) != 2 {
			t.Fatalf("%v: %s", err, out)
		}
		return got.Sides[0].Now.ResidentMB >= 8*3 && got.Sides[1].Now.ResidentMB >= 8*7 && got.Sides[0].Mean != nil && got.Sides[1].Mean != nil
	})
	committed, working := &got.Sides[0], &got.Sides[1]
	if committed.Mode != "committed" || committed.Hosts != 1 || committed.Now.Sandboxes != 3 || committed.Now.CommittedMB != 768 || !near(committed.Now.PromisedMB, 768) {
		t.Errorf("%+v", committed)
	}
	if working.Mode != "working-set" || working.Hosts != 2 || working.Now.Sandboxes != 7 || working.Now.CommittedMB != 7*256 || !near(working.Now.PromisedMB, 7*128) {
		t.Errorf("%+v", working)
	}
	// On the committed host the other mode would have room for four more, and on the others none.
	if !near(committed.Now.WouldOfferMB, 1080-128-3*128) || committed.WouldPlace < 1 || working.Now.WouldOfferMB != 0 || working.WouldRefuse != 2*4 || working.WouldPlace != 0 {
		t.Errorf("what the other mode would do: %+v; %+v", committed, working)
	}
	if r := working.Now.ResidentRatio; r == nil || *r <= 0 || *r > 0.5 || committed.Admitted != 3 || working.Admitted != 14 || working.LeastMS <= 0 {
		t.Errorf("%+v", working)
	}
	out, err := s.plimsoll("mode", "compare")
	t.Logf("plimsoll mode compare\n%s", out)
	for _, line := range []string{"A HOST, MiB", "COMMITTED", "WORKING-SET", "sandboxes", "3.0", "7.0"} {
		if err != nil || !strings.Contains(out, line) {
			t.Errorf("%v: %q is missing", err, line)
		}
	}
	s.empty()
}

// heard waits until so many hosts take what comes.
func (s *site) heard(hosts int) {
	s.t.Helper()
	s.eventually("all hosts to be heard", func() bool {
		list, err := s.client().Admittable(within(s.t, 5*time.Second), "")
		if err != nil {
			return false
		}
		return len(list.Hosts) == hosts && !slices.ContainsFunc(list.Hosts, func(h api.Admittable) bool { return !h.Candidate })
	})
}

// near allows for what a sample rounds and skews.
func near(mb, want int64) bool { return mb >= want-8 && mb <= want+8 }

// empty ends all that runs.
func (s *site) empty() {
	s.t.Helper()
	c := s.client()
	list, err := c.Admissions(within(s.t, 10*time.Second), api.ListAdmissionsParams{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, a := range list.Admissions {
		if _, err := c.Release(within(s.t, 10*time.Second), a.Key); err != nil {
			s.t.Error(err)
		}
	}
	s.eventually("all to be empty", func() bool {
		hosts, err := c.Hosts(within(s.t, 5*time.Second))
		if err != nil {
			return false
		}
		for _, h := range hosts.Hosts {
			if h.SandboxCount > 0 || h.Reservations > 0 {
				return false
			}
		}
		return true
	})
}

// fill boots processes wherever they are admitted until the fleet says no, three times.
func (s *site) fill(agents map[string]*site) map[string]int {
	s.t.Helper()
	booted, noes := map[string]int{}, 0
	for i := 0; noes < 3; i++ {
		a, err := s.client().Admit(within(s.t, 20*time.Second), api.AdmissionRequest{Key: fmt.Sprint("f", i), Class: "small"}, client.Options{Wait: client.Once})
		switch {
		case errors.Is(err, api.NoCapacity):
			noes++
			continue
		case err != nil:
			s.t.Fatal(err)
		}
		if err := agents[a.Host].runs(a, holdsForAWhile...); err != nil {
			s.t.Fatal(err)
		}
		booted[a.Host]++
	}
	return booted
}
