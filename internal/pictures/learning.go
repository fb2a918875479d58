package pictures

import (
	"fmt"
	"slices"
)

// drawLearning is the reserve of a class over its runs, and what each run peaked at.
func drawLearning() ([]byte, error) {
	t, err := read("learning.csv")
	if err != nil {
		return nil, err
	}
	run, reserve, peak := t.numbers("run"), t.numbers("reserve_mb"), t.numbers("peak_mb")
	prior := reserve[0]
	first := float64(slices.IndexFunc(reserve, func(mb float64) bool { return mb < prior }) + 1)
	doubled := run[slices.Index(t.words["doubled"], "1")]
	learned, last := reserve[int(first)-1], len(run)-1

	title := fmt.Sprintf("After %s runs the reserve of a class is what two in five stay within:\n%s MiB until then, %s from there on", amount(first-1), amount(prior), amount(learned))
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
	p.text(p.x.px(doubled)+6, p.y.px(560), "bold", "from here on each run")
	p.text(p.x.px(doubled)+6, p.y.px(560)+17, "bold", "holds twice as much")
	p.text(652, p.y.px(reserve[last])+5, "bold orange", "reserve: "+amount(reserve[last]))
	p.dot("purple", 660, 150)
	for i, line := range []string{"peaked above its reserve:", "it is charged what it", "holds, from the next", "sample on"} {
		p.text(672, 154+17*float64(i), "", line)
	}
	p.dot("blue", 660, 232)
	p.text(672, 236, "", "stayed within it")
	return c.svg(title, about), nil
}
