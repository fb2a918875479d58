// Package client is the Go SDK: it asks a replica for admission, waits as long as its caller
// is willing to, and gives back what was got.
//
//	c, err := client.New("http://127.0.0.1:7070", token)
//	defer c.Close()
//	err = c.Hold(ctx, api.AdmissionRequest{Class: "agent"}, client.Options{Wait: 30 * time.Second},
//		func(ctx context.Context, l *client.Lease) error {
//			return work(ctx, l.Ticket()) // boot with it: see client/boot
//		})
//	switch {
//	case err == nil: // done, and released
//	case client.NotNow(err): // a tempo: park the work as waiting, never as failed
//	default: // a rule or a fault: waiting will not change it
//	}
//
// A no is an [api.Refusal], so errors.Is(err, api.PoolFull) asks for its code. A place in the
// queue that outlived the caller's patience is a [StillWaiting]: it is no refusal, and the
// place is kept. A replica that nobody reached is an [Unreachable]. All of these are NotNow: a tempo
// and no failure. Never write them to a status column, and never run the work outside a sandbox for them.
//
// In refuse mode the client asks again with full jitter on top of the server's appointment,
// never before it: a call refused with retry_after_ms 2400 comes back between 2.4 s and
// 2.4 s plus the window of its try (250 ms, 500 ms, … 8 s). Asking twice is safe, for a key
// names one admission; without a key a random one is made.
//
// What follows no answer at all is bounded by one budget a client ([backoff.Budget]), so that a
// client with a thousand callers does not amplify an outage.
//
// Several replicas are several addresses, separated by commas. A client asks one of them, and
// the next where that one does not answer, or has no store at the moment; what might be done
// twice by that goes to the next only if it cannot have been heard.
//
// A Client may be used from any goroutine.
package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/plimsoll-project/plimsoll/backoff"
)

// Client speaks to one control plane.
type Client struct {
	bases  []*url.URL
	at     atomic.Uint32 // index of the replica that is asked first
	token  string
	http   *http.Client
	agent  string        // User-Agent
	random func() uint64 // for jitter
	policy backoff.Policy
	within time.Duration // an answer comes, beyond what is held
	budget budget
	undo   undoing
}

// Option changes a Client while it is made.
type Option func(*Client)

// WithHTTPClient sends through another HTTP client, for TLS settings of one's own. It must
// not have a Timeout below 30 s, for a long poll is held that long.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithRandom takes the jitter from random. For tests.
func WithRandom(random func() uint64) Option { return func(c *Client) { c.random = random } }

// WithBackoff sets the windows of the backoff, base and cap; its deadline is each call's own.
func WithBackoff(p backoff.Policy) Option { return func(c *Client) { c.policy = p } }

// WithTimeout sets how long an answer may take, beyond what a long poll is held; 15 s without it.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.within = d } }

// WithUserAgent says who is calling.
func WithUserAgent(name string) Option { return func(c *Client) { c.agent = name } }

// New makes a client of the control plane at an address, "http://127.0.0.1:7070" for instance,
// or at any of several, "http://10.0.0.1:7070,http://10.0.0.2:7070". It connects to nothing yet.
func New(address, token string, options ...Option) (*Client, error) {
	var bases []*url.URL
	for one := range strings.SplitSeq(address, ",") {
		base, err := parseBase(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		bases = append(bases, base)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token holds blanks or characters that cannot stand in a header")
	}
	c := &Client{bases: bases, token: token, agent: "plimsoll-go", random: rand.Uint64, within: maxCall}
	c.http = &http.Client{}
	for _, option := range options {
		option(c)
	}
	own := *c.http
	own.CheckRedirect = stayHere
	c.http = &own
	if n := uint64(len(bases)); n > 1 { // so that many clients do not all ask the first
		c.at.Store(uint32(c.random() % n))
	}
	return c, nil
}

func parseBase(address string) (*url.URL, error) {
	base, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the server's address %q is no URL: write it like http://127.0.0.1:7070", address)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("the server's address %q must begin with http:// or https:// and name a host", address)
	}
	base.RawQuery, base.Fragment = "", ""
	return base, nil
}

// stayHere follows no redirect: a token is not carried to wherever an answer points.
func stayHere(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
