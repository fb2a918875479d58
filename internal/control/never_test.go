package control_test

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// A host that has just been connected and has said nothing yet is as large as the registry has it:
// what came from ignorance would be a never.
func TestAConnectedHostThatIsNotHeardIsNoNever(t *testing.T) {
	followed(t, oneHost(4096), func(f *fleet) {
		time.Sleep(5 * time.Second) // the registry has what the host says of itself
		f.hosts[0].set(func() { f.hosts[0].lag = 3 * time.Second })
		g := f.replica()
		time.Sleep(time.Second)
		list, err := g.Hosts(f.t.Context())
		f.must(err)
		if h := list.Hosts[0]; !h.Connected || h.HeardMSAgo != nil {
			f.t.Fatalf("it is to be connected, and not heard: %+v", h)
		}
		out, err := f.postAt(g, "k1", "small", func(q *api.AdmissionRequest) { mb := int64(32 * 1024); q.MemoryMB = &mb })
		f.want("infeasible", out, err)
		out, err = f.postAt(g, "k2", "small")
		f.want("yes", out, err) // the host is asked before anybody is refused
		f.letGo()
	})
}

// An empty registry means that no agent is healthy, and not that the ask is too large.
func TestAnEmptyRegistry(t *testing.T) {
	followed(t, nil, func(f *fleet) {
		out, err := f.post("k1", "small")
		f.want("no_healthy_agents", out, err)
	})
}
