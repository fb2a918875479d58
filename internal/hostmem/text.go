package hostmem

import (
	"bytes"
	"math"

	"github.com/plimsoll-project/plimsoll/gate"
)

// eachLine calls f with the first word of every line and with what follows it. It
// allocates nothing: the parsers run for every sandbox in every sample.
func eachLine(text []byte, f func(key, rest []byte)) {
	for len(text) > 0 {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		if key, rest := cutWord(line); len(key) > 0 {
			f(key, rest)
		}
	}
}

// cutWord splits the first word off a line.
func cutWord(line []byte) (word, rest []byte) {
	begin := 0
	for begin < len(line) && blank(line[begin]) {
		begin++
	}
	for i := begin; i < len(line); i++ {
		if blank(line[i]) {
			return line[begin:i], line[i+1:]
		}
	}
	return line[begin:], nil
}

func blank(b byte) bool { return b == ' ' || b == '\t' }

// number reads the decimal number that text begins with. It saturates, and says false
// where there are no digits.
func number(text []byte) (int64, bool) {
	begin := 0
	for begin < len(text) && blank(text[begin]) {
		begin++
	}
	text = text[begin:]
	var n int64
	i := 0
	for ; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		d := int64(text[i] - '0')
		if n > (math.MaxInt64-d)/10 {
			n = math.MaxInt64
			continue
		}
		n = n*10 + d
	}
	return n, i > 0
}

// setBytes stores the number that text begins with, in units of unit; text without a
// number leaves dst as it was.
func setBytes(dst *gate.Bytes, text []byte, unit gate.Bytes) bool {
	n, ok := number(text)
	if !ok {
		return false
	}
	*dst = scaled(n, unit)
	return true
}

// scaled returns n units as Bytes, saturated.
func scaled(n int64, unit gate.Bytes) gate.Bytes {
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	return gate.Bytes(n) * unit
}
