package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOnATerminalTheLineIsRewrittenAndGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newWaitLine(&out)
		l.rewrite, l.width = true, func() int { return 40 }
		l.say("waiting for a slot, place 3")
		time.Sleep(2*time.Second + time.Millisecond)
		l.say("waiting for a slot, place 2, and much more than there is room for")
		l.clear()
		l.clear()
		want := []string{
			"", "waiting for a slot, place 3", "waiting for a slot, place 3, waited 1 s", "waiting for a slot, place 3, waited 2 s",
			"waiting for a slot, place 2, and much …", "",
		}
		if got := strings.Split(out.String(), "\r\x1b[K"); strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q", got)
		}
	})
}

func TestElsewhereTheLineIsRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newWaitLine(&out)
		for i := range 13 {
			l.say("waiting, place " + string(rune('a'+i)))
			time.Sleep(5 * time.Second)
		}
		l.clear()
		want := "plimsoll: waiting, place a\nplimsoll: waiting, place g, waited 30 s\nplimsoll: waiting, place m, waited 60 s\n"
		if out.String() != want {
			t.Error(out.String())
		}
	})
}
