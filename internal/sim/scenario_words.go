package sim

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// wording is what is left of a line. The first fault is kept; what is read after it counts
// for nothing.
type wording struct {
	rest []string
	err  error
}

func (w *wording) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
	w.rest = nil
}

// word takes the next word; what it should be goes into the message when there is none.
func (w *wording) word(what string) string {
	if len(w.rest) == 0 {
		w.fail("%s is missing", what)
		return ""
	}
	next := w.rest[0]
	w.rest = w.rest[1:]
	return next
}

// has takes the next words if they are these.
func (w *wording) has(phrase string) bool {
	want := strings.Fields(phrase)
	if len(w.rest) < len(want) {
		return false
	}
	for i, word := range want {
		if w.rest[i] != word {
			return false
		}
	}
	w.rest = w.rest[len(want):]
	return true
}

// must takes a word that has to be this one.
func (w *wording) must(phrase string) {
	if !w.has(phrase) {
		w.fail("%q is missing", phrase)
	}
}

func (w *wording) number(what string) int64 {
	text := w.word(what)
	n, err := strconv.ParseInt(text, 10, 64)
	if (err != nil || n < 0) && w.err == nil {
		w.fail("%q is no number", text)
	}
	return n
}

func (w *wording) percent() int64 {
	text := w.word("a percentage")
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
	if (err != nil || n < 0 || n > 100 || !strings.HasSuffix(text, "%")) && w.err == nil {
		w.fail("%q is no percentage: write 25%%", text)
	}
	return n
}

func (w *wording) size() gate.Bytes {
	text := w.word("a size")
	for unit, bytes := range map[string]gate.Bytes{"MiB": gate.MiB, "GiB": gate.GiB} {
		digits, ok := strings.CutSuffix(text, unit)
		if n, err := strconv.ParseInt(digits, 10, 32); ok && err == nil && n >= 0 {
			return gate.Bytes(n) * bytes
		}
	}
	if w.err == nil {
		w.fail("%q is no size: write 512MiB or 4GiB", text)
	}
	return 0
}

func (w *wording) time() time.Duration {
	text := w.word("a time")
	d, err := time.ParseDuration(text)
	if err != nil && w.err == nil {
		w.fail("%q is no time: write 200ms, 2s or 10m", text)
	}
	return d
}

var name = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:-]*$`)

// names of things that are made.
func (w *wording) name(what string) string {
	text := w.word(what)
	if w.err == nil && !name.MatchString(text) {
		w.fail("%q is no name for %s", text, what)
	}
	return text
}

var span = regexp.MustCompile(`^([A-Za-z_-]+)(\d+)\.\.([A-Za-z_-]+)(\d+)$`)

// mostKeys is how many one word may stand for.
const mostKeys = 10_000

// keys takes one word: k1, k1..k20 for twenty, or k* for whoever was admitted by then.
func (w *wording) keys() []string {
	text := w.word("a key")
	m := span.FindStringSubmatch(text)
	if m == nil {
		if w.err == nil && (!name.MatchString(strings.TrimSuffix(text, "*")) || strings.Contains(text, "..")) {
			w.fail("%q is no key", text)
		}
		return []string{text}
	}
	first, _ := strconv.Atoi(m[2])
	last, _ := strconv.Atoi(m[4])
	if m[1] != m[3] || last < first || last-first >= mostKeys {
		w.fail("%q is no range of keys", text)
		return nil
	}
	var keys []string
	for i := first; i <= last; i++ {
		keys = append(keys, m[1]+strconv.Itoa(i))
	}
	return keys
}

// many takes words until the end, or until one of the stops.
func (w *wording) many(what string, stops ...string) []string {
	var out []string
	for len(w.rest) > 0 {
		for _, stop := range stops {
			if w.rest[0] == stop && len(out) > 0 {
				return out
			}
		}
		out = append(out, w.name(what))
	}
	if len(out) == 0 {
		w.fail("%s is missing", what)
	}
	return out
}

// bound is a number that is expected.
type bound struct{ least, most int64 }

func (b bound) holds(n int64) bool { return b.least <= n && n <= b.most }

func (b bound) String() string {
	switch {
	case b.least == b.most:
		return strconv.FormatInt(b.least, 10)
	case b.most == math.MaxInt64:
		return fmt.Sprint("at least ", b.least)
	}
	return fmt.Sprint("at most ", b.most)
}

func (w *wording) bound() bound { return w.bounded(func() int64 { return w.number("a number") }) }

func (w *wording) bounded(number func() int64) bound {
	switch {
	case w.has("at most"):
		return bound{math.MinInt64, number()}
	case w.has("at least"):
		return bound{number(), math.MaxInt64}
	}
	n := number()
	return bound{n, n}
}
