package up_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/certtest"
)

// certified has a process show a certificate that names it.
func (s *site) certified(by *certtest.Authority, uri string) {
	cert, key := by.Sign(strings.NewReplacer("/", "-", ":", "").Replace(uri), uri)
	s.set("PLIMSOLL_TLS_CERT", cert)
	s.set("PLIMSOLL_TLS_KEY", key)
	s.set("PLIMSOLL_TLS_CA", by.CA())
}

// TestTLSEverywhere: API, agents' streams and command line speak TLS under an authority of
// the fleet's own; whoever trusts another one, or shows another name, gets nowhere.
func TestTLSEverywhere(t *testing.T) {
	ours := certtest.New(t)
	plain := newSite(t) // for a join token: the same store, before there is TLS
	plain.verb = "server"
	plain.write(wireConfig)
	plain.up()
	a := agentOf(t, "h7", plain)
	plain.stop()
	s := plain
	s.set("PLIMSOLL_REPLICA_ID", "r1")
	s.certified(ours, "plimsoll://replica/r1")
	s.up()
	a.set("PLIMSOLL_AGENT_REPLICAS", fmt.Sprintf("https://127.0.0.1:%d", s.port))
	a.certified(ours, "plimsoll://host/h7")
	a.up()
	if url := s.note().URL; !strings.HasPrefix(url, "https://") {
		t.Errorf("the API is at %s", url)
	}
	s.eventually("the host to be heard", func() bool {
		out, err := s.plimsoll("hosts")
		return err == nil && strings.Contains(out, "h7") && !strings.Contains(out, "silent")
	})
	if out, err := s.plimsoll("--ca", certtest.New(t).CA(), "hosts"); err == nil || !strings.Contains(out, "certificate") {
		t.Errorf("a server of another authority is trusted: %v %s", err, out)
	}
}

// plimsoll runs a command at this site.
func (s *site) plimsoll(args ...string) (string, error) {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(path, append([]string{"--data-dir", s.data}, args...)...)
	cmd.Env = []string{"HOME=/"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
