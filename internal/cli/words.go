package cli

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// grouped writes a number with a comma at each thousand.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// seconds writes a short time the way people say it.
func seconds(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(float64(d.Round(100*time.Millisecond))/float64(time.Second), 'f', -1, 64) + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int64(d.Round(time.Second)/time.Second))
	}
	return fmt.Sprintf("%d min", int64(d.Round(time.Minute)/time.Minute))
}

// age writes how long ago something was, in one unit.
func age(d time.Duration) string {
	d = max(d, 0)
	for _, u := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= 2*u.size {
			return fmt.Sprintf("%d %s", d/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// span writes milliseconds as a duration.
func span(ms int64) string { return seconds(time.Duration(ms) * time.Millisecond) }

// clock writes an instant so that it can be compared with a log's.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// ago writes an instant and how long before now it was.
func ago(t, now time.Time) string { return clock(t) + " (" + age(now.Sub(t)) + " ago)" }

// short cuts a text to n characters.
func short(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}

// busy writes the slots of a pool, where they are known and bounded.
func busy(held, slots *int64) string {
	if held == nil || slots == nil || *slots < 0 {
		return ""
	}
	return fmt.Sprintf(" (%d of %d busy)", *held, *slots)
}

// plain takes what could steer a terminal out of a text that came from elsewhere.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return '?'
		}
		return r
	}, text)
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

var memory = regexp.MustCompile(`^([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([A-Za-z]*)$`)

// parseMemory reads 512MiB or 1.5GiB into whole MiB.
func parseMemory(text string) (int64, error) {
	m := memory.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, fmt.Errorf("%q is no size: write it as 512MiB or 2GiB", text)
	}
	factor := map[string]int64{"MiB": 1, "GiB": 1 << 10, "TiB": 1 << 20}[m[2]]
	if factor == 0 {
		return 0, fmt.Errorf("%q has no unit that is known: write MiB, GiB or TiB, as in 512MiB", text)
	}
	amount, _ := new(big.Rat).SetString(m[1]) // it matched the pattern of a number
	amount.Mul(amount, big.NewRat(factor, 1))
	if !amount.IsInt() || amount.Sign() == 0 {
		return 0, fmt.Errorf("%q is no whole number of MiB above zero", text)
	}
	return amount.Num().Int64(), nil
}
