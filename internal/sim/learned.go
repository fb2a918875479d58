package sim

import (
	"math/rand/v2"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// In one plan of so many the replicas have learned what sandboxes need, which is drawn apart, so
// that all others stay as they are.
const (
	learnedPlans = 4
	leastLearned = 60   // thousandths of the configured size
	mostLearned  = 1300 // more than is configured: never reserved
	learnedLater = 10 * time.Second
)

// drawLearned draws what is learned, in thousandths of the configured size; 0 for nothing.
func drawLearned(seed uint64) int {
	r := rand.New(rand.NewPCG(seed, 0x6c6561726e6564))
	if r.IntN(learnedPlans) > 0 {
		return 0
	}
	return leastLearned + r.IntN(mostLearned-leastLearned)
}

// lessons are the amounts that a class is learned to need one after the other: nothing yet, and
// then, when it has become larger, twice as much.
func (p *Plan) lessons(a gate.Ask) []gate.Bytes {
	if p.Learned == 0 || a.Stateful {
		return []gate.Bytes{0}
	}
	once := a.Memory.Permille(int64(p.Learned))
	return []gate.Bytes{0, once, 2 * once}
}

// taught is an ask as a replica hands it on, with what it has heard by now. Each hears later than
// the one before, so that two of them ask with different reserves for one admission.
func (r *replica) taught(a gate.Ask) gate.Ask {
	f := r.fleet
	lessons := f.plan.lessons(a)
	since := f.now - time.Duration(r.index)*learnedLater
	heard := int(3 * max(since, 0) / max(f.plan.Active, 1))
	a.Rule.Learned = lessons[min(heard, len(lessons)-1)]
	return a
}
