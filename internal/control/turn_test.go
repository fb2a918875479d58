package control_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pool"
)

// TestSlotGivenBackByANewcomer: a create in refuse mode has the last slot while it looks
// for a host in vain; the waiter that came meanwhile gets the slot when it is given back.
func TestSlotGivenBackByANewcomer(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k0", "duo")
		full(r)
		h := r.hosts[0]
		h.set(func() { h.lag = 40 * time.Millisecond })
		newcomer := make(chan told, 1)
		go func() { newcomer <- said(r.post("k1", "giant")) }()
		time.Sleep(10 * time.Millisecond)
		r.wait("k2", "duo", pool.ForSlot)
		poll := r.poll(r.t.Context(), "k2", 30*time.Second)
		time.Sleep(31 * time.Millisecond)
		if got := <-newcomer; got.word != "no_capacity" {
			t.Errorf("the newcomer: %q", got.word)
		}
		r.answered(poll, "yes")
	})
}

// TestTurnGoesOnBehindWhoWasServed: three slots come at once, and three waiters take them.
func TestTurnGoesOnBehindWhoWasServed(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		r.admit("k0", "solo")
		var polls []chan told
		for i := range 5 {
			key := fmt.Sprint("w", i)
			r.wait(key, "solo", pool.ForSlot)
			polls = append(polls, r.poll(r.t.Context(), key, 20*time.Second))
		}
		time.Sleep(3300 * time.Millisecond)
		wider := strings.Replace(fleetDocument, "{name: one, cap: 1,", "{name: one, cap: 4,", 1)
		_, err := r.g.Apply(r.t.Context(), "root", api.ConfigChange{Generation: 1, Document: wider})
		r.must(err)
		for _, poll := range polls[:3] {
			r.answered(poll, "yes")
		}
		if len(polls[3])+len(polls[4]) > 0 {
			t.Error("more than the cap were admitted")
		}
		r.wantHeld(4, 4, 0)
	})
}

// TestTurnGoesByThoseOfAKindWithoutAHost: room that is too small for one is too small for
// all of its kind, and costs one try; the kind that it is enough for gets it at once.
func TestTurnGoesByThoseOfAKindWithoutAHost(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		full(r)
		for i := range 4 {
			r.post(fmt.Sprint("more", i), "small") // leaves 256
		}
		for i := range 20 {
			key := fmt.Sprint("large", i)
			r.wait(key, "large", pool.ForHost)
			r.poll(r.t.Context(), key, 30*time.Second)
		}
		r.wait("base", "base", pool.ForHost)
		poll := r.poll(r.t.Context(), "base", 30*time.Second)
		time.Sleep(3300 * time.Millisecond)
		before := r.store.Calls("Claim")
		h := r.hosts[0]
		h.set(func() { h.budget += 64 * gate.MiB })
		h.sample()
		synctest.Wait()
		if cost := r.store.Calls("Claim") - before; cost < 1 || cost > 4 {
			t.Errorf("a little room cost %d claims with 21 polls held", cost)
		}
		if len(poll) > 0 {
			t.Error("admitted where it does not fit")
		}
	})
}
