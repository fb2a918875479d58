package report

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// ruler is an axis over its values.
type ruler struct {
	Axis
	from, to float64   // the least and the most; in powers of those above 0
	zero     bool      // one of them is 0 or less, and the axis is in powers
	near     float64   // it begins at 0 where the least is not above this part of the most
	few      []float64 // the values themselves, where they are few
}

// mostTicks is up to how many values are ticks themselves.
const mostTicks = 8

func (a Axis) over(near float64, values ...[]float64) ruler {
	r := ruler{Axis: a, from: math.Inf(1), to: math.Inf(-1), near: near}
	for _, v := range slices.Concat(values...) {
		if a.Log && v <= 0 {
			r.zero = true
			continue
		}
		r.from, r.to = min(r.from, v), max(r.to, v)
		if len(r.few) <= mostTicks && !slices.Contains(r.few, v) {
			r.few = append(r.few, v)
		}
	}
	if r.from > r.to { // there is none above 0
		r.from, r.to = 1, 10
	}
	return r
}

// scale is the axis over values that go so far. What is 0 on an axis in powers lies on its edge,
// a power below all others.
func (r ruler) scale() svg.Scale {
	if r.From != 0 || r.To != 0 {
		return svg.Scale{From: r.From, To: r.To, Log: r.Log}
	}
	if r.Log {
		return r.inPowers()
	}
	from, to := r.from, r.to
	if from >= 0 && from <= to*r.near {
		from = 0
	}
	if from == to {
		to = from + 1
	}
	return svg.Scale{From: from, To: to}
}

func (r ruler) inPowers() svg.Scale {
	from, to := r.from, r.to
	if r.zero {
		from = power(decade(from) - 1)
	}
	if from == to {
		from, to = power(decade(from)), power(decade(from)+1)
	}
	return svg.Scale{From: from, To: to, Log: true}
}

// decade is the power of ten that is not above it.
func decade(v float64) int { return int(math.Floor(math.Log10(v) + 1e-9)) }

// tick is a place on an axis, and what is written there.
type tick struct {
	at    float64
	words string
}

// ticks are the axis' own, the values themselves where they are few and apart, or about five
// round ones.
func (r ruler) ticks(s svg.Scale) (out []tick) {
	for _, v := range r.places(s) {
		out = append(out, tick{v, number(v)})
	}
	if r.zero || r.Log && r.from < s.From {
		out = slices.DeleteFunc(out, func(t tick) bool { return t.at <= s.From*(1+1e-9) })
		out = slices.Insert(out, 0, tick{s.From, r.edge(s)})
	}
	return out
}

// edge is what is written where an axis in powers begins, and what is less lies, too.
func (r ruler) edge(s svg.Scale) string {
	if r.From == 0 && r.To == 0 {
		return "0"
	}
	return "≤ " + number(s.From)
}

func (r ruler) places(s svg.Scale) []float64 {
	switch {
	case len(r.Ticks) > 0:
		return r.Ticks
	case r.near < 1 && r.fit(s):
		return slices.Sorted(slices.Values(r.few))
	case s.Log:
		return powers(s)
	}
	return even(s)
}

// fit says whether what is written at the values themselves does not run together.
func (r ruler) fit(s svg.Scale) bool {
	if len(r.few) == 0 || len(r.few) > mostTicks {
		return false
	}
	at := slices.Sorted(slices.Values(r.few))
	for i := 1; i < len(at); i++ {
		if s.Px(at[i])-s.Px(at[i-1]) < (long(number(at[i]))+long(number(at[i-1])))/2+6 {
			return false
		}
	}
	return true
}

func powers(s svg.Scale) (out []float64) {
	every := 1 + (decade(s.To)-decade(s.From))/8
	for e := decade(s.From); e <= decade(s.To); e += every {
		if v := power(e); v >= s.From*(1-1e-9) {
			out = append(out, v)
		}
	}
	return out
}

func even(s svg.Scale) (out []float64) {
	step := round((s.To - s.From) / 5)
	for n := int(math.Ceil(s.From/step - 1e-9)); float64(n)*step <= s.To*(1+1e-9); n++ {
		out = append(out, float64(n)*step)
	}
	return out
}

// power is ten to it, the same bits everywhere.
func power(e int) float64 {
	v, _ := strconv.ParseFloat("1e"+strconv.Itoa(e), 64)
	return v
}

// round is the next of 1, 2, 5, 10, 20 … that is not less.
func round(step float64) float64 {
	ten := power(int(math.Floor(math.Log10(step))))
	for _, of := range []float64{1, 2, 5} {
		if of*ten >= step*(1-1e-9) {
			return of * ten
		}
	}
	return 10 * ten
}

// number writes an amount with as many digits as say something.
func number(v float64) string {
	switch size := math.Abs(v); {
	case v == math.Trunc(v) && size < 1e15, size >= 1000:
		return svg.Amount(v)
	case size >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 0.001:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', 1, 64), "e")
	e, _ := strconv.Atoi(exponent)
	if digits = strings.TrimSuffix(digits, ".0"); digits == "1" {
		return "10" + raised(e)
	}
	return digits + " × 10" + raised(e)
}

var high = strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹")

func raised(e int) string { return high.Replace(strconv.Itoa(e)) }
