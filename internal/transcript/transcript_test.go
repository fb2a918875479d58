package transcript

import "testing"

func TestReplay(t *testing.T) {
	const written = "# why\nsay hello\n  an old answer\n\nsay twice n=2\n  x\n"
	const want = "# why\nsay hello\n  hello\n\nsay twice n=2\n  twice\n  twice\n"
	got := replay(written, func(command string) string {
		l := Parse(command)
		if l.Set["n"] == "2" {
			return l.Words[0] + "\n" + l.Words[0]
		}
		return l.Words[0]
	})
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if again := replay(got, func(command string) string { return "" }); again != "# why\nsay hello\n\nsay twice n=2\n" {
		t.Errorf("commands without an answer:\n%s", again)
	}
}

func TestParse(t *testing.T) {
	l := Parse("reserve a 7 mem=512 stateful")
	if l.Verb != "reserve" || !l.Has("stateful") || l.Has("mem") || l.Set["mem"] != "512" || len(l.Words) != 3 {
		t.Errorf("%+v", l)
	}
}
