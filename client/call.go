package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	maxBody = 16 << 20 // of an answer; the longest list is far below
	maxCall = 15 * time.Second
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
// 300; anything else becomes the error.
func (c *Client) do(ctx context.Context, q call, out any) (int, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, maxCall+q.held, errTooSlow)
	defer cancel()
	status, err := c.exchange(bounded, q, out)
	if ctx.Err() != nil && err != nil {
		return 0, context.Cause(ctx)
	}
	return status, err
}

func (c *Client) exchange(ctx context.Context, q call, out any) (int, error) {
	req, err := c.request(ctx, q)
	if err != nil {
		return 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, c.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return 0, c.unreachable(ctx, err)
	case len(body) > maxBody:
		return 0, fmt.Errorf("%s %s: the answer is longer than %d bytes", q.method, q.path, maxBody)
	case resp.StatusCode >= 300:
		return resp.StatusCode, refusalOf(resp, body, time.Now())
	}
	return resp.StatusCode, decode(q, resp, body, out)
}

func (c *Client) request(ctx context.Context, q call) (*http.Request, error) {
	target := c.base.JoinPath(q.path)
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
func (c *Client) unreachable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &Unreachable{URL: c.base.Redacted(), Err: err}
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
