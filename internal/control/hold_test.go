package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// With hold_on_exit a sandbox may be started again under the same admission: its slot and its
// memory stay its own while its caller's heartbeat says so, and no longer.
func TestHoldOnExit(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		a := r.admit("k", "keeper")
		exits := func() {
			synctest.Wait()
			r.hosts[0].step(host.Done{ID: a.ID, Epoch: a.Epoch, Reason: "exit 1"})
			synctest.Wait()
		}
		r.boot(a)
		for range 5 {
			exits()
			r.wantHeld(1, 1, 0)
			if row := r.row("k"); row.State != pool.Admitted || row.Epoch != a.Epoch {
				r.t.Fatalf("it ended, and the store has it %s at epoch %d", row.State, row.Epoch)
			}
			time.Sleep(40 * time.Second)
			out, err := heartbeat(r)
			got := r.want("yes", out, err)
			if got.out.Admission.HeartbeatMS == 0 {
				r.t.Error("nobody says how often to keep it")
			}
			time.Sleep(40 * time.Second)
			if denial := r.boot(*got.out.Admission); denial != "" {
				r.t.Fatalf("started again: %s", denial)
			}
			synctest.Wait()
			r.wantHeld(1, 0, 1)
		}
		exits()
		time.Sleep(2 * time.Minute)
		if state := r.row("k").State; state != pool.Expired {
			r.t.Errorf("nobody kept it, and it is %s", state)
		}
		r.letGo()
	})
}

// A heartbeat that meets the exit, before the store knows of it, keeps the place as well.
func TestHoldOnExitUnseen(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		a := r.admit("k", "keeper")
		r.boot(a)
		synctest.Wait()
		h := r.hosts[0]
		h.set(func() { h.mute = true })
		h.step(host.Done{ID: a.ID, Epoch: a.Epoch, Reason: "exit 1"})
		out, err := heartbeat(r)
		if got := r.want("running", out, err); got.out.Admission.Ticket == "" {
			r.t.Error("kept for a restart, and without a ticket")
		}
		time.Sleep(59 * time.Second)
		r.wantHeld(1, 1, 0)
		r.letGo()
	})
}
