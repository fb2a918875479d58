package workload

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/plimsoll-project/plimsoll/gate"
)

// The fitted model of one coding agent's sandbox, from the figures of 174 real runs. Memory in
// MiB, times in seconds.
const (
	emptyMiB = 11

	baselineMean, baselineDeviation = 190, 20.7 // 156, 190 and 224 at p5, p50 and p95

	lifeMu, lifeSigma, longestLife = 5.63, 0.86, 2544

	// 150 MiB are reached after 1.0, 2.3 and 44 s at p50, p95 and p99.
	reachedMiB               = 150
	reachSigma               = 0.506
	slowStart                = 0.02
	slowShortest, slowSpread = 20, 50

	// Bursts, above the baseline: 0.65 a minute on average, but z² times that in a run, since most
	// runs have few and a few have many; later ones are more frequent, so that the peak comes at
	// 63 % of a life.
	burstsASecond               = 0.65 / 60
	burstMu                     = 4.48
	betweenRuns, withinRun      = 0.48, 0.34 // of the amplitudes' sigma, 0.59 in all: a run's bursts resemble each other
	burstLengthSigma            = 1.85       // 1.0, 11.5 and 65 s at p50, p90 and p99
	lateness                    = 1 / 1.5
	smallMu, smallSigma         = 3.85, 0.4 // one rise in each run that is too small for a burst, so that calm runs peak late, too
	ordinaryMost                = 500
	risesBy                     = 55 // a second; 52 at p99 of all rises
	fastestRise                 = 1713
	spikes                      = 0.125      // part of the heavy bursts that are over within a second
	climbShortest, climbLongest = 10, 60     // of the others
	heavyRuns, heavyBurstsMore  = 0.050, 0.8 // runs with bursts of the heavy tail; and how many beyond one
)

// heavyTail is the tail of the amplitudes: with so much of the probability up to so many MiB.
var heavyTail = []struct{ upTo, from, to float64 }{
	{0.36, 500, 1000}, {0.944, 1000, 2000}, {1, 2000, 3680},
}

// So many runs of the model are learned from, and so many others played, where no files are given.
const FittedTrain, FittedJudged = 200, 2000

// FittedParts draws both.
func FittedParts(seed uint64) (train, judged []Run) {
	return Fitted(FittedTrain, 2*seed), Fitted(FittedJudged, 2*seed+1)
}

// Fitted draws n runs of the model.
func Fitted(n int, seed uint64) []Run {
	r := rand.New(rand.NewPCG(seed, 0x666974746564))
	runs := make([]Run, n)
	for i := range runs {
		runs[i] = fittedRun(fmt.Sprintf("fitted-%d", i+1), r)
	}
	return runs
}

func fittedRun(name string, r *rand.Rand) Run {
	life := int(math.Ceil(fittedLife(r)))
	above := make([]float64, life) // what bursts add
	burst(above, math.Exp(smallMu+smallSigma*r.NormFloat64()), r)
	z, own := r.NormFloat64(), betweenRuns*r.NormFloat64()
	for range poisson(burstsASecond*float64(life)*z*z, r) {
		burst(above, min(math.Exp(burstMu+own+withinRun*r.NormFloat64()), ordinaryMost), r)
	}
	if r.Float64() < heavyRuns {
		for range 1 + poisson(heavyBurstsMore, r) {
			heavyBurst(above, heavyAmplitude(r), r)
		}
	}
	run := Run{Name: name, Resident: make([]gate.Bytes, life)}
	base, reach := max(baselineMean+baselineDeviation*r.NormFloat64(), reachedMiB), reachTime(r)
	before := 0.0
	for s := range run.Resident {
		now := min(base, emptyMiB+(reachedMiB-emptyMiB)*float64(s)/reach) + above[s]
		before = min(now, before+fastestRise)
		run.Resident[s] = gate.Bytes(before * float64(gate.MiB))
		run.Peak = max(run.Peak, run.Resident[s])
	}
	return run
}

// fittedLife is how many seconds one lives.
func fittedLife(r *rand.Rand) float64 {
	return min(math.Exp(lifeMu+lifeSigma*r.NormFloat64()), longestLife)
}

// burst adds one to a life, where it is higher than what is there, and the way up to it.
func burst(above []float64, amplitude float64, r *rand.Rand) {
	from, length := startOf(above, r), lengthOf(r)
	for s := from; s < min(from+length, len(above)); s++ {
		above[s] = max(above[s], amplitude)
	}
	for s := from - 1; s >= 0 && amplitude > risesBy; s-- {
		amplitude -= risesBy
		above[s] = max(above[s], amplitude)
	}
}

// heavyBurst adds one of the heavy tail: a spike of a second, or one that climbs all its time.
func heavyBurst(above []float64, amplitude float64, r *rand.Rand) {
	from, length := startOf(above, r), 1
	if r.Float64() >= spikes {
		length = climbShortest + r.IntN(climbLongest-climbShortest+1)
	}
	for s := from; s < min(from+length, len(above)); s++ {
		above[s] = max(above[s], amplitude*float64(s-from+1)/float64(length))
	}
}

// lengthOf is how many seconds a burst lasts.
func lengthOf(r *rand.Rand) int {
	return int(math.Ceil(math.Exp(burstLengthSigma * r.NormFloat64())))
}

// startOf is when a burst begins: the later, the likelier.
func startOf(above []float64, r *rand.Rand) int {
	return int(float64(len(above)) * math.Pow(r.Float64(), lateness))
}

func heavyAmplitude(r *rand.Rand) float64 {
	u, below := r.Float64(), 0.0
	for _, part := range heavyTail {
		if u < part.upTo {
			return part.from + (part.to-part.from)*(u-below)/(part.upTo-below)
		}
		below = part.upTo
	}
	return heavyTail[len(heavyTail)-1].to
}

func reachTime(r *rand.Rand) float64 {
	if r.Float64() < slowStart {
		return slowShortest + slowSpread*r.Float64()
	}
	return math.Exp(reachSigma * r.NormFloat64())
}

// poisson draws a count with this mean, by the gaps between events.
func poisson(mean float64, r *rand.Rand) (n int) {
	for t := r.ExpFloat64(); t < mean; t += r.ExpFloat64() {
		n++
	}
	return n
}
