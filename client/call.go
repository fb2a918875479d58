package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

const (
	maxBody = 16 << 20         // of an answer; the longest list is far below
	maxCall = 15 * time.Second // unless WithTimeout says otherwise
)

// call is one request.
type call struct {
	method string
	path   string     // escaped, below the base
	query  url.Values // may be nil
	body   any        // sent as JSON unless nil
	held   time.Duration
	keyed  bool // the same again is the same call: sent anew when a kept connection proves closed
}

// errTooSlow ends a call that a server took on and never answered.
var errTooSlow = errors.New("it did not answer in time")

// do sends one request and returns its status. Into out goes the body of an answer below
// 300; anything else becomes the error. Where a replica does not answer, the next is asked.
func (c *Client) do(ctx context.Context, q call, out any) (status int, err error) {
	var heard error // of one who may have taken it up: what the last says does not undo that
	first := c.at.Load()
	for i := range c.bases {
		at := (int(first) + i) % len(c.bases)
		if status, err = c.ask(ctx, c.bases[at], q, out); ctx.Err() != nil || !unanswered(err) {
			c.at.Store(uint32(at))
			return status, err
		}
		c.at.Store(uint32((at + 1) % len(c.bases))) // whoever asks again begins there
		if !unheard(err) {
			heard = err
		}
		if !q.repeatable() && heard != nil {
			break
		}
	}
	return status, cmp.Or(heard, err)
}

// unanswered says that nobody knows what became of a call, so that another replica, or a later
// moment, may have the answer.
func unanswered(err error) bool {
	return errors.As(err, new(*Unreachable)) || errors.Is(err, api.Unavailable)
}

// repeatable says that to ask twice is to ask once.
func (q call) repeatable() bool { return q.keyed || q.method == http.MethodGet }

// unheard says that a request cannot have been taken up: there was no connection for it.
func unheard(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func (c *Client) ask(ctx context.Context, base *url.URL, q call, out any) (int, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, c.within+q.held, errTooSlow)
	defer cancel()
	status, err := c.exchange(bounded, base, q, out)
	if ctx.Err() != nil && err != nil {
		return 0, context.Cause(ctx)
	}
	return status, err
}

func (c *Client) exchange(ctx context.Context, base *url.URL, q call, out any) (int, error) {
	req, err := c.request(ctx, base, q)
	if err != nil {
		return 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, unreachable(ctx, base, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return 0, unreachable(ctx, base, err)
	case len(body) > maxBody:
		return 0, fmt.Errorf("%s %s: the answer is longer than %d bytes", q.method, q.path, maxBody)
	case resp.StatusCode >= 300:
		no, ours := refusalOf(resp, body, time.Now())
		if ours && no.Code != api.Unavailable {
			c.budget.answered()
		}
		return resp.StatusCode, no
	}
	err = decode(q, resp, body, out)
	if err == nil {
		c.budget.answered()
	}
	return resp.StatusCode, err
}

func (c *Client) request(ctx context.Context, base *url.URL, q call) (*http.Request, error) {
	target := base.JoinPath(q.path)
	target.RawQuery = q.query.Encode()
	var body io.Reader
	if q.body != nil {
		text, err := json.Marshal(q.body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: write the request: %w", q.method, q.path, err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, target.String(), body)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	req.Header.Set("User-Agent", c.agent)
	if q.keyed {
		req.Header["Idempotency-Key"] = []string{} // net/http's mark of it; nothing is sent
	}
	return req, nil
}

// unreachable drops the method and URL that package net/http puts in front of a cause.
func unreachable(ctx context.Context, base *url.URL, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &Unreachable{URL: base.Redacted(), Err: err}
}

func decode(q call, resp *http.Response, body []byte, out any) error {
	if !isJSON(resp.Header) {
		return fmt.Errorf("%s %s: the answer is not JSON: is this a Plimsoll server?", q.method, q.path)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", q.method, q.path, err)
	}
	return nil
}
