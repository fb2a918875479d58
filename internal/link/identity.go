package link

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Who an end of a stream is stands in its certificate as an URI: plimsoll://host/ID of an
// agent, plimsoll://replica/ID of a replica. The certificate's DNS names and addresses do not
// matter there, for agents are dialled by what they registered.
const (
	hostURI    = "plimsoll://host/"
	replicaURI = "plimsoll://replica/"
)

// Identity reads a certificate with its key, and the authority that signed those of all
// others. It is good for both ends.
func Identity(certFile, keyFile, caFile string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate (tls.cert %s, tls.key %s): %w", certFile, keyFile, err)
	}
	pool, err := Authority(caFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool, MinVersion: tls.VersionTLS13}, nil
}

// Authority reads the certificates of an authority.
func Authority(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the certificate of the authority: %s holds none in PEM form", file)
	}
	return pool, nil
}

// forHost is what a replica dials one host with: whoever answers must be that host.
func forHost(c *tls.Config, hostID string) *tls.Config {
	c = c.Clone()
	roots := c.RootCAs
	c.InsecureSkipVerify = true // of the name; the chain and the identity are verified here
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the agent shows no certificate")
		}
		rest := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			rest.AddCert(cert)
		}
		if _, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: rest}); err != nil {
			return err
		}
		return isIn(s.PeerCertificates[0], hostURI+hostID)
	}
	return c
}

// forReplicas is what an agent listens with: whoever dials must have a certificate of the
// same authority. Whose it is is compared with the hello.
func forReplicas(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.NextProtos = []string{"h2"}
	return c
}

func isIn(cert *x509.Certificate, uri string) error {
	for _, u := range cert.URIs {
		if u.String() == uri {
			return nil
		}
	}
	return fmt.Errorf("%w: its certificate does not name %s among its URIs", ErrRefused, short(uri))
}
