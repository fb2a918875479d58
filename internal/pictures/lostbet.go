package pictures

import (
	"fmt"
	"slices"

	"github.com/plimsoll-project/plimsoll/internal/svg"
)

const (
	betHeadroom = 256 // MiB, as it was measured under
	betLimit    = 2048
)

// drawLostBet is a bet that is lost: what is free, and what became of whom.
func drawLostBet() ([]byte, error) {
	t, err := read("lost-bet.csv")
	if err != nil {
		return nil, err
	}
	s, free := t.seconds("ms"), t.numbers("free_mb")
	title := "The intake shuts first; then two have to go, one after the other.\nWhat keeps state stays, and the kernel kills nobody"
	about := "Four real processes in a cgroup of 2,048 MiB, headroom 256. Two of them leak, 50 MiB a second together; reclaim is on."
	c := &svg.Canvas{Width: width, Height: 650}
	c.Head(title, about)
	above := svg.Plot{Canvas: c, X: svg.Scale{From: 0, To: s[len(s)-1], At: 70, End: 640}, Y: svg.Scale{From: 0, To: 1024, At: 366, End: 126}}
	below := svg.Plot{Canvas: c, X: above.X, Y: svg.Scale{From: 0, To: betLimit, At: 588, End: 418}}

	shut := slices.IndexFunc(t.words["shut_by"], func(w string) bool { return w != "" })
	if shut < 0 {
		return nil, fmt.Errorf("the intake was never shut")
	}
	open := len(s) - 1
	for open > shut && t.words["shut_by"][open-1] == "" {
		open--
	}
	x := above.X.Px(s[shut])
	above.Rect("band", x, above.Y.End, above.X.Px(s[open])-x, above.Y.At-above.Y.End)
	above.Text(x+6, above.Y.End+16, "bold", "intake shut")
	above.Text(x+6, above.Y.End+32, "small", "by "+t.words["shut_by"][shut])
	above.YAxis("free, MiB", 256)
	for _, m := range []struct {
		part float64
		word string
	}{{1, "headroom, 256"}, {2, "half: shut in any case, 128"}, {4, "quarter: the bet is lost, 64"}} {
		y := above.Y.Px(betHeadroom / m.part)
		above.Line("mark", above.X.At, y, above.X.End, y)
		above.Text(650, y+4, "small", m.word)
	}
	above.Curve("blue thick", above.Points(s, free))
	below.YAxis("held, MiB", 512)
	below.XAxis("seconds", 5)
	stack(&below, t, s, []string{"database", "idle", "build", "tests"}, []string{"green", "grey", "purple", "orange"})
	gone := 0
	for i, id := range t.words["gone"] {
		if id == "" {
			continue
		}
		at := above.X.Px(s[i])
		class, beside := "bold red end", at-6
		if gone > 0 {
			class, beside = "bold red", at+6
		}
		above.Line("line red dash", at, above.Y.End+52, at, below.Y.At)
		above.Text(beside, above.Y.End+72, class, id+" has to go")
		gone++
	}
	return c.File(title, about), nil
}

// stack draws what each holds on top of the others, and its name beside.
func stack(p *svg.Plot, t *table, s []float64, names, classes []string) {
	sum := make([]float64, len(s))
	for i, name := range names {
		lower := slices.Clone(sum)
		for j, v := range t.numbers(name + "_mb") {
			sum[j] += v
		}
		p.Area(classes[i], p.Points(s, sum), p.Points(s, lower))
		p.Text(p.X.At+8, p.Y.Px((sum[10]+lower[10])/2)+4, "bold "+classes[i], name)
	}
}
