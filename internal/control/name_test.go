package control

import (
	"regexp"
	"testing"
)

// The contract's pattern for keys and names is the oracle.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

func FuzzName(f *testing.F) {
	for c := range 256 {
		f.Add(string([]byte{'a', byte(c)}), uint8(1))
	}
	for _, times := range []uint8{0, 1, 63, 64, 65, 128, 129, 255} {
		f.Add("a", times)
		f.Add("ab", times)
	}
	f.Add("a\n", uint8(1))
	f.Fuzz(func(t *testing.T, s string, times uint8) {
		var name string
		for range times {
			name += s
		}
		if len(name) > 1<<12 {
			t.Skip()
		}
		if got, want := isName(name), namePattern.MatchString(name); got != want {
			t.Errorf("%q: %v, by the contract %v", name, got, want)
		}
	})
}
