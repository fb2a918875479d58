package storm

import (
	"math"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/agenda"
)

// history is what happened in one play. Instants are from the beginning of the storm.
type history struct {
	callers, waiters, attempts, gaveUps int

	couldBeEmpty, over time.Duration
	hints, within      int
	waits              []time.Duration // of the waiters who were admitted
	calls              []int           // in each second
	waiting            []int           // at the end of each second
	idle               time.Duration   // × slots
}

// call counts one at an instant.
func (h *history) call(now time.Duration) {
	second := int(now / time.Second)
	for len(h.calls) <= second {
		h.calls = append(h.calls, 0)
	}
	h.calls[second]++
}

// judge compares what somebody was told with when it was admitted.
func (h *history) judge(all []told, admitted time.Duration) {
	for _, t := range all {
		really := admitted - t.at
		h.hints++
		if d := t.in - really; 5*max(d, -d) <= really {
			h.within++
		}
	}
}

// sum puts the plays of one kind together.
func sum(k kind, plays []*history) Client {
	c := Client{Client: k.name, DeadlineS: k.deadline.Seconds(), Recovery: math.Inf(-1), first: plays[0]}
	var waits []time.Duration
	attempts, within, idle := 0, 0, time.Duration(0)
	for _, h := range plays {
		c.Callers += h.callers
		c.Waiters += h.waiters
		c.GaveUps += h.gaveUps
		c.Hints += h.hints
		attempts, within, idle = attempts+h.attempts, within+h.within, idle+h.idle
		c.Recovery = max(c.Recovery, seconds(h.over-h.couldBeEmpty))
		for _, n := range h.calls {
			c.Most = max(c.Most, n)
		}
		waits = append(waits, h.waits...)
	}
	slices.Sort(waits)
	c.Attempts, c.GaveUp, c.Within20 = part(attempts, c.Waiters), part(c.GaveUps, c.Waiters), part(within, c.Hints)
	c.WaitP50, c.WaitP99 = seconds(quantile(waits, 50)), seconds(quantile(waits, 99))
	c.IdleSlots = round(idle.Seconds() / float64(len(plays)))
	return c
}

func part(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return math.Round(1e6*float64(n)/float64(of)) / 1e6
}

func quantile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*percent/100]
}

func seconds(d time.Duration) float64 { return round(d.Seconds()) }

func round(s float64) float64 { return math.Round(1000*s) / 1000 }

// couldBeEmpty is when the last of these callers who had to wait would have had a slot, had
// every slot gone to the next of them in the instant in which it was freed.
func couldBeEmpty(slots int64, all []arrival) (last time.Duration) {
	var busy agenda.Agenda[struct{}] // each until it is free again
	for _, a := range all {
		start := a.at
		if int64(busy.Len()) == slots {
			if freed, _ := busy.Take(); freed > start {
				start, last = freed, freed
			}
		}
		busy.Note(start+a.life, struct{}{})
	}
	return last
}
