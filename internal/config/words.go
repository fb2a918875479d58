package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// short bounds what a message repeats of a file.
func short(s string) string {
	const most = 40
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return s
}

// shown is a node as a message repeats it.
func shown(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return kindOf(n)
	}
	return fmt.Sprintf("%q", short(n.Value))
}

// either joins words as in: a, b or c.
func either(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// suggestion names the setting that was probably meant, or all that there are.
func suggestion(key string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		if d := distance(key, k); d < least && d < len(k) {
			best, least = k, d
		}
	}
	if best != "" {
		return "did you mean " + best + "?"
	}
	return "known here are " + strings.Join(known, ", ")
}

// distance counts the letters to insert, remove or replace between two words.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
