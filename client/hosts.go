package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/url"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

func hostPath(id, verb string) string { return "/v1/hosts/" + url.PathEscape(id) + "/" + verb }

func (c *Client) hostDeed(ctx context.Context, id, verb, reason string) (*api.HostChange, error) {
	return send[api.HostChange](ctx, c, http.MethodPost, hostPath(id, verb), api.HostDeedRequest{Reason: reason})
}

// CordonHost lets a host take nothing new; what was promised there boots.
func (c *Client) CordonHost(ctx context.Context, id, reason string) (*api.HostChange, error) {
	return c.hostDeed(ctx, id, "cordon", reason)
}

// UncordonHost lets a cordoned host take new admissions again.
func (c *Client) UncordonHost(ctx context.Context, id, reason string) (*api.HostChange, error) {
	return c.hostDeed(ctx, id, "uncordon", reason)
}

// DrainHost empties a host, for good. To say it again shows how far it is.
func (c *Client) DrainHost(ctx context.Context, id, reason string) (*api.HostChange, error) {
	return c.hostDeed(ctx, id, "drain", reason)
}

// BuryHost says that nothing runs on a host any more. A host that is heard, and not both
// drained and empty, is api.HostStateConflict.
func (c *Client) BuryHost(ctx context.Context, id, reason string) (*api.HostChange, error) {
	return c.hostDeed(ctx, id, "bury", reason)
}

// CreateJoinToken makes a token that lets one host join: the one that is named, or any that is
// new; zero lasts as long as the server's default.
func (c *Client) CreateJoinToken(ctx context.Context, host string, lasts time.Duration) (*api.JoinTokenMade, error) {
	q := api.JoinTokenRequest{Host: host}
	if lasts > 0 {
		ms := lasts.Milliseconds()
		q.ForMS = &ms
	}
	return send[api.JoinTokenMade](ctx, c, http.MethodPost, "/v1/join-tokens", q)
}

// JoinTokens lists them, without their text.
func (c *Client) JoinTokens(ctx context.Context) (*api.JoinTokenList, error) {
	return get[api.JoinTokenList](ctx, c, "/v1/join-tokens", nil)
}

// RevokeJoinToken makes an unused one void.
func (c *Client) RevokeJoinToken(ctx context.Context, id string) (*api.JoinToken, error) {
	return send[api.JoinToken](ctx, c, http.MethodDelete, "/v1/join-tokens/"+url.PathEscape(id), nil)
}

// WithAuthority trusts servers whose certificate one of these authorities signed, and no
// others: for a control plane with an authority of its own.
func WithAuthority(pool *x509.CertPool) Option {
	return func(c *Client) {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
		c.http = &http.Client{Transport: transport, CheckRedirect: stayHere}
	}
}

// JoinHost registers a host by a join token, which it uses up, and returns the host's
// credential. It is asked without a token of the caller's.
func (c *Client) JoinHost(ctx context.Context, q api.HostJoinRequest) (*api.HostJoined, error) {
	return send[api.HostJoined](ctx, c, http.MethodPost, "/v1/hosts:join", q)
}

// RegisterHost says where a host's agent listens, and begins or goes on with its life. The
// client's token is the host's credential.
func (c *Client) RegisterHost(ctx context.Context, id string, q api.HostRegistration) (*api.HostRegistered, error) {
	return send[api.HostRegistered](ctx, c, http.MethodPost, hostPath(id, "register"), q)
}
