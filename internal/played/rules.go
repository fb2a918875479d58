package played

import (
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/workload"
	"github.com/plimsoll-project/plimsoll/learn"
)

// UntilSettled is the essay's rule: the reserve stands until the sandbox has been seen.
func UntilSettled() gate.ReserveRule {
	rule := gate.DefaultReserveRule()
	rule.Until = gate.UntilSettled
	return rule
}

// Learned is what a template says that saw these runs: the prior, if they are too few.
func Learned(train []workload.Run, configured gate.Bytes) gate.ReserveRule {
	var t learn.Template
	rule := gate.DefaultReserveRule()
	if e := t.Step(0, configured, Prior(configured), Taught(train)); e.Learned {
		rule.Learned = e.Reserve
	}
	return rule
}

// Prior is the reserve of a sandbox of which nothing is known yet.
func Prior(configured gate.Bytes) gate.Bytes {
	return gate.Reserve(gate.Ask{Memory: configured, Rule: gate.DefaultReserveRule()}, gate.WorkingSet)
}

// Taught is what runs teach.
func Taught(runs []workload.Run) *learn.Runs {
	var r learn.Runs
	for i := range runs {
		r.Ended(runs[i].Peak, 0)
		for _, b := range runs[i].Resident {
			r.Sampled(b, 1)
		}
	}
	return &r
}
