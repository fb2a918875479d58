package pictures

import (
	"fmt"
	"slices"
)

// drawCharge is one sandbox over its life: what it holds, and what it counts for.
func drawCharge() ([]byte, error) {
	t, err := read("life.csv")
	if err != nil {
		return nil, err
	}
	s, resident := t.numbers("s"), t.numbers("resident_mb")
	prior, learned := t.numbers("charge_prior_mb"), t.numbers("charge_learned_mb")
	last, peak, reserve := s[len(s)-1], slices.Max(resident), slices.Min(learned)
	at := s[slices.Index(resident, peak)]

	title := fmt.Sprintf("A sandbox of 4,096 MiB counts for %s MiB, or for what it holds where that is more", amount(reserve))
	about := fmt.Sprintf("A process that holds what a run of the fitted model does, measured by the agent twice a second.\nIts mean charge is %s MiB under the learned reserve, and %s under the prior.", amount(mean(learned)), amount(mean(prior)))
	c := &canvas{height: 450}
	c.head(title, about)
	p := plot{c, scale{0, last, 70, 640}, scale{0, 1200, 390, 116}}
	p.yAxis("MiB", 200)
	p.xAxis("seconds of its life", 30)
	zero := make([]float64, len(s))
	p.area("blue", p.points(s, resident), p.points(s, zero))
	p.curve("grey thick", p.steps(s, prior))
	p.curve("orange thick", p.steps(s, learned))
	p.line("mark", p.x.at, p.y.px(reserve), p.x.end, p.y.px(reserve))

	p.text(652, p.y.px(prior[0])-6, "bold grey", "charged under the prior:")
	p.text(652, p.y.px(prior[0])+11, "grey", "a quarter, "+amount(prior[0]))
	p.text(652, p.y.px(reserve)-24, "bold orange", "charged: the more of")
	p.text(652, p.y.px(reserve)-7, "bold orange", "reserve and resident")
	p.text(652, p.y.px(reserve)+10, "", "learned reserve: "+amount(reserve))
	p.text(652, p.y.px(mean(resident))+26, "bold blue", "resident")
	p.text(p.x.px(at), p.y.px(peak)-10, "bold mid", fmt.Sprintf("peak %s MiB, at %.0f %% of its life", amount(peak), 100*at/last))
	p.text(p.x.at+12, 104, "small", "↑ configured: 4,096 MiB, more than three times as high as this scale")
	return c.svg(title, about), nil
}
