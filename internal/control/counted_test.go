package control_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/control"
)

// TestAllTrafficAtOneReplica is F08: a load that is guessed from one replica's share of it is
// wrong both ways when the traffic is skewed. All creates come to one of three; it gives out
// the whole cap and not a third of it, and the two others, who saw none of them, nothing more.
func TestAllTrafficAtOneReplica(t *testing.T) {
	bubble(t, oneHost(8192), func(r *rig) {
		idle := []*control.Gateway{r.another(), r.another()}
		synctest.Wait()
		for i := range 4 {
			r.admit(fmt.Sprint("k", i), "quad")
		}
		out, err := r.post("over", "quad")
		r.want("pool_full", out, err)
		ask := func(g *control.Gateway, key, want string) {
			r.t.Helper()
			out, err := g.Admit(r.t.Context(), alice, api.AdmissionRequest{Key: key, Class: "quad", Tenant: "alice"})
			r.want(want, out, err)
		}
		for i, g := range idle {
			ask(g, fmt.Sprint("elsewhere", i), "pool_full")
		}
		r.release("k0")
		ask(idle[1], "freed", "yes")
		ask(idle[0], "too-late", "pool_full")
		r.wantHeld(4, 4, 0)
		r.letGo()
	})
}

// TestADimensionThatIsUsedUp is T11: with all sixteen network slots in use there is no
// seventeenth. The no comes at once, names the dimension, and leaves nothing behind; one that
// is given back is the next one's.
func TestADimensionThatIsUsedUp(t *testing.T) {
	hosts := []*fakeHost{{id: "h1", budget: 64 * gate.GiB, config: func(c *host.Config) { c.Dims = []gate.Dim{{Name: "gpus", N: 16}} }}}
	bubble(t, hosts, func(r *rig) {
		for i := range 16 {
			r.admit(fmt.Sprint("k", i), "card")
		}
		began := time.Now()
		out, err := r.post("k16", "card")
		told := r.want("no_capacity", out, err)
		refusal, _ := api.AsRefusal(told.err)
		if took := time.Since(began); took > time.Second || len(refusal.Figures.Hosts["lacks_dimension:gpus"]) != 1 {
			t.Errorf("told after %v, with %v", took, refusal.Figures.Hosts)
		}
		r.wantHeld(16, 16, 0)
		r.release("k7")
		r.admit("k16", "card")
		r.letGo()
	})
}
