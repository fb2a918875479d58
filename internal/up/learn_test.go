package up_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

const learnConfig = `
fleet:
  default_quota: none
  pools: [{name: default, cap: none}]
  classes: [{name: small, pool: default, memory: 256MiB, reserve_floor: 128MiB}]
`

// holdsForAWhile is a process that holds 12 MB and more until it is stopped.
var holdsForAWhile = []string{"/bin/sh", "-c", `x=$(head -c 12000000 /dev/zero | tr '\0' x); sleep 1000; echo ${#x}`}

// TestLearnedReserve is a class of real processes, on a host whose agent is a process of its own:
// its sandboxes are charged by the class's rule until 30 runs ended, and the next ones by what
// those showed, so that more of them fit. Kills of the agent and of the replica on the way cost
// no run that had ended.
func TestLearnedReserve(t *testing.T) {
	s := newSite(t)
	s.verb = "server"
	s.write(learnConfig)
	s.up()
	a := agentOf(t, "h7", s)
	a.set("PLIMSOLL_HOST_SAMPLE_LIMITS", "20ms")
	a.set("PLIMSOLL_HOST_SAMPLE_SANDBOXES", "50ms")
	a.up()
	prior := s.admit("first")
	s.release(t, "first")
	before := s.fits(t)
	for round := range 6 {
		s.run5(t, a, round)
		switch round {
		case 1:
			a.kill()
			a.up()
		case 3:
			s.kill()
			s.up()
		}
	}
	var learned api.TemplateStanding
	s.eventually("30 runs to be learned from", func() bool {
		list, err := s.client().Classes(within(t, 10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		learned = list.Classes[0].Templates[0]
		return learned.State == api.ReserveStateLearned
	})
	if learned.Runs != 30 || learned.ResidentRatio == nil || *learned.ResidentRatio <= 0 || *learned.ResidentRatio > 0.5 {
		t.Errorf("%+v", learned)
	}
	next := s.admit("next")
	s.release(t, "next")
	if prior.ChargeMB != 128 || next.ChargeMB != learned.ReserveMB || next.ChargeMB < 8 || next.ChargeMB > 64 {
		t.Errorf("charged %d MiB before, %d MiB afterwards: %+v", prior.ChargeMB, next.ChargeMB, learned)
	}
	after := s.fits(t)
	t.Logf("charged %d MiB, then %d; %d fit, then %d; %+v", prior.ChargeMB, next.ChargeMB, before, after, learned)
	if before < 5 || after < 2*before {
		t.Errorf("%d fit before, %d afterwards", before, after)
	}
}

// run5 has five of them run beside each other until each was measured, and ends them.
func (s *site) run5(t *testing.T, at *site, round int) {
	t.Helper()
	var all sync.WaitGroup
	keys := make([]string, 5)
	for i := range keys {
		keys[i] = fmt.Sprintf("r%d-%d", round, i)
		all.Go(func() {
			a, err := s.client().Admit(within(t, 30*time.Second), api.AdmissionRequest{Key: keys[i], Class: "small"}, client.Options{Wait: 20 * time.Second})
			if err != nil {
				t.Error(err)
				return
			}
			if err := at.runs(a, holdsForAWhile...); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.eventually("them to hold what they hold", func() bool {
		h, err := s.client().Host(within(t, 5*time.Second), "h7")
		unmeasured := func(b api.Sandbox) bool { return b.ResidentMB < 8 }
		return err == nil && len(h.Sandboxes) == len(keys) && !slices.ContainsFunc(h.Sandboxes, unmeasured)
	})
	for _, key := range keys {
		s.release(t, key)
	}
	s.eventually("them to end", func() bool {
		h, err := s.client().Host(within(t, 5*time.Second), "h7")
		return err == nil && len(h.Sandboxes) == 0
	})
}

func (s *site) release(t *testing.T, key string) {
	t.Helper()
	if _, err := s.client().Release(within(t, 20*time.Second), key); err != nil {
		t.Errorf("release %s: %v", key, err)
	}
}

// fits is how many are admitted until the host says no, and lets go of them.
func (s *site) fits(t *testing.T) (n int) {
	t.Helper()
	c := s.client()
	for ; n < 100; n++ {
		if _, err := c.Admit(within(t, 10*time.Second), api.AdmissionRequest{Key: fmt.Sprintf("fit-%d", n), Class: "small"}, client.Options{Wait: client.Once}); err != nil {
			break
		}
	}
	for i := range n {
		s.release(t, fmt.Sprintf("fit-%d", i))
	}
	return n
}

// TestTheBannerSaysWhatIsInForce: what was learned is what the next one is charged, and a host in
// shadow enforces nothing.
func TestTheBannerSaysWhatIsInForce(t *testing.T) {
	s := newSite(t)
	s.set("PLIMSOLL_HOST_ID", "h7")
	s.set("PLIMSOLL_HOST_SAMPLE_SANDBOXES", "50ms")
	s.write(learnConfig)
	s.up()
	for round := range 6 {
		s.run5(t, s, round)
	}
	var mb int64
	s.eventually("30 runs to be learned from", func() bool {
		list, err := s.client().Classes(within(t, 10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		learned := list.Classes[0].Templates[0]
		mb = learned.ReserveMB
		return learned.State == api.ReserveStateLearned
	})
	s.stop()
	s.write(learnConfig + "host: {enforcement: shadow}\n")
	s.up()
	for _, want := range []string{
		"host      h7, working-set admission, in shadow, nothing is refused for want of room, intake open",
		fmt.Sprintf("stateless, charged at least %d MiB: room for %d\n", mb, 768/mb),
	} {
		if !strings.Contains(s.stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, s.stdout)
		}
	}
}
