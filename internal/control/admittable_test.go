package control_test

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// T52, F10: the age of a host's word is judged when it is read, and when others decided. A
// word that has grown too old makes it no candidate, and a yes of theirs at that time is a no
// of ours; one of half a minute before, by the same word, was a yes.
func TestAdmittableAges(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		first := r.admittableOf("h1")
		if !first.Candidate || first.AdmittableMB != 3840 || *first.HeardMSAgo > 10_000 {
			t.Errorf("%+v", first)
		}
		observe := func(key string, ago time.Duration) {
			mb, at := int64(1024), time.Now().Add(-ago)
			taken, err := r.g.Observe(t.Context(), alice, api.ObservationBatch{Observations: []api.Observation{
				{Key: key, Host: "h1", Decision: api.YesNoYes, MemoryMB: &mb, At: &at, Outcome: api.OutcomeFitted},
			}})
			if err != nil || taken.Judged != 1 {
				t.Errorf("%+v %v", taken, err)
			}
		}
		observe("now", 0)
		h := r.host("h1")
		h.mu.Lock()
		h.deaf, h.quiet = true, true
		h.mu.Unlock()
		time.Sleep(45 * time.Second)
		if old := r.admittableOf("h1"); old.Candidate || old.WhyNot != "silent" || *old.Fits != 0 || *old.HeardMSAgo < 30_000 {
			t.Errorf("%+v", old)
		}
		observe("late", 0)
		observe("then", 40*time.Second)
		c, err := r.g.Comparison(t.Context(), alice)
		if err != nil || c.WrongNo != 1 || c.Decisions != 3 || c.Examples[0].Key != "late" || c.Examples[0].WhyNot != "silent" || c.Examples[0].Kind != api.ComparedKindWrongNo {
			t.Errorf("%+v", c)
		}
	})
}

func (r *rig) admittableOf(id string) api.Admittable {
	r.t.Helper()
	list, err := r.g.Admittable("small")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range list.Hosts {
		if h.ID == id {
			return h
		}
	}
	r.t.Fatalf("no host %s in %+v", id, list)
	return api.Admittable{}
}
