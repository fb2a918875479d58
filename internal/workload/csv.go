package workload

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/plimsoll-project/plimsoll/gate"
)

// longestMS is the longest life that is played: a week.
const longestMS = 7 * 24 * 3600 * 1000

// open opens a file, of which others may have written a byte order mark at the head.
func open(file string) (io.ReadCloser, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: name a CSV file that can be read; --help says what is in it", err)
	}
	text := bufio.NewReader(in)
	if head, _ := text.Peek(len(mark)); string(head) == mark {
		text.Discard(len(mark))
	}
	return struct {
		io.Reader
		io.Closer
	}{text, in}, nil
}

const mark = "\uFEFF" // a byte order mark

// eachRow hands every row's named columns on, in this order.
func eachRow(file string, columns []string, row func([]string) error) error {
	in, err := open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	r := csv.NewReader(in)
	r.ReuseRecord = true
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: it is empty; its first line names the columns %q", file, columns)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	where := make([]int, len(columns))
	for i, name := range columns {
		if where[i] = slices.Index(header, name); where[i] < 0 {
			return fmt.Errorf("%s:1: there is no column %q; the first line names the columns %q", file, name, columns)
		}
	}
	fields := make([]string, len(columns))
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for i := range fields {
			fields[i] = record[where[i]]
		}
		if err := row(fields); err != nil {
			line, _ := r.FieldPos(0)
			return fmt.Errorf("%s:%d: %w", file, line, err)
		}
	}
}

func milliseconds(name, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > longestMS {
		return 0, fmt.Errorf("%s %q: write whole milliseconds, from 0 to %d (a week)", name, text, longestMS)
	}
	return n, nil
}

func mebibytes(name, text string) (gate.Bytes, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > float64(gate.PiB/gate.MiB) {
		return 0, fmt.Errorf("%s %q: write MiB, from 0 to %d", name, text, gate.PiB/gate.MiB)
	}
	return gate.Bytes(n * float64(gate.MiB)), nil
}
