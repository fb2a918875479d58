package config

import (
	"slices"
	"strings"
)

// Diff shows people what changes from a to b, line by line: "-" goes, "+" comes, and a few
// unchanged lines around say where. It is "" when nothing changes.
func Diff(a, b string) string {
	edits := compare(linesOf(a), linesOf(b))
	if !slices.ContainsFunc(edits, edit.changes) {
		return ""
	}
	var out strings.Builder
	left := false
	for i, e := range edits {
		if !near(edits, i) {
			left = true
			continue
		}
		if left {
			out.WriteString("  …\n")
		}
		left = false
		out.WriteString(string(e.sign) + " " + e.line + "\n")
	}
	return out.String()
}

// edit is one line of a diff.
type edit struct {
	sign byte // '-', '+' or ' '
	line string
}

func (e edit) changes() bool { return e.sign != ' ' }

// around is how many unchanged lines are shown on each side of a change.
const around = 3

func near(edits []edit, i int) bool {
	from, to := max(i-around, 0), min(i+around+1, len(edits))
	return slices.ContainsFunc(edits[from:to], edit.changes)
}

func linesOf(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// maxCells bounds the table of compare; beyond it the changed part is shown as a whole.
const maxCells = 4 << 20

// compare finds the edits that keep the most lines. What is equal at both ends is set
// aside first, which leaves little to compare of two documents that differ in a few lines.
func compare(a, b []string) []edit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	edits := mark(' ', a[:head])
	edits = append(edits, middle(a[head:len(a)-tail], b[head:len(b)-tail])...)
	return append(edits, mark(' ', a[len(a)-tail:])...)
}

func mark(sign byte, lines []string) []edit {
	edits := make([]edit, len(lines))
	for i, l := range lines {
		edits[i] = edit{sign, l}
	}
	return edits
}

func middle(a, b []string) (edits []edit) {
	if len(a)*len(b) > maxCells {
		return append(mark('-', a), mark('+', b)...)
	}
	kept := common(a, b)
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			edits = append(edits, edit{' ', a[i]})
			i, j = i+1, j+1
		case kept[i+1][j] >= kept[i][j+1]:
			edits = append(edits, edit{'-', a[i]})
			i++
		default:
			edits = append(edits, edit{'+', b[j]})
			j++
		}
	}
	return append(append(edits, mark('-', a[i:])...), mark('+', b[j:])...)
}

// common returns how many lines of a[i:] and b[j:] can be kept, at [i][j].
func common(a, b []string) [][]int32 {
	kept := make([][]int32, len(a)+1)
	for i := range kept {
		kept[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				kept[i][j] = kept[i+1][j+1] + 1
			} else {
				kept[i][j] = max(kept[i+1][j], kept[i][j+1])
			}
		}
	}
	return kept
}
