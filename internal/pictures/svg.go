package pictures

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// style is the one look of all pictures. A picture has its own ground, so that it can be read
// wherever it is put, and follows the reader's choice of light or dark.
const style = `text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif;fill:#1f2328}
.ground{fill:#fff;stroke:#d1d9e0}.title{font-size:16px;font-weight:600}.small{font-size:12px;fill:#59636e}.bold{font-weight:600}
.grid{stroke:#d1d9e0;stroke-width:1;fill:none}.axis{stroke:#818b98;stroke-width:1;fill:none}.mark{stroke:#59636e;stroke-width:1.2;stroke-dasharray:5 4;fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round}.thick{stroke-width:3}.dash{stroke-dasharray:6 4}.band{fill:#818b98;fill-opacity:.16}.end{text-anchor:end}.mid{text-anchor:middle}
.blue{stroke:#0969da;fill:#0969da}.orange{stroke:#bc4c00;fill:#bc4c00}.green{stroke:#1a7f37;fill:#1a7f37}.purple{stroke:#8250df;fill:#8250df}.red{stroke:#cf222e;fill:#cf222e}.grey{stroke:#818b98;fill:#818b98}
.line.blue,.line.orange,.line.green,.line.purple,.line.red,.line.grey{fill:none}text.blue,text.orange,text.green,text.purple,text.red,text.grey{stroke:none}text.grey{fill:#59636e}
.area{fill-opacity:.3;stroke-opacity:.8;stroke-width:1}.dot{fill-opacity:.75;stroke:none}.bar{stroke:none}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.ground{fill:#0d1117;stroke:#3d444d}.small,text.grey{fill:#9198a1}.grid{stroke:#2a313c}.axis,.mark{stroke:#9198a1}
.blue{stroke:#58a6ff;fill:#58a6ff}.orange{stroke:#f0883e;fill:#f0883e}.green{stroke:#3fb950;fill:#3fb950}.purple{stroke:#bc8cff;fill:#bc8cff}.red{stroke:#ff7b72;fill:#ff7b72}}`

const width = 860

// canvas is a picture that grows. Coordinates are pixels, y downwards.
type canvas struct {
	height int
	body   strings.Builder
}

// svg closes the picture. Title and description are for those who have it read to them, too.
func (c *canvas) svg(title, about string) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t d">`, width, c.height, width, c.height)
	fmt.Fprintf(&out, "\n<title id=\"t\">%s</title>\n<desc id=\"d\">%s</desc>\n<style>%s</style>\n", plain(title), plain(about), style)
	fmt.Fprintf(&out, `<rect class="ground" x=".5" y=".5" width="%d" height="%d" rx="6"/>`+"\n", width-1, c.height-1)
	out.WriteString(c.body.String())
	out.WriteString("</svg>\n")
	return []byte(out.String())
}

// head writes the title and what was measured, each on as many lines as it is given.
func (c *canvas) head(title, about string) {
	y := 14.0
	for _, line := range strings.Split(title, "\n") {
		y += 19
		c.text(20, y, "title", line)
	}
	y += 3
	for _, line := range strings.Split(about, "\n") {
		y += 17
		c.text(20, y, "small", line)
	}
}

func (c *canvas) text(x, y float64, class, words string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	fmt.Fprintf(&c.body, "<text x=\"%s\" y=\"%s\"%s>%s</text>\n", px(x), px(y), class, html.EscapeString(words))
}

func plain(words string) string { return html.EscapeString(strings.ReplaceAll(words, "\n", " ")) }

func (c *canvas) line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.body, "<path class=\"%s\" d=\"M%s %sL%s %s\"/>\n", class, px(x1), px(y1), px(x2), px(y2))
}

func (c *canvas) rect(class string, x, y, w, h float64) {
	fmt.Fprintf(&c.body, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>\n", class, px(x), px(y), px(w), px(h))
}

func (c *canvas) dot(class string, x, y float64) {
	fmt.Fprintf(&c.body, "<circle class=\"dot %s\" cx=\"%s\" cy=\"%s\" r=\"3\"/>\n", class, px(x), px(y))
}

type point struct{ x, y float64 }

func (c *canvas) curve(class string, points []point) {
	fmt.Fprintf(&c.body, "<path class=\"line %s\" d=\"%s\"/>\n", class, path(points))
}

// area is what lies between two curves of the same points.
func (c *canvas) area(class string, upper, lower []point) {
	back := make([]point, 0, len(lower))
	for i := len(lower) - 1; i >= 0; i-- {
		back = append(back, lower[i])
	}
	fmt.Fprintf(&c.body, "<path class=\"area %s\" d=\"%sL%sZ\"/>\n", class, path(upper), path(back)[1:])
}

// path leaves out what lies on the line between its neighbours, which most points of a sampled
// curve do.
func path(points []point) string {
	kept := points[:0:0]
	for i, p := range points {
		if i > 0 && i+1 < len(points) {
			was, next := kept[len(kept)-1], points[i+1]
			on := was.y + (next.y-was.y)*(p.x-was.x)/(next.x-was.x)
			if math.Abs(on-p.y) < 0.15 {
				continue
			}
		}
		kept = append(kept, p)
	}
	var out strings.Builder
	for i, p := range kept {
		out.WriteByte("ML"[min(i, 1)])
		out.WriteString(px(p.x) + " " + px(p.y))
	}
	return out.String()
}

// px is a coordinate to a tenth of a pixel.
func px(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// scale maps amounts to pixels.
type scale struct {
	from, to float64 // amounts
	at, end  float64 // their pixels
}

func (s scale) px(v float64) float64 { return s.at + (s.end-s.at)*(v-s.from)/(s.to-s.from) }

// plot is a pair of axes.
type plot struct {
	*canvas
	x, y scale
}

func (p *plot) point(x, y float64) point { return point{p.x.px(x), p.y.px(y)} }

// yAxis has a line across at each step, and its name above.
func (p *plot) yAxis(name string, step float64) {
	for v := p.y.from; v <= p.y.to; v += step {
		p.line("grid", p.x.at, p.y.px(v), p.x.end, p.y.px(v))
		p.text(p.x.at-8, p.y.px(v)+4, "small end", amount(v))
	}
	p.text(p.x.at-8, p.y.end-12, "small end", name)
}

func (p *plot) xAxis(name string, step float64) {
	p.line("axis", p.x.at, p.y.at, p.x.end, p.y.at)
	for v := p.x.from; v <= p.x.to; v += step {
		p.line("axis", p.x.px(v), p.y.at, p.x.px(v), p.y.at+5)
		p.text(p.x.px(v), p.y.at+20, "small mid", amount(v))
	}
	p.text((p.x.at+p.x.end)/2, p.y.at+38, "small mid", name)
}

// steps is a curve that stands until the next point.
func (p *plot) steps(xs, ys []float64) (out []point) {
	for i := range xs {
		if i > 0 && ys[i] != ys[i-1] {
			out = append(out, p.point(xs[i], ys[i-1]))
		}
		out = append(out, p.point(xs[i], ys[i]))
	}
	return out
}

func (p *plot) points(xs, ys []float64) (out []point) {
	for i := range xs {
		out = append(out, p.point(xs[i], ys[i]))
	}
	return out
}

// amount writes a number with a comma every three digits.
func amount(v float64) string {
	text := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
