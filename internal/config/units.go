package config

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/plimsoll-project/plimsoll/gate"
)

const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

var (
	wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,18})$`)
	number      = regexp.MustCompile(`^-?[0-9]{1,18}(\.[0-9]{1,18})?$`)
	size        = regexp.MustCompile(`^(-?[0-9]{1,18}(?:\.[0-9]{1,18})?) *([A-Za-z]*)$`)
)

// unit is one that sizes are written in.
type unit struct {
	name string
	size gate.Bytes
}

// units returns them, the largest first.
func units() []unit {
	return []unit{{"TiB", 1024 * gate.GiB}, {"GiB", gate.GiB}, {"MiB", gate.MiB}, {"KiB", gate.KiB}}
}

// parseBytes reads a size such as 512MiB or 1.5GiB and returns what is wrong with it, or "".
func parseBytes(s string) (b gate.Bytes, text string) {
	m := size.FindStringSubmatch(s)
	if m == nil || strings.Contains(s, " ") {
		return 0, fmt.Sprintf("%q is no size; write a number and its unit without a space, as in 512MiB", short(s))
	}
	if m[2] == "" {
		return 0, fmt.Sprintf("%q has no unit; write KiB, MiB, GiB or TiB behind it, as in 512MiB", short(s))
	}
	for _, u := range units() {
		if u.name == m[2] {
			return exactly(m[1], u)
		}
	}
	return 0, fmt.Sprintf("%q has the unit %s, which is not known; write KiB, MiB, GiB or TiB, as in 512MiB", short(s), short(m[2]))
}

// exactly multiplies a decimal number by a unit, refusing fractions of a byte.
func exactly(s string, u unit) (gate.Bytes, string) {
	r, _ := new(big.Rat).SetString(s) // s matched the pattern of a number
	r.Mul(r, new(big.Rat).SetInt64(int64(u.size)))
	switch {
	case !r.IsInt():
		return 0, fmt.Sprintf("%q is no whole number of bytes; write it in a smaller unit", s+u.name)
	case r.Sign() < 0:
		return 0, fmt.Sprintf("%q is below zero; write a size above it", s+u.name)
	case r.Num().Cmp(big.NewInt(maxSize)) > 0:
		return 0, fmt.Sprintf("%q is more than any machine has; write at most 1048576TiB", s+u.name)
	}
	return gate.Bytes(r.Num().Int64()), ""
}

// maxSize bounds every size at 2^60 bytes, so that no sum of a few can wrap.
const maxSize = 1 << 60

// formatBytes prints a size in the largest unit that holds it as a whole number.
func formatBytes(b gate.Bytes) string {
	for _, u := range units() {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	// Below one KiB in part: exact, because a fraction of a KiB has at most ten places.
	return trimZeros(new(big.Rat).SetFrac64(int64(b), int64(gate.KiB)).FloatString(10)) + "KiB"
}

// parseDuration reads a duration such as 15s or 1m30s.
func parseDuration(s string) (time.Duration, string) {
	d, err := time.ParseDuration(s)
	switch {
	case number.MatchString(s):
		return 0, fmt.Sprintf("%q has no unit; write ms, s, m or h behind it, as in 15s", short(s))
	case err != nil:
		return 0, fmt.Sprintf("%q is no duration; write a number and its unit, as in 15s", short(s))
	case d < 0:
		return 0, fmt.Sprintf("%q is below zero; write a duration above it", short(s))
	}
	return d, ""
}

// formatDuration prints a duration without the zeros that time.Duration adds.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// parseDecimal reads a number with at most so many decimal places, as an integer of them.
func parseDecimal(s string, places int) (int64, string) {
	if !number.MatchString(s) {
		return 0, fmt.Sprintf("%q is no number; write it as in 0.5", short(s))
	}
	r, _ := new(big.Rat).SetString(s)
	r.Mul(r, new(big.Rat).SetInt64(pow10(places)))
	switch {
	case !r.IsInt():
		return 0, fmt.Sprintf("%q has too many decimal places; write at most %d", short(s), places)
	case r.Sign() < 0:
		return 0, fmt.Sprintf("%q is below zero; write a number above it", short(s))
	case r.Num().Cmp(big.NewInt(maxCount)) > 0:
		return 0, fmt.Sprintf("%q is beyond any use; write at most %d", short(s), maxCount/pow10(places))
	}
	return r.Num().Int64(), ""
}

func formatDecimal(n int64, places int) string {
	return trimZeros(new(big.Rat).SetFrac64(n, pow10(places)).FloatString(places))
}

func pow10(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
