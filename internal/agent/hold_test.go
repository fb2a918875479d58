package agent_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
)

func held() gate.Ask {
	a := ask()
	a.HoldOnExit = true
	return a
}

// kept waits until a placement is an open reservation again.
func (r *rig) kept(id string, epoch int64) {
	r.t.Helper()
	r.eventually("the place of "+id+" to be kept", func() bool {
		reserved, _, err := r.Holds(r.t.Context(), host.Ref{ID: id, Epoch: epoch})
		return err == nil && reserved
	})
	v := r.view()
	if v.Reopened == 0 || v.Account.Reserved < gate.Need(held(), gate.WorkingSet) {
		r.t.Errorf("kept: %d reservations, %d of them again, %s", v.Reservations, v.Reopened, v.Account.Reserved)
	}
}

// hold_on_exit: a process ends, and the same ticket boots it again, as soon as whoever ran
// it knows of the end. Nobody is told an end, and replicas hear that its place is kept.
func TestATicketBootsAgainAfterTheExit(t *testing.T) {
	r := startRig(t)
	feed := r.Subscribe()
	text := r.reserveFor("a", 1, time.Minute, held())
	for i, script := range []string{"exit 3", "kill -9 $$", "echo hello"} {
		out, _, exit, err := r.run(text, shell(script))
		if err != nil || (i == 0 && exit.Status != 3) || (i == 1 && exit.Signal != "SIGKILL") || (i == 2 && out != "hello\n") {
			t.Fatalf("boot %d: %q %+v %v", i, out, exit, err)
		}
		if v := r.view(); v.Reservations != 1 || v.Reopened != 1 || len(v.Sandboxes) != 0 {
			t.Fatalf("boot %d: %d reserved, %d again, %d charged", i, v.Reservations, v.Reopened, len(v.Sandboxes))
		}
	}
	if n := r.until(feed, func(n host.News) bool { return len(n.Reopens) > 0 }); len(n.Ends) > 0 || n.Reopens[0] != (host.Ref{ID: "a", Epoch: 1}) {
		t.Errorf("told %+v", n)
	}
	// The caller's heartbeat renews it, and has a ticket minted anew.
	v := r.view().Verdict
	a, err := r.Do(t.Context(), host.Renew{ID: "a", Epoch: 1, Until: v.At + time.Minute, Incarnation: v.Incarnation})
	if err != nil || a.Denial != "" || a.Running || a.Need == 0 {
		t.Errorf("renew: %+v %v", a, err)
	}
	if _, _, _, err := r.run(r.mint("a", 1, held().Memory), shell("true")); err != nil {
		t.Error(err)
	}
	// The caller's release ends it, whatever its ticket says.
	r.release("a", 1)
	_, _, _, err = r.run(text, shell("true"))
	refused(t, err, api.TicketRejected, "released")
	r.idle()
}

// until collects news until some of it is what is waited for.
func (r *rig) until(feed *agent.Feed, ok func(host.News) bool) (all host.News) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	for !ok(all) {
		n, err := feed.Next(ctx)
		if err != nil {
			r.t.Fatalf("waited in vain; told %+v: %v", all, err)
		}
		all.Add(n)
	}
	return all
}

// T28: its heartbeats have stopped: what is kept lapses, and nothing is left of it.
func TestWhatNobodyRenewsLapses(t *testing.T) {
	r := startRig(t, func(c *agent.Config) { c.Host.BootWithin = 2 * time.Second })
	feed := r.Subscribe()
	text := r.reserveFor("a", 1, time.Minute, held())
	if _, _, _, err := r.run(text, shell("exit 1")); err != nil {
		t.Fatal(err)
	}
	r.kept("a", 1)
	if e := r.hears(feed, host.Ref{ID: "a", Epoch: 1}); e.How != host.Lapsed {
		t.Errorf("end %+v", e)
	}
	r.idle()
	_, _, _, err := r.run(text, shell("true"))
	refused(t, err, api.ReservationLapsed, "")
}

// A foreign orchestrator may see the end of its process before the agent does, and redeem
// again at once. The former connection has nothing to say of the new boot.
func TestBootByHandAgain(t *testing.T) {
	r := startRig(t)
	text := r.reserveFor("a", 1, time.Minute, held())
	first := r.redeem(text)
	for i := range 6 {
		c := startChild(t, "sleep", "1000")
		if err := first.Track(t.Context(), c.pid()); err != nil {
			t.Fatal(err)
		}
		c.Process.Kill()
		<-c.over
		second := r.redeem(text)
		other := startChild(t, "sleep", "1000")
		refused(t, first.Track(t.Context(), other.pid()), api.InvalidRequest, "redeem again")
		if i%2 == 0 {
			first.Close()
		} else if err := first.Done(t.Context(), "over"); err != nil {
			t.Errorf("the first boot is over: %v", err)
		}
		if _, charged := r.sandbox("a"); !charged {
			t.Fatal("a former connection gave the new start back")
		}
		first = second
	}
	c := startChild(t, "sleep", "1000")
	if err := first.Track(t.Context(), c.pid()); err != nil {
		t.Fatal(err)
	}
	// While it runs its ticket is a replay, and so is a second process of one boot.
	_, err := r.boot.Redeem(t.Context(), text)
	refused(t, err, api.TicketRejected, "replayed")
	other := startChild(t, "sleep", "1000")
	refused(t, first.Track(t.Context(), other.pid()), api.InvalidRequest, "tracked already")
	// A release that comes while it runs ends it for good.
	r.release("a", 1)
	r.told("a", host.Exited, "")
	r.idle()
}

// A start that is abandoned before anything was tracked keeps no place.
func TestAnAbandonedStartKeepsNothing(t *testing.T) {
	r := startRig(t)
	r.redeem(r.reserveFor("a", 1, time.Minute, held())).Close()
	r.told("a", host.Exited, "before it tracked")
	r.idle()
}

// A restarted agent knows what is kept, and keeps the place of what ended while it was
// away: that was tracked, its process is gone, and so its memory is free.
func TestPlacesAreKeptOverARestart(t *testing.T) {
	r := startRig(t)
	text := r.reserveFor("ended", 1, time.Minute, held())
	if _, _, _, err := r.run(text, shell("exit 1")); err != nil {
		t.Fatal(err)
	}
	again := r.reserveFor("ends", 1, time.Minute, held())
	c := shell("exec sleep 1000")
	c.Detach = true
	if _, _, _, err := r.run(again, c); err != nil {
		t.Fatal(err)
	}
	s, _ := r.sandbox("ends")
	r.restart(func() {
		unix.Kill(s.Process.Pid, unix.SIGKILL)
		unix.Wait4(s.Process.Pid, nil, 0, nil)
	})
	r.kept("ends", 1)
	r.kept("ended", 1)
	for id, text := range map[string]string{"ended": text, "ends": again} {
		if _, _, _, err := r.run(text, shell("true")); err != nil {
			t.Error(err)
		}
		r.release(id, 1)
	}
	r.idle()
}
