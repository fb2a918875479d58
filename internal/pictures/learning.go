package pictures

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/learn"
)

// learnedSize is what the sandboxes of learning.csv were configured with.
const learnedSize = 2 * gate.GiB

// taught is the reserve under which each run of a class stands, in MiB, and which of them, from 0,
// was the one that broke the prediction: what package learn makes of these peaks now.
func taught(peak []float64, prior gate.Bytes) (reserve []float64, broke int) {
	var runs learn.Runs
	var template learn.Template
	broke = -1
	e := template.Step(0, learnedSize, prior, &runs)
	for i, mib := range peak {
		reserve = append(reserve, float64(e.Reserve.CeilMiB()))
		under := e.Reserve
		if !e.Learned {
			under = 0
		}
		runs.Ended(gate.FromMiB(int64(mib)), under)
		if e = template.Step(time.Duration(i)*time.Second, learnedSize, prior, &runs); e.Broken && broke < 0 {
			broke = i
		}
	}
	return reserve, broke
}

// drawLearning is the reserve of a class over its runs, and what each run peaked at.
func drawLearning() ([]byte, error) {
	t, err := read("learning.csv")
	if err != nil {
		return nil, err
	}
	run, peak := t.numbers("run"), t.numbers("peak_mb")
	prior := t.numbers("reserve_mb")[0]
	reserve, broke := taught(peak, gate.FromMiB(int64(prior)))
	first := float64(slices.IndexFunc(reserve, func(mb float64) bool { return mb < prior }) + 1)
	doubled := run[slices.Index(t.words["doubled"], "1")]
	learned, last := reserve[int(first)-1], len(run)-1

	title := fmt.Sprintf("After %s runs the reserve of a class is what two in five stay within:\n%s MiB until then, %s from there on; and %s again when the class changed", amount(first-1), amount(prior), amount(learned), amount(prior))
	about := "Sandboxes of 2,048 MiB, one after the other: real processes, on a host that learns for itself. Each dot is a run."
	c := &canvas{height: 460}
	c.head(title, about)
	p := plot{c, scale{0, run[last] + 1, 70, 640}, scale{0, 800, 400, 126}}
	p.yAxis("MiB", 100)
	p.xAxis("run of the class", 10)
	p.rect("band", p.x.px(doubled-.5), p.y.end, p.x.end-p.x.px(doubled-.5), p.y.at-p.y.end)
	for i := range run {
		class := "blue"
		if peak[i] > reserve[i] {
			class = "purple"
		}
		p.dot(class, p.x.px(run[i]), p.y.px(peak[i]))
	}
	p.curve("orange thick", p.steps(run, reserve))
	p.text(p.x.px(2), p.y.px(prior)-8, "bold orange", "prior: the rule of the class")
	p.text(p.x.px(first)+8, p.y.px(prior/2), "bold", fmt.Sprintf("%s runs ended: learned", amount(first-1)))
	p.text(p.x.px(doubled)+6, p.y.px(600), "bold", "from here on each run")
	p.text(p.x.px(doubled)+6, p.y.px(600)+17, "bold", "holds twice as much")
	p.text(p.x.px(run[broke])+8, p.y.px(prior)+20, "bold", fmt.Sprintf("after %s: broken,", amount(run[broke]-doubled+1)))
	p.text(p.x.px(run[broke])+8, p.y.px(prior)+37, "bold", "the prior again")
	p.text(652, p.y.px(reserve[last])+5, "bold orange", "reserve: "+amount(reserve[last]))
	p.dot("purple", 660, 150)
	for i, line := range []string{"peaked above its reserve:", "it is charged what it", "holds, from the next", "sample on"} {
		p.text(672, 154+17*float64(i), "", line)
	}
	p.dot("blue", 660, 232)
	p.text(672, 236, "", "stayed within it")
	return c.svg(title, about), nil
}
