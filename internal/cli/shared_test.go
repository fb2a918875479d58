package cli

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrapBreaksEverything(t *testing.T) {
	for _, text := range []string{"", "a", strings.Repeat("word ", 50), strings.Repeat("x", 100), "a " + strings.Repeat("é", 45)} {
		lines := Wrap(text, 20)
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n == 0 || n > 20 {
				t.Errorf("a line of %d: %q", n, line)
			}
		}
		if got, want := strings.ReplaceAll(strings.Join(lines, ""), " ", ""), strings.ReplaceAll(text, " ", ""); got != want {
			t.Errorf("%q became %q", want, got)
		}
	}
}
