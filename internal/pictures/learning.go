package pictures

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/svg"
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

	title := fmt.Sprintf("After %s runs the reserve of a class is what two in five stay within:\n%s MiB until then, %s from there on; and %s again when the class changed", svg.Amount(first-1), svg.Amount(prior), svg.Amount(learned), svg.Amount(prior))
	about := "Sandboxes of 2,048 MiB, one after the other: real processes, on a host that learns for itself. Each dot is a run."
	c := &svg.Canvas{Width: width, Height: 460}
	c.Head(title, about)
	p := svg.Plot{Canvas: c, X: svg.Scale{From: 0, To: run[last] + 1, At: 70, End: 640}, Y: svg.Scale{From: 0, To: 800, At: 400, End: 126}}
	p.YAxis("MiB", 100)
	p.XAxis("run of the class", 10)
	p.Rect("band", p.X.Px(doubled-.5), p.Y.End, p.X.End-p.X.Px(doubled-.5), p.Y.At-p.Y.End)
	for i := range run {
		class := "blue"
		if peak[i] > reserve[i] {
			class = "purple"
		}
		p.Dot(class, p.X.Px(run[i]), p.Y.Px(peak[i]))
	}
	p.Curve("orange thick", p.Steps(run, reserve))
	p.Text(p.X.Px(2), p.Y.Px(prior)-8, "bold orange", "prior: the rule of the class")
	p.Text(p.X.Px(first)+8, p.Y.Px(prior/2), "bold", fmt.Sprintf("%s runs ended: learned", svg.Amount(first-1)))
	p.Text(p.X.Px(doubled)+6, p.Y.Px(600), "bold", "from here on each run")
	p.Text(p.X.Px(doubled)+6, p.Y.Px(600)+17, "bold", "holds twice as much")
	p.Text(p.X.Px(run[broke])+8, p.Y.Px(prior)+20, "bold", fmt.Sprintf("after %s: broken,", svg.Amount(run[broke]-doubled+1)))
	p.Text(p.X.Px(run[broke])+8, p.Y.Px(prior)+37, "bold", "the prior again")
	p.Text(652, p.Y.Px(reserve[last])+5, "bold orange", "reserve: "+svg.Amount(reserve[last]))
	p.Dot("purple", 660, 150)
	for i, line := range []string{"peaked above its reserve:", "it is charged what it", "holds, from the next", "sample on"} {
		p.Text(672, 154+17*float64(i), "", line)
	}
	p.Dot("blue", 660, 232)
	p.Text(672, 236, "", "stayed within it")
	return c.File(title, about), nil
}
