package report

import (
	"math"
	"strconv"

	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// scale is the axis over values that reach so far.
func (a Axis) scale(from, to float64) svg.Scale {
	if a.From != 0 || a.To != 0 {
		return svg.Scale{From: a.From, To: a.To, Log: a.Log}
	}
	switch {
	case a.Log:
		if to == from {
			from, to = from/10, to*10
		}
	case from >= 0:
		from = 0
		if to == 0 {
			to = 1
		}
	case to == from:
		to = from + 1
	}
	return svg.Scale{From: from, To: to, Log: a.Log}
}

// ticks are the axis' own, or about five round ones.
func (a Axis) ticks(from, to float64) (out []float64) {
	if len(a.Ticks) > 0 {
		return a.Ticks
	}
	s := a.scale(from, to)
	if s.Log {
		for e := math.Ceil(math.Log10(s.From) - 1e-9); e <= math.Log10(s.To)+1e-9; e++ {
			out = append(out, power(int(e)))
		}
		return out
	}
	step := round((s.To - s.From) / 5)
	for n := math.Ceil(s.From/step - 1e-9); n*step <= s.To*(1+1e-9); n++ {
		out = append(out, n*step)
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
	return strconv.FormatFloat(v, 'e', 1, 64)
}
