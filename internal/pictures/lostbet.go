package pictures

import (
	"fmt"
	"slices"
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
	c := &canvas{height: 650}
	c.head(title, about)
	above := plot{c, scale{0, s[len(s)-1], 70, 640}, scale{0, 1024, 366, 126}}
	below := plot{c, above.x, scale{0, betLimit, 588, 418}}

	shut := slices.IndexFunc(t.words["shut_by"], func(w string) bool { return w != "" })
	if shut < 0 {
		return nil, fmt.Errorf("the intake was never shut")
	}
	open := len(s) - 1
	for open > shut && t.words["shut_by"][open-1] == "" {
		open--
	}
	x := above.x.px(s[shut])
	above.rect("band", x, above.y.end, above.x.px(s[open])-x, above.y.at-above.y.end)
	above.text(x+6, above.y.end+16, "bold", "intake shut")
	above.text(x+6, above.y.end+32, "small", "by "+t.words["shut_by"][shut])
	above.yAxis("free, MiB", 256)
	for _, m := range []struct {
		part float64
		word string
	}{{1, "headroom, 256"}, {2, "half: shut in any case, 128"}, {4, "quarter: the bet is lost, 64"}} {
		y := above.y.px(betHeadroom / m.part)
		above.line("mark", above.x.at, y, above.x.end, y)
		above.text(650, y+4, "small", m.word)
	}
	above.curve("blue thick", above.points(s, free))
	below.yAxis("held, MiB", 512)
	below.xAxis("seconds", 5)
	below.stack(t, s, []string{"database", "idle", "build", "tests"}, []string{"green", "grey", "purple", "orange"})
	gone := 0
	for i, id := range t.words["gone"] {
		if id == "" {
			continue
		}
		at := above.x.px(s[i])
		class, beside := "bold red end", at-6
		if gone > 0 {
			class, beside = "bold red", at+6
		}
		above.line("line red dash", at, above.y.end+52, at, below.y.at)
		above.text(beside, above.y.end+72, class, id+" has to go")
		gone++
	}
	return c.svg(title, about), nil
}

// stack draws what each holds on top of the others, and its name beside.
func (p *plot) stack(t *table, s []float64, names, classes []string) {
	sum := make([]float64, len(s))
	for i, name := range names {
		lower := slices.Clone(sum)
		for j, v := range t.numbers(name + "_mb") {
			sum[j] += v
		}
		p.area(classes[i], p.points(s, sum), p.points(s, lower))
		p.text(p.x.at+8, p.y.px((sum[10]+lower[10])/2)+4, "bold "+classes[i], name)
	}
}
