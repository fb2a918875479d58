// Package report writes what a play has found as one page for whoever decides by it: the finding
// first, then the figures and charts, what was assumed, what it would cost to be wrong, and
// beside each figure the command that prints it.
//
// A page is one file that asks for nothing else and needs no script. It follows the reader's choice of
// light or dark, fits a narrow screen, and prints. Every chart has its figures as a table, too.
// The same page gives the same bytes, and whatever it is given is escaped.
//
// It measures nothing and decides nothing. Safe for concurrent use, as long as nobody changes the
// page that is written.
package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"regexp"

	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// Page is what is told. Only Title must be there.
type Page struct {
	Title    string
	Lead     string   // what was found, in a sentence or two: some read no further
	Figures  []Figure // at most four large ones, below the lead
	Command  string   // what wrote the page; CommandOf says it
	Assumed  []string // each a sentence
	Sections []Section
	Risks    []string // what it would cost to be wrong, each a sentence or two
}

// Figure is a number that is read from afar.
type Figure struct {
	Value string // with its unit, as in "116" or "3.4 %"
	Label string // what it counts
	Note  string // beside what it stands: "committed: 7"; may be empty
	Color Color
}

// Section is a part of the page. Its charts come before its tables.
type Section struct {
	Title   string
	Text    []string // paragraphs
	Points  []string // a list below them
	Charts  []Chart
	Tables  []Table
	Command string // what prints these figures; empty: the page's
}

// Table has its first column to the left and the others to the right.
type Table struct {
	Title   string // may be empty
	Columns []string
	Rows    [][]string // as many cells each as there are columns
	Note    string
	Ours    string // rows whose first cell is this one are set off; may be empty
	Fold    bool   // long, and shown under its title when asked for
}

// Color is one of the look's; empty is grey for a bar, and for a series the next that is free.
type Color string

// The colors. Orange is for what is ours, red for harm.
const (
	Blue   Color = "blue"
	Orange Color = "orange"
	Green  Color = "green"
	Purple Color = "purple"
	Red    Color = "red"
	Grey   Color = "grey"
)

// Chart is Bars or Lines.
type Chart interface {
	svg.Drawing
	words() (title, about, note string)
	figures() Table
	check() error
}

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// The widths a chart is drawn for, in pixels; page.css shows the one that fits.
const wide, narrow = 860, 360

// Write writes the page, or says which part of it cannot be shown.
func (p *Page) Write(w io.Writer) error {
	if err := p.check(); err != nil {
		return fmt.Errorf("the report %q: %w", p.Title, err)
	}
	drawn := 0
	t, err := template.New("page").Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(svg.Style + "\n" + pageCSS) },
		"draw": func(c Chart) drawing {
			drawn++
			return draw(c, drawn)
		},
		"words": kept,
		"dense": func(t Table) bool { return len(t.Columns) >= denseFrom },
		"left":  func(column int) bool { return column == 0 },
	}).Parse(pageHTML)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, p); err != nil {
		return err
	}
	_, err = w.Write(out.Bytes())
	return err
}

var unit = regexp.MustCompile(`(\d) (%|(?:s|ms|h|MiB|GiB)\b)`)

// kept is words in which no line breaks between a figure and its unit.
func kept(words string) string { return unit.ReplaceAllString(words, "$1\u00a0$2") }

// denseFrom is from how many columns on a table is set in less room.
const denseFrom = 8

// drawing is a chart as the page has it.
type drawing struct {
	Title, Note  string
	Wide, Narrow template.HTML
	Figures      Table
}

func draw(c Chart, n int) drawing {
	title, about, note := c.words()
	part := func(name string, width int) template.HTML {
		return template.HTML(c.Draw(width).Within(fmt.Sprintf("c%d%s", n, name), title, about)) // what it draws is escaped
	}
	return drawing{title, note, part("w", wide), part("n", narrow), c.figures()}
}

func (p *Page) check() error {
	if p.Title == "" {
		return fmt.Errorf("it has no title")
	}
	for _, s := range p.Sections {
		for _, c := range s.Charts {
			if err := c.check(); err != nil {
				return err
			}
		}
		for _, t := range s.Tables {
			if err := t.check(); err != nil {
				return fmt.Errorf("a table of %q: %w", s.Title, err)
			}
		}
	}
	return nil
}

func (t Table) check() error {
	if t.Fold && t.Title == "" {
		return fmt.Errorf("one that is folded has no title to be asked for by")
	}
	for i, row := range t.Rows {
		if len(row) != len(t.Columns) {
			return fmt.Errorf("row %d has %d cells, and there are %d columns", i+1, len(row), len(t.Columns))
		}
	}
	return nil
}
