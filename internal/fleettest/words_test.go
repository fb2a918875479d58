package fleettest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// word is what one host said of itself, between two instants.
type word struct {
	asked, told  time.Time
	admittableMB int64
	sequence     int64
	incarnation  int64
}

// words are what the hosts said of themselves at their own sockets, past every replica.
type words struct {
	t      *testing.T
	agents []*hostAgent

	beside beside

	mu   sync.Mutex // guards what follows
	said map[string][]word
}

// begin listens until end.
func (w *words) begin(every time.Duration) {
	ctx, stop := context.WithCancel(w.t.Context())
	w.beside.stop = stop
	w.beside.all.Go(func() { w.listen(ctx, every) })
}

func (w *words) end() {
	w.beside.stop()
	w.beside.all.Wait()
}

func newWords(t *testing.T, agents []*hostAgent) *words {
	return &words{t: t, agents: agents, said: map[string][]word{}}
}

// listen asks every host again and again until ctx ends. A host's books must be right at each
// look; of a host that does not answer there is no word.
func (w *words) listen(ctx context.Context, every time.Duration) {
	var all sync.WaitGroup
	for _, a := range w.agents {
		all.Go(func() {
			for ctx.Err() == nil {
				w.look(a)
				sleep(ctx, every)
			}
		})
	}
	all.Wait()
}

func (w *words) look(a *hostAgent) {
	asked := time.Now()
	h, err := a.shows()
	if wrong := (booksErr{}); errors.As(err, &wrong) {
		w.t.Error(err)
	}
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said[a.id] = append(w.said[a.id], word{asked, time.Now(), h.AdmittableMB, h.Sequence, h.Incarnation})
}

// forget drops what was said.
func (w *words) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = map[string][]word{}
}

// refused is one no for want of room.
type refused struct {
	asked, told time.Time
	needMB      int64
}

// justify holds a refusal of a time in which hosts only fill up against their own words: one
// that still had room after the refusal was told had it all the time. It returns the host
// that should have been taken, or "".
func (w *words) justify(r refused) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, all := range w.said {
		for _, said := range all {
			if said.asked.After(r.told) && said.admittableMB >= r.needMB {
				return fmt.Sprintf("host %s had %d MiB %v later, and %d MiB were refused", id, said.admittableMB,
					said.asked.Sub(r.told).Round(time.Millisecond), r.needMB)
			}
		}
	}
	return ""
}

// hadRoom holds a refusal of a time in which hosts also empty against a host's own words. It
// had room all the time when it had so each time that it was looked at, from before the
// request until after the reply, and either for two, or without having done anything between.
// Known says whether it was looked at so.
func (w *words) hadRoom(id string, r refused) (why string, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	during, known := around(w.said[id], r)
	if known && roomy(during, r.needMB) {
		why = fmt.Sprintf("host %s had room all the time (%d MiB), and %d MiB were refused after %v",
			id, during[0].admittableMB, r.needMB, r.told.Sub(r.asked).Round(time.Millisecond))
	}
	return why, known
}

// around are the words from the last before a request to the first after its reply; whole says
// that both are there.
func around(all []word, r refused) (during []word, whole bool) {
	for _, said := range all {
		switch {
		case said.told.Before(r.asked):
			during = append(during[:0], said)
		case said.asked.After(r.told):
			return append(during, said), len(during) > 0 && during[0].told.Before(r.asked)
		default:
			during = append(during, said)
		}
	}
	return during, false
}

func roomy(during []word, needMB int64) bool {
	two, still := true, true
	for _, said := range during {
		if said.admittableMB < needMB {
			return false
		}
		two = two && said.admittableMB >= 2*needMB
		still = still && said.sequence == during[0].sequence && said.incarnation == during[0].incarnation
	}
	return two || still
}

// shown are all hosts' words at this moment.
func (w *words) shown() (all []api.Host) {
	w.t.Helper()
	for _, a := range w.agents {
		h, err := a.shows()
		if err != nil {
			w.t.Errorf("host %s: %v", a.id, err)
		}
		all = append(all, h)
	}
	return all
}
