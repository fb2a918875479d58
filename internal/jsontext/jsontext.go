// Package jsontext appends values to a JSON text as encoding/json writes them, byte for byte,
// without reflection. It serves the few documents that are written for every admission;
// whatever is unusual in a value is left to encoding/json.
package jsontext

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// String appends a string in quotes.
func String(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return Any(b, s)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// Float appends a number.
func Float(b []byte, f float64) []byte {
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) || math.IsNaN(f) {
		return Any(b, f)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

// Time appends an instant.
func Time(b []byte, t time.Time) []byte {
	text, err := t.AppendText(append(b, '"'))
	if err != nil {
		return Any(b, t)
	}
	return append(text, '"')
}

// Any appends a value of any type that can be written; it panics at others.
func Any(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(b, text...)
}

// The following append a field by its name, as in `,"name":`, unless it says nothing.

// Words appends a string that is not empty.
func Words(b []byte, name, v string) []byte {
	if v == "" {
		return b
	}
	return String(append(b, name...), v)
}

// Number appends a number that is not zero.
func Number(b []byte, name string, v int64) []byte {
	if v == 0 {
		return b
	}
	return strconv.AppendInt(append(b, name...), v, 10)
}

// Yes appends what is true.
func Yes(b []byte, name string, v bool) []byte {
	if !v {
		return b
	}
	return append(append(b, name...), "true"...)
}

// At appends an instant that there is.
func At(b []byte, name string, t *time.Time) []byte {
	if t == nil {
		return b
	}
	return Time(append(b, name...), *t)
}
