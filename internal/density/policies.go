package density

import (
	"fmt"
	"math"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/played"
	"github.com/plimsoll-project/plimsoll/internal/workload"
	"github.com/plimsoll-project/plimsoll/learn"
)

// policy is a way to charge a stateless sandbox.
type policy struct {
	name string
	mode gate.Mode
	rule func(train []workload.Run, configured gate.Bytes) gate.ReserveRule
}

const (
	committedPolicy = "committed"
	essayPolicy     = "essay"
	learnedPolicy   = "learned"
)

// policiesOf lists the policies that are compared.
func policiesOf(o Options) []policy {
	all := []policy{
		{committedPolicy, gate.Committed, byDefault},
		{essayPolicy, gate.WorkingSet, untilSettled},
		{learnedPolicy, gate.WorkingSet, learnedRule},
	}
	if o.Candidates {
		all = append(all, candidates()...)
	}
	return all
}

func byDefault([]workload.Run, gate.Bytes) gate.ReserveRule { return gate.DefaultReserveRule() }

func untilSettled([]workload.Run, gate.Bytes) gate.ReserveRule { return played.UntilSettled() }

func learnedRule(train []workload.Run, configured gate.Bytes) gate.ReserveRule {
	return played.Learned(train, configured)
}

// breaks says whether the template would have broken while each of the other runs ended once
// under its reserve.
func breaks(train, judged []workload.Run, configured gate.Bytes) bool {
	var t learn.Template
	seen := played.Taught(train)
	e := t.Step(0, configured, played.Prior(configured), seen)
	for i := range judged {
		var under gate.Bytes
		if e.Learned {
			under = e.Reserve
		}
		seen.Ended(judged[i].Peak, under)
		if e = t.Step(time.Duration(i)*time.Minute, configured, played.Prior(configured), seen); e.Broken {
			return true
		}
	}
	return false
}

// candidates are the other ways to learn a reserve that docs/adr/0018 weighs.
func candidates() []policy {
	all := []policy{{"prior, for life", gate.WorkingSet, byDefault}}
	for _, permille := range []int64{300, 350, 400, 450, 500, 600, 750} {
		all = append(all, policy{
			fmt.Sprintf("peaks, p%d", permille/10), gate.WorkingSet,
			func(train []workload.Run, configured gate.Bytes) gate.ReserveRule {
				return gate.ReserveRule{Learned: played.Taught(train).PeakOf(permille, configured)}
			},
		})
	}
	for _, s := range []float64{0.001, 0.002, 0.004} {
		all = append(all,
			policy{fmt.Sprintf("bandwidth, s %g/MiB, 1 s", s), gate.WorkingSet, bandwidthRule(s, func([]workload.Run) float64 { return 1 })},
			policy{fmt.Sprintf("bandwidth, s %g/MiB, 1 run", s), gate.WorkingSet, bandwidthRule(s, workload.MeanLife)},
		)
	}
	return all
}

// bandwidthRule is the effective bandwidth α(s) = ln E[e^{sX}] / s of what is resident in a
// second of a run, with some seconds more at the configured size.
func bandwidthRule(s float64, more func([]workload.Run) float64) func([]workload.Run, gate.Bytes) gate.ReserveRule {
	return func(train []workload.Run, configured gate.Bytes) gate.ReserveRule {
		extra := more(train)
		sum, n := extra*math.Exp(s*inMiB(configured)), extra
		for i := range train {
			for _, b := range train[i].Resident {
				sum += math.Exp(s * inMiB(b))
				n++
			}
		}
		return gate.ReserveRule{Learned: gate.Bytes(math.Log(sum/n) / s * float64(gate.MiB))}
	}
}

func inMiB(b gate.Bytes) float64 { return float64(b) / float64(gate.MiB) }
