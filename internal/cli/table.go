package cli

import (
	"io"
	"strings"
	"unicode/utf8"
)

// table lines its columns up. A head that begins with ">" makes its column flush right.
type table struct {
	heads []string
	rows  [][]string
	notes map[int][]string // row -> lines below it
}

func newTable(heads ...string) *table { return &table{heads: heads, notes: map[int][]string{}} }

func (t *table) row(cells ...string) {
	for i := range cells {
		cells[i] = strings.ReplaceAll(plain(cells[i]), "\n", " ")
	}
	t.rows = append(t.rows, cells)
}

// note puts a line below the last row.
func (t *table) note(text string) {
	last := len(t.rows) - 1
	t.notes[last] = append(t.notes[last], "  "+strings.ReplaceAll(plain(text), "\n", " "))
}

// write writes heads and rows, each line after the indent.
func (t *table) write(w io.Writer, indent string) error {
	heads := make([]string, len(t.heads))
	for i, head := range t.heads {
		heads[i] = strings.TrimPrefix(head, ">")
	}
	lines := append([][]string{heads}, t.rows...)
	widths := make([]int, len(heads))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(strings.TrimRight(indent+t.line(line, widths), " ") + "\n")
		for _, note := range t.notes[i-1] {
			b.WriteString(indent + note + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *table) line(cells []string, widths []int) string {
	padded := make([]string, len(cells))
	for i, cell := range cells {
		padded[i] = pad(cell, widths[i], strings.HasPrefix(t.heads[i], ">"))
	}
	return strings.Join(padded, "  ")
}

func pad(cell string, width int, right bool) string {
	blank := strings.Repeat(" ", max(width-utf8.RuneCountInString(cell), 0))
	if right {
		return blank + cell
	}
	return cell + blank
}
