// Package pictures draws what docs/operating/memory.md shows, from what was measured: the files
// in data, each of which names the command that wrote it. The same data gives the same bytes.
//
// It measures nothing and decides nothing. Safe for concurrent use.
package pictures

import (
	"bytes"
	"embed"
	"encoding/csv"
	"fmt"
	"strconv"
)

//go:embed data/*.csv data/*.json
var data embed.FS

// width is that of all pictures, in pixels.
const width = 860

// Picture is one of them, as its file.
type Picture struct {
	File string
	SVG  []byte
}

// Draw draws all of them.
func Draw() ([]Picture, error) {
	var out []Picture
	for _, p := range []struct {
		file string
		draw func() ([]byte, error)
	}{
		{"charge.svg", drawCharge},
		{"learning.svg", drawLearning},
		{"density.svg", drawDensity},
		{"file-cache.svg", drawFileCache},
		{"lost-bet.svg", drawLostBet},
	} {
		picture, err := p.draw()
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", p.file, err)
		}
		out = append(out, Picture{p.file, picture})
	}
	return out, nil
}

// table is a file of what was measured, by column.
type table struct {
	words map[string][]string
	rows  int
}

func read(name string) (*table, error) {
	text, err := data.ReadFile("data/" + name)
	if err != nil {
		return nil, err
	}
	r := csv.NewReader(bytes.NewReader(text))
	r.Comment = '#'
	all, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := &table{words: map[string][]string{}, rows: len(all) - 1}
	for i, column := range all[0] {
		for _, row := range all[1:] {
			t.words[column] = append(t.words[column], row[i])
		}
	}
	return t, nil
}

// numbers is a column, with 0 for what is no number.
func (t *table) numbers(column string) []float64 {
	out := make([]float64, t.rows)
	for i, word := range t.words[column] {
		out[i], _ = strconv.ParseFloat(word, 64)
	}
	return out
}

// seconds is a column of milliseconds.
func (t *table) seconds(column string) []float64 {
	out := t.numbers(column)
	for i := range out {
		out[i] /= 1000
	}
	return out
}

func mean(of []float64) float64 {
	sum := 0.0
	for _, v := range of {
		sum += v
	}
	return sum / float64(len(of))
}
