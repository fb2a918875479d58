package control_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/control"
)

// Two replicas that are up take a host each first, so that those whose views agree do not run
// to the same one; once one is not heard of any more, or took its leave, the other takes both.
func TestOwnShareFirst(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		bubble(t, twoHosts(8192), func(r *rig) {
			ctx, cancel := context.WithCancel(r.t.Context())
			defer cancel()
			attest := func(id, address string) {
				if err := r.memory.Attest(ctx, control.Replica{ID: id, Address: address}); err != nil {
					t.Error(err)
				}
			}
			var replicas []*control.Gateway
			for _, id := range []string{"r1", "r2"} {
				o := r.options
				o.Self = id
				g, err := control.New(o)
				r.must(err)
				r.must(g.Load(ctx))
				for _, h := range r.hosts {
					go g.Attach(h.ctx, h, deafFeed{})
				}
				attest(id, "http://"+id)
				replicas = append(replicas, g)
			}
			synctest.Wait()
			for _, g := range replicas {
				go g.PulseUntil(ctx)
			}
			synctest.Wait()
			n := 0
			create := func(g *control.Gateway) string {
				n++
				out, err := g.Admit(ctx, alice, api.AdmissionRequest{Key: fmt.Sprint("k", n), Class: "large", Tenant: "alice"})
				r.must(err)
				return out.Admission.Host
			}
			first, second := create(replicas[0]), create(replicas[1])
			if first == second {
				t.Errorf("both replicas took %s", first)
			}
			if again := create(replicas[0]); again != first {
				t.Errorf("the first took %s, then %s", first, again)
			}
			if leaves {
				attest("r2", "")
			}
			for range 5 {
				time.Sleep(5 * time.Second)
				attest("r1", "http://r1")
			}
			synctest.Wait()
			at := map[string]int{}
			for range 4 {
				at[create(replicas[0])]++
			}
			if at[second] < 2 {
				t.Errorf("left alone, it took %v", at)
			}
			r.letGo()
		})
	}
}
