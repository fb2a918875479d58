package link

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	a.key = a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.write("ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return k
}

func (a *authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// sign returns the files of a certificate that names an URI.
func (a *authority) sign(name, uri string) (cert, key string) {
	k := a.newKey()
	u, err := url.Parse(uri)
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{u},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name+".pem", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", private)
}

// TestTLS: both ends show who they are by a certificate of the one authority, or are refused.
func TestTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	for name, c := range map[string]struct {
		hostBy, replicaBy   *authority // nil: plaintext
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
				cert, key := c.hostBy.sign("host", c.hostURI)
				if s.TLS, err = Identity(cert, key, filepath.Join(c.hostBy.dir, "ca.pem")); err != nil {
					t.Fatal(err)
				}
				if c.replicaBy == nil {
					return
				}
				cert, key = c.replicaBy.sign("replica", c.replicaURI)
				if d.TLS, err = Identity(cert, key, filepath.Join(c.replicaBy.dir, "ca.pem")); err != nil {
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
