package gate

import (
	"fmt"
	"math"
	"math/bits"
)

// Bytes is an amount of memory. Its arithmetic saturates instead of wrapping, so
// that no input, however absurd, can turn a giant into a credit.
type Bytes int64

// The units of the wire and of people.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	PiB Bytes = 1 << 50

	maxBytes Bytes = math.MaxInt64
	minBytes Bytes = math.MinInt64
)

// FromMiB converts the wire's unit (memory_mb) to Bytes.
func FromMiB(n int64) Bytes {
	switch {
	case n > int64(maxBytes/MiB):
		return maxBytes
	case n < int64(minBytes/MiB):
		return minBytes
	}
	return Bytes(n) * MiB
}

// Add returns b + c, saturated.
func (b Bytes) Add(c Bytes) Bytes {
	sum := b + c
	switch {
	case c > 0 && sum < b:
		return maxBytes
	case c < 0 && sum > b:
		return minBytes
	}
	return sum
}

// Sub returns b - c, saturated.
func (b Bytes) Sub(c Bytes) Bytes {
	diff := b - c
	switch {
	case c > 0 && diff > b:
		return minBytes
	case c < 0 && diff < b:
		return maxBytes
	}
	return diff
}

// Positive returns b where it is above zero, else zero: the ⁺ of the formulas.
func (b Bytes) Positive() Bytes { return max(b, 0) }

// Permille returns n thousandths of b, rounded down, saturated.
func (b Bytes) Permille(n int64) Bytes {
	if b.small(n) {
		product := b * Bytes(n)
		q := product / 1000
		if q*1000 > product {
			q--
		}
		return q
	}
	return b.Scale(n, 1000)
}

// per1024 is Scale(n, 1024).
func (b Bytes) per1024(n int64) Bytes {
	if b.small(n) {
		return b * Bytes(n) >> 10
	}
	return b.Scale(n, 1024)
}

// small says whether a product of the two needs no 128 bits, as nearly always: then a constant
// divides it without a division.
func (b Bytes) small(n int64) bool { return uint64(b+1<<47) < 1<<48 && uint64(n) < 1<<15 }

// Scale returns b × num / den, rounded towards minus infinity, saturated. The product is
// taken in 128 bits, so nothing is lost on the way. den must be above zero.
func (b Bytes) Scale(num, den int64) Bytes {
	negative := (b < 0) != (num < 0)
	hi, lo := bits.Mul64(magnitude(int64(b)), magnitude(num))
	if hi >= uint64(den) { // the quotient needs more than 64 bits
		return saturated(negative)
	}
	q, rest := bits.Div64(hi, lo, uint64(den))
	switch {
	case q > math.MaxInt64:
		return saturated(negative)
	case !negative:
		return Bytes(q)
	case rest > 0:
		q++
	}
	return -Bytes(q)
}

func saturated(negative bool) Bytes {
	if negative {
		return minBytes
	}
	return maxBytes
}

// magnitude is |n|, which for the least int64 fits only without a sign.
func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// FloorMiB returns b in whole MiB, rounded towards minus infinity: what a host may say it has.
func (b Bytes) FloorMiB() int64 {
	return int64(b >> 20)
}

// CeilMiB returns b in whole MiB, rounded up: what an ask must be counted as.
func (b Bytes) CeilMiB() int64 {
	q := int64(b >> 20)
	if b%MiB != 0 {
		q++
	}
	return q
}

// String prints b in MiB, the unit of every table and message.
func (b Bytes) String() string {
	if b%MiB == 0 {
		return fmt.Sprintf("%d MiB", int64(b/MiB))
	}
	return fmt.Sprintf("%.1f MiB", float64(b)/float64(MiB))
}
