package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Shrink takes away from a plan what its violation does not need: faults, callers, hosts,
// replicas, and the time after it. The seed stays, so a smaller plan is another history; it
// is kept only if the same invariant is violated in it.
func Shrink(p Plan) (Plan, Result) {
	best := Play(p, nil)
	if len(best.Violations) == 0 {
		return p, best
	}
	plays := 0
	for smaller := true; smaller; {
		smaller = false
		for _, q := range p.smaller(best.Violations[0].At) {
			if plays++; plays > mostPlays {
				return p, best
			}
			r := Play(q, nil)
			if len(r.Violations) > 0 && r.Violations[0].Invariant == best.Violations[0].Invariant {
				p, best, smaller = q, r, true
				break
			}
		}
	}
	return p, best
}

// mostPlays bounds the patience with a large plan; what it has come to by then is told.
const mostPlays = 300

// smaller returns what a plan could shrink to in one step, the boldest first.
func (p Plan) smaller(violated time.Duration) (out []Plan) {
	add := func(change func(*Plan)) {
		q := p
		q.Without = slices.Clone(p.Without)
		change(&q)
		out = append(out, q)
	}
	if end := (violated + time.Second).Round(time.Second); end < p.Active {
		add(func(q *Plan) { q.Active = end })
	}
	for _, e := range p.Episodes {
		if !p.leaves(e.No) {
			add(func(q *Plan) { q.Without = append(q.Without, e.No) })
		}
	}
	if p.Callers > 1 {
		add(func(q *Plan) { q.Callers = p.Callers / 2 })
		add(func(q *Plan) { q.Callers = p.Callers - 1 })
	}
	if p.Hosts > 1 {
		add(func(q *Plan) { q.Hosts-- })
	}
	if p.Replicas > 1 {
		add(func(q *Plan) { q.Replicas-- })
	}
	return out
}

// Command is the command line that replays the plan.
func (p Plan) Command() string {
	line := fmt.Sprintf("plimsoll sim replay %d --replicas %d --hosts %d --callers %d --active %s", p.Seed, p.Replicas, p.Hosts, p.Callers, p.Active)
	if len(p.Without) > 0 {
		var nos []string
		for _, no := range p.Without {
			nos = append(nos, strconv.Itoa(no))
		}
		line += " --without " + strings.Join(nos, ",")
	}
	return line
}
