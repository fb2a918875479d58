package control_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// TestModesBesideEachOther: one host on committed beside two on working-set, filled with the same
// class until each says no. What the one holds is laid beside what the two hold, a host.
func TestModesBesideEachOther(t *testing.T) {
	fleet := twoHosts(32 << 10)
	fleet = append(fleet, &fakeHost{id: "h3", budget: gate.FromMiB(32 << 10), config: func(c *host.Config) { c.Mode = gate.Committed }})
	bubble(t, fleet, func(r *rig) {
		for _, h := range fleet {
			for i := range 32 {
				_, _ = r.post(fmt.Sprint(h.id, "-", i), "large", pinned(h.id, api.HostPinModeRequire))
			}
		}
		time.Sleep(time.Second)
		for _, h := range fleet {
			h.sample()
		}
		time.Sleep(time.Second)
		got, err := r.g.CompareModes(r.t.Context())
		r.must(err)
		for i := range got.Sides { // how often replicas asked in vain is theirs to say
			got.Sides[i].Refused, got.Sides[i].Mean, got.Sides[i].LeastMS, got.Sides[i].MostMS = nil, nil, 0, 0
			got.Sides[i].WouldAdmit = 0
			if got.Sides[i].Mode == "committed" && got.Sides[i].WouldPlace != 24+1 {
				t.Errorf("%d of the 25 that the committed host had no room for would have been placed in the other mode", got.Sides[i].WouldPlace)
			}
			got.Sides[i].WouldPlace = 0
		}
		want := []api.ModeSide{
			{
				Mode: "committed", Other: "working-set", Hosts: 1, Names: []string{"h3"}, MemoryMB: 32768, Admitted: 7,
				Now:            api.HostLoad{PromisedMB: 28672, AdmittableMB: 32768 - 256 - 28672, WouldOfferMB: 32768 - 256 - 7*1024},
				WouldBeRefused: api.WouldRefuse{},
			},
			{
				Mode: "working-set", Other: "committed", Hosts: 2, Names: []string{"h1", "h2"}, MemoryMB: 32768, Admitted: 62,
				Now:            api.HostLoad{PromisedMB: 31 * 1024, AdmittableMB: 32768 - 256 - 31*1024},
				WouldBeRefused: api.WouldRefuse{}, WouldRefuse: 2 * 24,
			},
		}
		if diff := cmp.Diff(want, got.Sides); diff != "" {
			t.Error(diff)
		}
		fleet[2].set(func() { fleet[2].deaf = true })
		got, err = r.g.CompareModes(r.t.Context())
		r.must(err)
		if s := got.Sides[0]; s.Hosts != 0 || s.NotHeard != 1 || s.Now != (api.HostLoad{}) || s.LeastMS != 0 {
			t.Errorf("a host that does not answer: %+v", s)
		}
		fleet[2].set(func() { fleet[2].deaf = false })
		for _, h := range fleet {
			for i := range 32 {
				_, _ = r.g.Release(r.t.Context(), alice, fmt.Sprint(h.id, "-", i), 0)
			}
		}
	})
}
