package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
)

func blocks() style {
	return style{yes: "✓", no: "✗", dots: "…", rule: "─", fills: [parts]string{"█", "▓", "▒", "·", "░"}}
}

func TestBarsAreAsWideAsTheyShouldBe(t *testing.T) {
	cases := []struct {
		name    string
		amounts [parts]int64
		want    string
	}{
		{"empty host", [parts]int64{left: 3840, headroom: 256}, "···················░"},
		{"committed", [parts]int64{used: 280, covered: 3304, left: 256, headroom: 256}, "█▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓·░"},
		{"what is there is seen", [parts]int64{used: 1, reserved: 3000, headroom: 1095}, "█▒▒▒▒▒▒▒▒▒▒▒▒▒▒░░░░░"},
		{"nothing is known", [parts]int64{}, ""},
	}
	for _, c := range cases {
		if got := blocks().bar(c.amounts, 20); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAHeadingFillsTheLine(t *testing.T) {
	for _, title := range []string{"Short", strings.Repeat("long ", 40)} {
		line := heading("✓", 3, title, 12345*time.Millisecond)
		if utf8.RuneCountInString(line) != width || !strings.HasSuffix(line, "12.3 s") {
			t.Errorf("%d columns: %q", utf8.RuneCountInString(line), line)
		}
	}
}

func TestRowsFitTheScreen(t *testing.T) {
	s := &screen{out: io.Discard, style: blocks()}
	s.row("name", "3,584 of 3,840 MiB", "3,840 of 3,840 MiB")
	s.pair(strings.Repeat("x", column), strings.Repeat("y", column))
	s.note("%s", strings.Repeat("a long note, ", 20))
	for _, line := range s.details {
		if n := indent + utf8.RuneCountInString(line); n > width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestAPlainScreen(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, style: blocks()}
	s.begin(2, "Something")
	s.progress("not said: too soon")
	s.said = s.said.Add(-time.Minute)
	s.progress("half-way")
	s.progress("not said either")
	s.row("figure", "7", "30")
	s.end(nil)
	lines := strings.Split(out.String(), "\n")
	if lines[0] != "  … 2  half-way" || !strings.HasPrefix(lines[1], "✓ 2  Something ") || len(lines) != 5 {
		t.Errorf("%q", lines)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("escapes on what is no terminal")
	}
}

func TestATerminalsLineIsRewritten(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, style: blocks(), tty: true}
	s.begin(1, "Something")
	s.progress("%s", strings.Repeat("very far ", 30))
	s.end(nil)
	drawn := strings.Split(out.String(), "\r\x1b[K")
	if len(drawn) != 4 || utf8.RuneCountInString(drawn[2]) >= width || !strings.HasPrefix(drawn[3], "✓ 1  Something") {
		t.Errorf("%q", drawn)
	}
}

func TestAComplaintSaysWhatWasExpected(t *testing.T) {
	err := fmt.Errorf("host committed: %w", mismatch{"creates admitted", "7", "8"})
	got := strings.Join(complaint(err), "\n")
	if got != "host committed: creates admitted\nexpected  7\ngot       8" {
		t.Errorf("%s", got)
	}
	if got := complaint(errors.New("no route")); len(got) != 1 || got[0] != "no route" {
		t.Errorf("%q", got)
	}
	if got := complaint(nil); got != nil {
		t.Errorf("%q", got)
	}
}

func TestTheLookFollowsTheEnvironment(t *testing.T) {
	for _, c := range []struct{ all, lang, yes string }{
		{"", "", "✓"}, {"", "C.UTF-8", "✓"}, {"C", "C.UTF-8", "+"}, {"", "en_US.ISO-8859-1", "+"}, {"de_DE.utf8", "C", "✓"},
	} {
		t.Setenv("LC_ALL", c.all)
		t.Setenv("LC_CTYPE", "")
		t.Setenv("LANG", c.lang)
		if s := styleFor(io.Discard); s.yes != c.yes || s.colour {
			t.Errorf("LC_ALL=%q LANG=%q: %+v", c.all, c.lang, s)
		}
	}
}

func TestAHostIsTakenApart(t *testing.T) {
	h := &api.Host{
		BindingLimit: "budget", FreeMB: 3816, HeadroomMB: 256, UnresidentMB: 3304, ReservedMB: 0,
		Limits: []api.Limit{{Name: "machine", UsedMB: 900}, {Name: "budget", UsedMB: 280}},
	}
	want := [parts]int64{used: 280, covered: 3304, left: 256, headroom: 256}
	if got := partsOf(h); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	h.UnresidentMB = 5000
	if got := partsOf(h)[left]; got != 0 {
		t.Errorf("%d MiB are left over the line", got)
	}
}

func TestPromisedIsAllThatWasSaidYesTo(t *testing.T) {
	h := &api.Host{ReservedMB: 128, Sandboxes: []api.Sandbox{{ChargeMB: 128}, {ChargeMB: 200}}}
	if got := promised(h); got != 456*gate.MiB {
		t.Errorf("%s", got)
	}
}
