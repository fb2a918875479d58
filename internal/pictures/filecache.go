package pictures

import "slices"

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
	c := &canvas{height: 490}
	c.head(title, about)
	p := plot{c, scale{0, s[len(s)-1], 70, 640}, scale{0, 4096, 430, 146}}
	p.yAxis("MiB", 1024)
	p.xAxis("seconds", 5)
	p.area("grey", p.points(s, all), p.points(s, held))
	p.area("purple", p.points(s, held), p.points(s, anon))
	p.area("blue", p.points(s, anon), p.points(s, zero))
	p.curve("orange thick", p.points(s, admittable))
	p.phases(t.words["doing"], s)

	last := len(s) - 1
	p.text(652, p.y.px(admittable[last])+4, "bold orange", "admittable")
	p.text(652, p.y.px((all[last]+held[last])/2)+4, "bold grey", "clean file cache")
	p.text(652, p.y.px(anon[last]/2)+4, "bold blue", "memory held (anon)")
	most := slices.Max(dirty)
	first := slices.Index(dirty, most)
	p.text((p.x.px(s[first])+p.x.px(s[first+10]))/2, p.y.px(most)-8, "bold purple mid", "dirty: "+amount(most))
	return c.svg(title, about), nil
}

// phases names above the plot what is done, and marks where it begins.
func (p *plot) phases(doing []string, s []float64) {
	words := map[string]string{"reads": "reads 2 GiB of files", "writes": "writes 512 MiB", "syncs": "sync", "over": "holds 768 MiB"}
	named := 0
	for i, word := range doing {
		if i == 0 || word == doing[i-1] || words[word] == "" {
			continue
		}
		x := p.x.px(s[i])
		up := 12 + 17*float64(named%2) // by turns, so that short steps do not write over each other
		p.line("mark", x, p.y.at, x, p.y.end-up-8)
		p.text(x+5, p.y.end-up, "small", words[word])
		named++
	}
}
