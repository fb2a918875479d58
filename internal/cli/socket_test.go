package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/discover"
)

func TestSocketOf(t *testing.T) {
	here := filepath.Join(t.TempDir(), "here.sock")
	if err := os.WriteFile(here, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, environment, endpoint, note, want string
	}{
		{"the environment goes first", "/env", "unix://" + here, "/note", "/env"},
		{"then the host's own word, if it is on this machine", "", "unix://" + here, "/note", here},
		{"then the note", "", "unix:///gone.sock", "/note", "/note"},
		{"a word that does not fit is better than none", "", "unix:///gone.sock", "", "/gone.sock"},
		{"a host that says nothing", "", "", "/note", "/note"},
		{"a host elsewhere", "", "tcp://10.0.0.7:7071", "/note", ""},
		{"nothing known", "", "", "", ""},
	} {
		w := way{socket: c.environment, note: discover.Note{Socket: c.note}}
		got, err := w.socketOf(&api.Admission{Host: "h", Endpoint: c.endpoint})
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestTheTokenStaysHere(t *testing.T) {
	got := withoutToken([]string{"A=1", "PLIMSOLL_TOKEN=secret", "PLIMSOLL_TOKENS=2"})
	if len(got) != 2 || got[0] != "A=1" || got[1] != "PLIMSOLL_TOKENS=2" {
		t.Error(got)
	}
}

// The token that a note names is for the servers of that note, any of them, and for no other.
func TestTheTokenOfANoteIsForItsServers(t *testing.T) {
	n := discover.Note{URL: "http://a:1,http://b:1"}
	for named, want := range map[string]bool{
		"": true, "http://b:1": true, "http://a:1,http://b:1": true, "http://c:1": false, "http://a:1,http://c:1": false, "http://b": false,
	} {
		if isAt(n, named) != want {
			t.Errorf("%q: %v", named, !want)
		}
	}
}
