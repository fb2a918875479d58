package link

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/certtest"
)

// TestTLS: both ends show who they are by a certificate of the one authority, or are refused.
func TestTLS(t *testing.T) {
	ours, theirs := certtest.New(t), certtest.New(t)
	for name, c := range map[string]struct {
		hostBy, replicaBy   *certtest.Authority // nil: plaintext
		hostURI, replicaURI string
		want                string // "": it works
	}{
		"as it should be":            {hostBy: ours, replicaBy: ours, hostURI: "plimsoll://host/h1", replicaURI: "plimsoll://replica/r1"},
		"another host's certificate": {hostBy: ours, replicaBy: ours, hostURI: "plimsoll://host/h2", replicaURI: "plimsoll://replica/r1", want: "does not name plimsoll://host/h1"},
		"a host's as a replica":      {hostBy: ours, replicaBy: ours, hostURI: "plimsoll://host/h1", replicaURI: "plimsoll://host/r1", want: "does not name plimsoll://replica/r1"},
		"another replica's":          {hostBy: ours, replicaBy: ours, hostURI: "plimsoll://host/h1", replicaURI: "plimsoll://replica/r2", want: "does not name plimsoll://replica/r1"},
		"a host of others":           {hostBy: theirs, replicaBy: ours, hostURI: "plimsoll://host/h1", replicaURI: "plimsoll://replica/r1", want: "unknown authority"},
		"a replica of others":        {hostBy: ours, replicaBy: theirs, hostURI: "plimsoll://host/h1", replicaURI: "plimsoll://replica/r1", want: "certificate"},
		"a replica without":          {hostBy: ours, hostURI: "plimsoll://host/h1", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(_ *rig, s *ServerOptions, d *DialerOptions) {
				var err error
				cert, key := c.hostBy.Sign("host", c.hostURI)
				if s.TLS, err = Identity(cert, key, c.hostBy.CA()); err != nil {
					t.Fatal(err)
				}
				if c.replicaBy == nil {
					return
				}
				cert, key = c.replicaBy.Sign("replica", c.replicaURI)
				if d.TLS, err = Identity(cert, key, c.replicaBy.CA()); err != nil {
					t.Fatal(err)
				}
			})
			conn, err := r.dialer.Dial(within(t), r.registered())
			if err == nil {
				_, err = conn.Verdict(within(t))
				conn.Close()
			}
			works := name == "as it should be"
			if (err == nil) != works || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; it should say %q", err, c.want)
			}
		})
	}
}

// TestEndpoints: what is no address, or not of the kind that is configured, is refused before
// anything is dialled.
func TestEndpoints(t *testing.T) {
	plain := NewDialer(DialerOptions{})
	for endpoint, want := range map[string]string{
		"127.0.0.1:7":         "",
		"http://127.0.0.1:7":  "",
		"http://127.0.0.1:7/": "",
		"https://127.0.0.1:7": "set tls.cert",
		"ftp://127.0.0.1:7":   "no host:port",
		"127.0.0.1":           "no host:port",
		"http://a/b:c/d":      "no host:port",
		"":                    "no host:port",
	} {
		_, err := plain.address(endpoint)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; it should say %q", endpoint, err, want)
		}
	}
	if _, err := Identity("/nowhere/cert", "/nowhere/key", "/nowhere/ca"); err == nil || !strings.Contains(err.Error(), "tls.cert") {
		t.Error(err)
	}
	bad := filepath.Join(t.TempDir(), "ca.pem")
	os.WriteFile(bad, []byte("no certificate"), 0o600)
	if _, err := Authority(bad); err == nil || !strings.Contains(err.Error(), "PEM") {
		t.Error(err)
	}
}
