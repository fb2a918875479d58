// Package svg draws: a canvas, scales, a pair of axes, and the one look of all pictures. The same
// calls give the same bytes on every machine. Whatever words it is given are escaped.
//
// It knows nothing of what is drawn. A Canvas has one owner and is not safe for concurrent use.
package svg

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Style is the one look of all pictures. A picture has its own ground, so that it can be read
// wherever it is put, and follows the reader's choice of light or dark.
const Style = `text{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif;fill:#1f2328}
.ground{fill:#fff;stroke:#d1d9e0}.title{font-size:16px;font-weight:600}.small{font-size:12px;fill:#59636e}.bold{font-weight:600}
.grid{stroke:#d1d9e0;stroke-width:1;fill:none}.axis{stroke:#818b98;stroke-width:1;fill:none}.mark{stroke:#59636e;stroke-width:1.2;stroke-dasharray:5 4;fill:none}
.line{fill:none;stroke-width:2;stroke-linejoin:round}.thick{stroke-width:3}.dash{stroke-dasharray:6 4}.band{fill:#818b98;fill-opacity:.16}.end{text-anchor:end}.mid{text-anchor:middle}
.blue{stroke:#0969da;fill:#0969da}.orange{stroke:#bc4c00;fill:#bc4c00}.green{stroke:#1a7f37;fill:#1a7f37}.purple{stroke:#8250df;fill:#8250df}.red{stroke:#cf222e;fill:#cf222e}.grey{stroke:#818b98;fill:#818b98}
.line.blue,.line.orange,.line.green,.line.purple,.line.red,.line.grey{fill:none}text.blue,text.orange,text.green,text.purple,text.red,text.grey{stroke:none}text.grey{fill:#59636e}
.area{fill-opacity:.3;stroke-opacity:.8;stroke-width:1}.dot{fill-opacity:.75;stroke:none}.bar{stroke:none}
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.ground{fill:#0d1117;stroke:#3d444d}.small,text.grey{fill:#9198a1}.grid{stroke:#2a313c}.axis,.mark{stroke:#9198a1}
.blue{stroke:#58a6ff;fill:#58a6ff}.orange{stroke:#f0883e;fill:#f0883e}.green{stroke:#3fb950;fill:#3fb950}.purple{stroke:#bc8cff;fill:#bc8cff}.red{stroke:#ff7b72;fill:#ff7b72}}`

// Drawing is what can be drawn as wide as there is room for.
type Drawing interface {
	Draw(width int) *Canvas
}

// Canvas is a picture that grows. Coordinates are pixels, y downwards.
type Canvas struct {
	Width, Height int
	body          strings.Builder
}

// File closes the picture as a file of its own. Title and description are for those who have it
// read to them, too.
func (c *Canvas) File(title, about string) []byte {
	var out strings.Builder
	c.open(&out, "", ` xmlns="http://www.w3.org/2000/svg"`, title, about)
	fmt.Fprintf(&out, "<style>%s</style>\n", Style)
	fmt.Fprintf(&out, `<rect class="ground" x=".5" y=".5" width="%d" height="%d" rx="6"/>`+"\n", c.Width-1, c.Height-1)
	out.WriteString(c.body.String())
	out.WriteString("</svg>\n")
	return []byte(out.String())
}

// Within closes the picture as a part of a page that has the style already. The id sets its
// title and description apart from those of the page's other pictures.
func (c *Canvas) Within(id, title, about string) string {
	var out strings.Builder
	c.open(&out, id, "", title, about)
	out.WriteString(c.body.String())
	out.WriteString("</svg>\n")
	return out.String()
}

func (c *Canvas) open(out *strings.Builder, id, space, title, about string) {
	fmt.Fprintf(out, `<svg%s viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="%st %sd">`, space, c.Width, c.Height, c.Width, c.Height, id, id)
	fmt.Fprintf(out, "\n<title id=\"%st\">%s</title>\n<desc id=\"%sd\">%s</desc>\n", id, plain(title), id, plain(about))
}

// Head writes the title and what was measured, each on as many lines as it is given.
func (c *Canvas) Head(title, about string) {
	y := 14.0
	for _, line := range strings.Split(title, "\n") {
		y += 19
		c.Text(20, y, "title", line)
	}
	y += 3
	for _, line := range strings.Split(about, "\n") {
		y += 17
		c.Text(20, y, "small", line)
	}
}

// Text writes words whose baseline begins at a point, or as the class says ends or has its middle there.
func (c *Canvas) Text(x, y float64, class, words string) {
	if class != "" {
		class = ` class="` + class + `"`
	}
	fmt.Fprintf(&c.body, "<text x=\"%s\" y=\"%s\"%s>%s</text>\n", px(x), px(y), class, html.EscapeString(words))
}

func plain(words string) string { return html.EscapeString(strings.ReplaceAll(words, "\n", " ")) }

// Line draws a straight line.
func (c *Canvas) Line(class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.body, "<path class=\"%s\" d=\"M%s %sL%s %s\"/>\n", class, px(x1), px(y1), px(x2), px(y2))
}

// Rect draws a rectangle from its upper left corner.
func (c *Canvas) Rect(class string, x, y, w, h float64) {
	fmt.Fprintf(&c.body, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"/>\n", class, px(x), px(y), px(w), px(h))
}

// Dot draws a small disc.
func (c *Canvas) Dot(class string, x, y float64) {
	fmt.Fprintf(&c.body, "<circle class=\"dot %s\" cx=\"%s\" cy=\"%s\" r=\"3\"/>\n", class, px(x), px(y))
}

// Point is a place on a canvas.
type Point struct{ X, Y float64 }

// Curve joins points.
func (c *Canvas) Curve(class string, points []Point) {
	fmt.Fprintf(&c.body, "<path class=\"line %s\" d=\"%s\"/>\n", class, path(points))
}

// Area is what lies between two curves of the same points.
func (c *Canvas) Area(class string, upper, lower []Point) {
	back := make([]Point, 0, len(lower))
	for i := len(lower) - 1; i >= 0; i-- {
		back = append(back, lower[i])
	}
	fmt.Fprintf(&c.body, "<path class=\"area %s\" d=\"%sL%sZ\"/>\n", class, path(upper), path(back)[1:])
}

// path leaves out what lies on the line between its neighbours, which most points of a sampled
// curve do.
func path(points []Point) string {
	kept := points[:0:0]
	for i, p := range points {
		if i > 0 && i+1 < len(points) {
			was, next := kept[len(kept)-1], points[i+1]
			on := was.Y + float64((next.Y-was.Y)*(p.X-was.X)/(next.X-was.X))
			if math.Abs(on-p.Y) < 0.15 {
				continue
			}
		}
		kept = append(kept, p)
	}
	var out strings.Builder
	for i, p := range kept {
		out.WriteByte("ML"[min(i, 1)])
		out.WriteString(px(p.X) + " " + px(p.Y))
	}
	return out.String()
}

// px is a coordinate to a tenth of a pixel.
func px(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// Scale maps amounts to pixels.
type Scale struct {
	From, To float64 // amounts
	At, End  float64 // their pixels
	Log      bool    // in powers; From and To are above 0
}

// Px is where an amount lies. The product is rounded for itself, so that no machine adds it with
// other bits than another.
func (s Scale) Px(v float64) float64 {
	part := (v - s.From) / (s.To - s.From)
	if s.Log {
		part = math.Log(v/s.From) / math.Log(s.To/s.From)
	}
	return s.At + float64((s.End-s.At)*part)
}

// Plot is a pair of axes.
type Plot struct {
	*Canvas
	X, Y Scale
}

// Point is where a pair of amounts lies.
func (p *Plot) Point(x, y float64) Point { return Point{p.X.Px(x), p.Y.Px(y)} }

// YAxis has a line across at each step, and its name above.
func (p *Plot) YAxis(name string, step float64) {
	for v := p.Y.From; v <= p.Y.To; v += step {
		p.Line("grid", p.X.At, p.Y.Px(v), p.X.End, p.Y.Px(v))
		p.Text(p.X.At-8, p.Y.Px(v)+4, "small end", Amount(v))
	}
	p.Text(p.X.At-8, p.Y.End-12, "small end", name)
}

// XAxis has a tick at each step, and its name below.
func (p *Plot) XAxis(name string, step float64) {
	p.Line("axis", p.X.At, p.Y.At, p.X.End, p.Y.At)
	for v := p.X.From; v <= p.X.To; v += step {
		p.Line("axis", p.X.Px(v), p.Y.At, p.X.Px(v), p.Y.At+5)
		p.Text(p.X.Px(v), p.Y.At+20, "small mid", Amount(v))
	}
	p.Text((p.X.At+p.X.End)/2, p.Y.At+38, "small mid", name)
}

// Steps is a curve that stands until the next point.
func (p *Plot) Steps(xs, ys []float64) (out []Point) {
	for i := range xs {
		if i > 0 && ys[i] != ys[i-1] {
			out = append(out, p.Point(xs[i], ys[i-1]))
		}
		out = append(out, p.Point(xs[i], ys[i]))
	}
	return out
}

// Points are where pairs of amounts lie.
func (p *Plot) Points(xs, ys []float64) (out []Point) {
	for i := range xs {
		out = append(out, p.Point(xs[i], ys[i]))
	}
	return out
}

// Amount writes a number with a comma every three digits.
func Amount(v float64) string {
	text := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
