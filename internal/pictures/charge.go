package pictures

import (
	"fmt"
	"slices"

	"github.com/plimsoll-project/plimsoll/internal/svg"
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

	title := fmt.Sprintf("A sandbox of 4,096 MiB counts for %s MiB, or for what it holds where that is more", svg.Amount(reserve))
	about := fmt.Sprintf("A process that holds what a run of the fitted model does, measured by the agent twice a second.\nIts mean charge is %s MiB under the learned reserve, and %s under the prior.", svg.Amount(mean(learned)), svg.Amount(mean(prior)))
	c := &svg.Canvas{Width: width, Height: 450}
	c.Head(title, about)
	p := svg.Plot{Canvas: c, X: svg.Scale{From: 0, To: last, At: 70, End: 640}, Y: svg.Scale{From: 0, To: 1200, At: 390, End: 116}}
	p.YAxis("MiB", 200)
	p.XAxis("seconds of its life", 30)
	zero := make([]float64, len(s))
	p.Area("blue", p.Points(s, resident), p.Points(s, zero))
	p.Curve("grey thick", p.Steps(s, prior))
	p.Curve("orange thick", p.Steps(s, learned))
	p.Line("mark", p.X.At, p.Y.Px(reserve), p.X.End, p.Y.Px(reserve))

	p.Text(652, p.Y.Px(prior[0])-6, "bold grey", "charged under the prior:")
	p.Text(652, p.Y.Px(prior[0])+11, "grey", "a quarter, "+svg.Amount(prior[0]))
	p.Text(652, p.Y.Px(reserve)-24, "bold orange", "charged: the more of")
	p.Text(652, p.Y.Px(reserve)-7, "bold orange", "reserve and resident")
	p.Text(652, p.Y.Px(reserve)+10, "", "learned reserve: "+svg.Amount(reserve))
	p.Text(652, p.Y.Px(mean(resident))+26, "bold blue", "resident")
	p.Text(p.X.Px(at), p.Y.Px(peak)-10, "bold mid", fmt.Sprintf("peak %s MiB, at %.0f %% of its life", svg.Amount(peak), 100*at/last))
	p.Text(p.X.At+12, 104, "small", "↑ configured: 4,096 MiB, more than three times as high as this scale")
	return c.File(title, about), nil
}
