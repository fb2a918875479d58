package pictures

import (
	"slices"

	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// drawFileCache is what is in a cgroup, by kind, and what its host could promise meanwhile.
func drawFileCache() ([]byte, error) {
	t, err := read("file-cache.csv")
	if err != nil {
		return nil, err
	}
	s := t.seconds("ms")
	anon, dirty, clean, admittable := t.numbers("anon_mb"), t.numbers("dirty_mb"), t.numbers("clean_mb"), t.numbers("admittable_mb")
	zero := make([]float64, len(s))
	held, all := slices.Clone(anon), slices.Clone(anon)
	for i := range s {
		held[i] += dirty[i]
		all[i] += dirty[i] + clean[i]
	}
	title := "Clean file cache costs nothing:\nonly dirty pages, until they are written, and held memory lower what can be promised"
	about := "Real processes in a cgroup of 4,096 MiB, headroom 256. What the kernel counts in it, and what the agent promised meanwhile."
	c := &svg.Canvas{Width: width, Height: 490}
	c.Head(title, about)
	p := svg.Plot{Canvas: c, X: svg.Scale{From: 0, To: s[len(s)-1], At: 70, End: 640}, Y: svg.Scale{From: 0, To: 4096, At: 430, End: 146}}
	p.YAxis("MiB", 1024)
	p.XAxis("seconds", 5)
	p.Area("grey", p.Points(s, all), p.Points(s, held))
	p.Area("purple", p.Points(s, held), p.Points(s, anon))
	p.Area("blue", p.Points(s, anon), p.Points(s, zero))
	p.Curve("orange thick", p.Points(s, admittable))
	phases(&p, t.words["doing"], s)

	last := len(s) - 1
	p.Text(652, p.Y.Px(admittable[last])+4, "bold orange", "admittable")
	p.Text(652, p.Y.Px((all[last]+held[last])/2)+4, "bold grey", "clean file cache")
	p.Text(652, p.Y.Px(anon[last]/2)+4, "bold blue", "memory held (anon)")
	most := slices.Max(dirty)
	first := slices.Index(dirty, most)
	p.Text((p.X.Px(s[first])+p.X.Px(s[first+10]))/2, p.Y.Px(most)-8, "bold purple mid", "dirty: "+svg.Amount(most))
	return c.File(title, about), nil
}

// phases names above the plot what is done, and marks where it begins.
func phases(p *svg.Plot, doing []string, s []float64) {
	words := map[string]string{"reads": "reads 2 GiB of files", "writes": "writes 512 MiB", "syncs": "sync", "over": "holds 768 MiB"}
	named := 0
	for i, word := range doing {
		if i == 0 || word == doing[i-1] || words[word] == "" {
			continue
		}
		x := p.X.Px(s[i])
		up := 12 + 17*float64(named%2) // by turns, so that short steps do not write over each other
		p.Line("mark", x, p.Y.At, x, p.Y.End-up-8)
		p.Text(x+5, p.Y.End-up, "small", words[word])
		named++
	}
}
