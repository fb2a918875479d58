package control_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/control"
)

// TestBatchByHost: asks of a class that hosts alone record go abreast, and each is told what it
// would have been told alone, whatever stands in the way of some: an ask or an answer that is
// lost, a class that there is not, a key that is held already.
func TestBatchByHost(t *testing.T) {
	for _, fault := range []string{"", "failed", "lost"} {
		t.Run("reserve "+fault, func(t *testing.T) {
			aloneIn(t, twoHosts(4096), func(r *rig) {
				held := r.admit("k3", "alone")
				if fault != "" {
					r.hosts[0].fail("Reserve", fault)
				}
				items := []control.Item{{Request: api.AdmissionRequest{Key: "none", Class: "nosuch"}}}
				for i := range 20 {
					items = append(items, control.Item{Request: api.AdmissionRequest{Key: fmt.Sprint("k", i), Class: "alone"}})
				}
				out := r.g.AdmitBatch(r.t.Context(), alice, items)
				if !isCode(out[0].Err, api.UnknownClass) {
					t.Error(out[0].Err)
				}
				seen := map[string]bool{}
				for i, o := range out[1:] {
					switch {
					case o.Err != nil:
						t.Error(i, o.Err)
					case seen[o.Admission.ID] || o.Admission.Ticket == "" || o.New == (i == 3):
						t.Errorf("%d: %+v", i, o)
					case i == 3 && o.Admission.ID != held.ID:
						t.Errorf("%+v, held before: %+v", o.Admission, held)
					default:
						seen[o.Admission.ID] = true
					}
				}
				synctest.Wait()
				for _, o := range r.g.AdmitBatch(r.t.Context(), alice, items)[1:] {
					if o.Err != nil || o.New || !seen[o.Admission.ID] {
						t.Errorf("asked again: %+v", o)
					}
				}
				r.untouched()
			})
		})
	}
}

// choir is a connection that can be asked for many things at once.
type choir struct {
	*fakeHost
	frames atomic.Int64
}

func (c *choir) DoAll(ctx context.Context, events []host.Event) []control.Said {
	c.frames.Add(1)
	said := make([]control.Said, len(events))
	for i, ev := range events {
		said[i].Answer, said[i].Err = c.Do(ctx, ev)
	}
	return said
}

// TestBatchAsksEachHostOnce: what falls to one host in a batch is asked in one frame.
func TestBatchAsksEachHostOnce(t *testing.T) {
	aloneIn(t, twoHosts(1<<14), func(r *rig) {
		var choirs []*choir
		for _, h := range r.hosts {
			c := &choir{fakeHost: h}
			choirs = append(choirs, c)
			ctx, cancel := context.WithCancel(r.t.Context())
			defer cancel()
			go r.g.Attach(ctx, c, h)
		}
		synctest.Wait()
		items := make([]control.Item, 40)
		for i := range items {
			items[i].Request = api.AdmissionRequest{Key: fmt.Sprint("k", i), Class: "alone"}
		}
		for i, o := range r.g.AdmitBatch(r.t.Context(), alice, items) {
			if o.Err != nil || !o.New {
				t.Error(i, o)
			}
		}
		for _, c := range choirs {
			if n := c.frames.Load(); n != 1 {
				t.Errorf("host %s was asked %d times", c.ID(), n)
			}
		}
	})
}
