package control_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/store/storetest"
	"github.com/plimsoll-project/plimsoll/pool"
)

// T82, T85: the first in line that needs much of a host is not starved by those who need
// little: memory is set aside for it as it frees, and small ones that come and go all the
// time get what is left besides.
func TestTheLargeIsNotStarved(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		var small []string // those that run, the oldest first
		n := 0
		comes := func() {
			n++
			key := fmt.Sprintf("small-%d", n)
			if out, err := r.post(key, "base"); err == nil {
				r.boot(*out.Admission)
				small = append(small, key)
			}
		}
		for range 3 {
			comes()
		}
		r.wait("giant", "giant", pool.ForHost, patience(time.Hour))
		began, poll := time.Now(), r.poll(r.t.Context(), "giant", 30*time.Second)
		for time.Since(began) < 2*time.Minute {
			time.Sleep(3 * time.Second)
			if len(small) > 0 {
				r.exit(small[0])
				small = small[1:]
			}
			select {
			case got := <-poll:
				if got.word == "yes" {
					if waited := got.at.Sub(began); waited > 30*time.Second || n < 5 {
						r.t.Errorf("the giant waited %v while %d small ones came", waited, n)
					}
					r.letGo()
					return
				}
				poll = r.poll(r.t.Context(), "giant", 30*time.Second)
			default:
			}
			comes()
		}
		r.t.Error("the giant was starved")
	})
}

// A place where memory is set aside is noted for whichever replica is next, and when its
// waiter is gone it ends by itself.
func TestStandingEnds(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		for i := range 3 {
			r.boot(r.admit(fmt.Sprintf("small-%d", i), "base"))
		}
		r.wait("giant", "giant", pool.ForHost, patience(time.Hour))
		poll := r.poll(r.t.Context(), "giant", 30*time.Second)
		time.Sleep(19 * time.Second)
		if v := r.hosts[0].view(); v.Standing.ID != r.row("giant").ID || r.row("giant").StandAt != "h1" {
			r.t.Errorf("set aside for %+v, and noted at %q", v.Standing, r.row("giant").StandAt)
		}
		r.exit("small-0")
		o, err := r.post("late", "base")
		r.want("no_capacity", o, err)
		<-poll
		time.Sleep(12 * time.Second)
		o, err = r.post("late", "base")
		r.want("yes", o, err)
		r.release("giant")
		r.letGo()
	})
}

// When it could not be noted, it ends by itself, and memory is set aside anew.
func TestStandingNotNoted(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		for i := range 3 {
			r.boot(r.admit(fmt.Sprintf("small-%d", i), "base"))
		}
		r.wait("giant", "giant", pool.ForHost, patience(time.Hour))
		r.poll(r.t.Context(), "giant", 30*time.Second)
		time.Sleep(29 * time.Second)
		if row := r.row("giant"); row.StandAt != "h1" {
			r.t.Errorf("noted at %q", row.StandAt)
		}
		r.release("giant")
		r.letGo()
	}, storetest.Fault{Call: "Stand", Nth: 1})
}

// A waiter that gives up leaves nothing set aside.
func TestStandingGivenUp(t *testing.T) {
	bubble(t, oneHost(4096), func(r *rig) {
		for i := range 3 {
			r.boot(r.admit(fmt.Sprintf("small-%d", i), "base"))
		}
		r.wait("giant", "giant", pool.ForHost, patience(time.Hour))
		r.poll(r.t.Context(), "giant", 30*time.Second)
		time.Sleep(15 * time.Second)
		r.exit("small-0")
		r.release("giant")
		if v := r.hosts[0].view(); v.Standing.ID != "" {
			r.t.Errorf("still set aside for %s", v.Standing.ID)
		}
		out, err := r.post("small-4", "base")
		r.want("yes", out, err)
		r.letGo()
	})
}
