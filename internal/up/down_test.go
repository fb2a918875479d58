package up_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

// The rows of the table of docs/when-it-is-down.md that need processes of their own.

// TestAllReplicasDown (row: all replicas): unexpired tickets redeem on their host, anything else
// waits or takes a bypass; what runs is untouched, and afterwards nothing is lost, the bypass is
// in the audit, and what it let in is shown and stopped by nobody (T55, T73).
func TestAllReplicasDown(t *testing.T) {
	s := newSite(t)
	s.verb = "server"
	s.write(wireConfig)
	s.up()
	a := agentOf(t, "h7", s)
	a.up()
	runs, waits := s.admit("runs"), s.admit("waits")
	if err := a.runs(runs, "/bin/sleep", "1000"); err != nil {
		t.Fatal(err)
	}
	s.kill()
	if err := a.runs(waits, "/bin/sleep", "1000"); err != nil {
		t.Error("what was promised does not boot with no replica there:", err)
	}
	ctx := within(t, 60*time.Second)
	small := boot.Ask{MemoryMB: 16, Key: "night-shift"}
	if _, err := a.boot().Unticketed(ctx, small); !errors.Is(err, api.TicketRejected) {
		t.Errorf("without a ticket and without a bypass: %v", err)
	}
	if _, err := a.boot().SetBypass(ctx, time.Hour, "no replica is left"); err != nil {
		t.Fatal(err)
	}
	sleeps := boot.Command{Argv: []string{"/bin/sleep", "1000"}, Detach: true}
	if _, err := a.boot().RunUnticketed(ctx, small, sleeps, io.Discard, io.Discard, nil); err != nil {
		t.Fatal(err)
	}
	a.kill() // an agent's restart ends neither the bypass nor what it let in
	a.up()
	if b, err := a.boot().Bypass(ctx); err != nil || !b.Active || b.Booted != 1 {
		t.Errorf("after a restart of the agent: %+v %v", b, err)
	}
	s.up()
	a.eventually("the bypass to be in the audit", func() bool {
		deeds, err := s.client().Audit(ctx, 10)
		if err != nil {
			return false
		}
		for _, d := range deeds.Deeds {
			if strings.Contains(d.What, "bypass --hosts h7 --for 1h0m0s") && d.Reason == "no replica is left" {
				return true
			}
		}
		return false
	})
	found, err := s.client().Reconcile(ctx, api.ReconcileRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var shown bool
	for _, f := range found.Findings {
		shown = shown || f.What == "unticketed" && f.Key == "night-shift" && f.Host == "h7" && !f.Mended
	}
	h, err := s.client().Host(ctx, "h7")
	if err != nil || len(h.Sandboxes) != 3 || !shown || h.Bypass == nil {
		t.Errorf("%+v %v; found %+v", h, err, found.Findings)
	}
	if b, err := s.client().BypassHost(ctx, "h7", 0, "it is over"); err != nil || b.Active {
		t.Errorf("%+v %v", b, err)
	}
	for _, sb := range h.Sandboxes {
		if err := syscall.Kill(int(sb.PID), syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	a.eventually("what it let in to be free again", func() bool {
		h, err := s.client().Host(ctx, "h7")
		return err == nil && len(h.Sandboxes) == 0
	})
}

// TestModeShadowUnderLoad takes Plimsoll out and puts it back while creates come: between the
// answer to the one and the question of the other none is refused, none is lost by the switch,
// the counts are true afterwards, and a host over its line admits nothing until it is below.
func TestModeShadowUnderLoad(t *testing.T) {
	s := newSite(t)
	s.verb = "server"
	s.write(strings.Replace(wireConfig, "cap: none", "cap: 2", 1))
	s.up()
	a := agentOf(t, "h7", s)
	a.set("PLIMSOLL_HOST_BUDGET", "192MiB") // less 128 of headroom: four of 16 MiB
	a.up()
	c, ctx := s.client(), within(t, 90*time.Second)
	for _, key := range []string{"a", "b"} {
		s.admit(key)
	}
	if _, err := c.Admit(ctx, api.AdmissionRequest{Key: "c", Class: "small"}, client.Options{Wait: client.Once}); !errors.Is(err, api.PoolFull) {
		t.Fatalf("at the cap: %v", err)
	}
	order := func(m api.ModeRequestMode) *api.ModeReport {
		t.Helper()
		report, err := c.SetMode(ctx, api.ModeRequest{Mode: m, Scope: "all", Reason: "a test"})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	for _, h := range order(api.ModeRequestModeShadow).Hosts {
		if h.Enforcement != api.EnforcementShadow || h.Untold {
			t.Errorf("%+v", h)
		}
	}
	var load sync.WaitGroup
	for caller := range 4 {
		load.Go(func() {
			for i := range 4 {
				if err := createAndBoot(ctx, s, a, fmt.Sprintf("load-%d-%d", caller, i)); err != nil {
					t.Errorf("refused while in shadow: %v", err)
				}
			}
		})
	}
	load.Wait()
	for _, h := range order(api.ModeRequestModeEnforce).Hosts {
		if h.Enforcement != api.EnforcementEnforce || h.Untold {
			t.Errorf("%+v", h)
		}
	}
	h, err := c.Host(ctx, "h7")
	if err != nil || h.AdmittableMB != 0 || len(h.Sandboxes) != 16 {
		t.Errorf("over its line: %+v %v", h, err)
	}
	pools, err := c.Pools(ctx)
	if err != nil || pools.Pools[0].Busy < 16 || pools.Pools[0].Busy > 18 { // a and b may have lapsed
		t.Errorf("%+v %v", pools, err)
	}
	if _, err := c.Admit(ctx, api.AdmissionRequest{Key: "c", Class: "small"}, client.Options{Wait: client.Once}); !errors.Is(err, api.PoolFull) {
		t.Errorf("back in force: %v", err)
	}
	list, err := c.Admissions(ctx, api.ListAdmissionsParams{})
	if err != nil {
		t.Fatal(err)
	}
	for _, adm := range list.Admissions {
		if _, err := c.Release(ctx, adm.Key); err != nil {
			t.Error(err)
		}
	}
	a.eventually("all to be free again", func() bool {
		h, err := c.Host(ctx, "h7")
		return err == nil && len(h.Sandboxes) == 0 && h.Reservations == 0 && h.AdmittableMB > 0
	})
	if got := s.admit("d"); got.Enforcement != "" || got.WouldRefuse != nil {
		t.Errorf("%+v", got)
	}
}

func createAndBoot(ctx context.Context, s, a *site, key string) error {
	adm, err := s.client().Admit(ctx, api.AdmissionRequest{Key: key, Class: "small"}, client.Options{Wait: client.Once})
	if err != nil {
		return fmt.Errorf("create %s: %w", key, err)
	}
	cmd := boot.Command{Argv: []string{"/bin/sleep", "1000"}, Detach: true}
	if _, err = a.boot().Run(ctx, adm.Ticket, cmd, io.Discard, io.Discard, nil); err != nil {
		return fmt.Errorf("boot %s: %w", key, err)
	}
	return nil
}
