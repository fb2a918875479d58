package control_test

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// TestAReplacementWaitsForTheOldOneToExit is T63: a sandbox is told to stop and takes ten
// seconds over it, on a host that is full. Until it has exited it is charged, by its host and in
// the store: another of its size, another consumer's and one under its own key all wait, and
// the first of them starts at the exit and not before.
func TestAReplacementWaitsForTheOldOneToExit(t *testing.T) {
	hosts := oneHost(256 + 1024) // room for one of 1 GiB
	hosts[0].stays = true
	bubble(t, hosts, func(r *rig) {
		h := r.host("h1")
		old := r.admit("old", "base")
		if denial := r.boot(old); denial != "" {
			t.Fatal(denial)
		}
		out, err := r.g.Release(r.t.Context(), alice, "old", 0)
		r.want("releasing", out, err)
		out, err = r.post("new", "base")
		r.want("no_capacity", out, err)
		out, err = r.post("old", "base")
		r.want("releasing", out, err)
		r.wait("later", "base", "host")
		same := gate.Ask{Class: "base", Memory: gate.GiB, Stateful: true, Rule: gate.DefaultReserveRule()}
		began := time.Now()
		poll := r.poll(r.t.Context(), "later", 30*time.Second)
		for second := range 10 { // nothing gets in meanwhile, whoever asks
			time.Sleep(time.Second)
			if v := h.view(); v.Verdict.Admittable != 0 || v.Reservations != 0 || len(v.Sandboxes) != 1 {
				t.Errorf("%v after the stop %v is admittable, with %d reservations and %d sandboxes",
					time.Since(began), v.Verdict.Admittable, v.Reservations, len(v.Sandboxes))
			}
			v := h.view().Verdict
			if a := h.step(host.Reserve{ID: "from-another-replica", Gen: 99 + int64(second), Ask: same, Until: v.At + time.Minute, Incarnation: v.Incarnation}); a.Denial != host.NoRoom {
				t.Errorf("the host itself says %q", a.Denial)
			}
		}
		h.done(old.ID, old.Epoch)
		if at := r.answered(poll, "yes").at; at.Sub(began) < 10*time.Second || at.Sub(began) > 12*time.Second {
			t.Errorf("the replacement had its turn %v after the stop", at.Sub(began))
		}
		r.wantHeld(1, 1, 0)
		r.release("later")
		r.letGo()
	})
}
