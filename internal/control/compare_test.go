package control_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// foundWithin is when a difference between a host and the store is mended without anybody's
// doing: at most 10 s until a look that sees it, and 5 until the next one.
const foundWithin = 17 * time.Second

// Whatever reconciling by hand finds and mends, comparing sums finds by itself.
func TestDisagreementsAreFoundByComparing(t *testing.T) {
	for name, d := range disagreements {
		if d.left || d.what == "unknown" || d.what == control.OutOfGate {
			continue // a person's
		}
		for _, after := range []time.Duration{0, 9 * time.Second, 9990 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s after %v", strings.ReplaceAll(name, " ", "_"), after), func(t *testing.T) {
				bubble(t, oneHost(4096), func(r *rig) {
					time.Sleep(after)
					d.make(r)
					time.Sleep(foundWithin)
					r.finds("", api.ReconcileRequest{DryRun: true})
				})
			})
		}
	}
}

// Two thousand hosts that agree cost one query a look. Each is reconciled once in five minutes
// all the same, against what sums cannot see.
func TestHostsThatAgree(t *testing.T) {
	hosts := make([]*fakeHost, 2000)
	for i := range hosts {
		hosts[i] = &fakeHost{id: fmt.Sprintf("h%d", i), budget: gate.FromMiB(4096)}
	}
	bubble(t, hosts, func(r *rig) {
		r.options.Log = slog.New(slog.DiscardHandler)
		for i := range 20 {
			a := r.admit(fmt.Sprint(i), "small")
			if i%2 == 0 {
				r.boot(a)
			}
		}
		time.Sleep(1500 * time.Millisecond)
		renew := func() { // what nobody boots would lapse
			for i := 1; i < 20; i += 2 {
				_, err := r.g.Heartbeat(r.t.Context(), alice, fmt.Sprint(i))
				r.must(err)
			}
		}
		lists, looks := r.store.Calls("List"), r.store.Calls("Holdings")
		for range 10 {
			renew()
			time.Sleep(30 * time.Second)
		}
		if n := r.store.Calls("Holdings") - looks; n != 30 {
			t.Errorf("%d queries in 30 looks", n)
		}
		if n := r.store.Calls("List") - lists; n != len(hosts) {
			t.Errorf("%d hosts were reconciled in five minutes, want each once", n)
		}
		r.wantHeld(20, 10, 10)
	})
}

// underWay is a change of which a host and the store hear at different instants.
type underWay struct {
	slow   string // the store's call that is under way
	before func(r *rig)
	do     func(r *rig)
	left   string // what there is afterwards, as held says it
	state  pool.State
}

var changesUnderWay = map[string]underWay{
	"reserved, not settled": {slow: "Settle", before: func(*rig) {}, do: admitted, left: "slots 1, reservations 1, sandboxes 0", state: pool.Admitted},
	"booted, not tracked":   {slow: "Track", before: admitted, do: func(r *rig) { r.boot(r.admit("k", "small")) }, left: "slots 1, reservations 0, sandboxes 1", state: pool.Running},
	"ended, not written":    {slow: "End", before: running, do: func(r *rig) { r.exit("k") }, left: "slots 0, reservations 0, sandboxes 0", state: pool.Released},
	"kept, not written": {
		slow: "Reopen", before: func(r *rig) { r.boot(r.admit("k", "keeper")) }, do: func(r *rig) { r.exit("k") },
		left: "slots 1, reservations 1, sandboxes 0", state: pool.Admitted,
	},
	"released, not written": {
		slow: "End", before: admitted, do: func(r *rig) { _, _ = r.g.Release(r.t.Context(), alice, "k", 0) },
		left: "slots 0, reservations 0, sandboxes 0", state: pool.Released,
	},
}

// What is under way at one look is no difference; what is so at the next one as well may be
// reconciled, and nothing is lost by it.
func TestWhatIsUnderWay(t *testing.T) {
	for name, c := range changesUnderWay {
		for _, lasts := range []time.Duration{3 * time.Second, 9 * time.Second} {
			t.Run(fmt.Sprintf("%s for %v", strings.ReplaceAll(name, " ", "_"), lasts), func(t *testing.T) {
				bubble(t, oneHost(4096), func(r *rig) {
					c.before(r)
					time.Sleep(8 * time.Second) // the look comes at 10 s
					lists := r.store.Calls("List")
					r.store.Delay(c.slow, lasts)
					go c.do(r)
					time.Sleep(8 * time.Second) // and the next one at 15 s
					if n := r.store.Calls("List") - lists; n > 0 && lasts < 5*time.Second {
						t.Errorf("reconciled %d times", n)
					}
					r.store.Delay(c.slow, 0)
					time.Sleep(lasts + foundWithin)
					if got := r.held(); got != c.left || r.row("k").State != c.state {
						t.Errorf("%s, %s; want %s, %s", got, r.row("k").State, c.left, c.state)
					}
				})
			})
		}
	}
}

// A long boot is no difference, on a host that waits for starts as well.
func TestBootingIsNoDifference(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		admitted(r)
		row := r.row("k")
		r.hosts[0].step(host.Redeem{ID: row.ID, Epoch: row.Epoch})
		time.Sleep(time.Second)
		lists := r.store.Calls("List")
		time.Sleep(35 * time.Second)
		if n := r.store.Calls("List") - lists; n != 0 {
			t.Errorf("reconciled %d times while it boots", n)
		}
		if s := r.row("k").State; s != pool.Admitted {
			t.Errorf("%s while it boots", s)
		}
	})
}

// A store that is away for some looks takes nothing from the next one; and a host that was
// silent is reconciled when it is heard again.
func TestComparingGoesOn(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		running(r)
		time.Sleep(time.Second)
		r.over(pool.Lost)
		r.store.GoAway(true)
		time.Sleep(25 * time.Second)
		r.store.GoAway(false)
		time.Sleep(foundWithin)
		if s := r.row("k").State; s != pool.Running {
			t.Errorf("it never died, and is %s", s)
		}
		h := r.hosts[0]
		h.set(func() { h.quiet = true })
		time.Sleep(40 * time.Second)
		n := h.calls("Holding")
		h.set(func() { h.quiet = false })
		time.Sleep(10*time.Second + foundWithin)
		if h.calls("Holding") == n {
			t.Error("not reconciled when it was heard again")
		}
	})
}
