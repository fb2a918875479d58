package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/backoff"
)

// refusalOf reads a no, and says whether it is one of ours. now is for a Retry-After that is a date.
func refusalOf(resp *http.Response, body []byte, now time.Time) (no *api.Refusal, ours bool) {
	var p api.Problem
	if !isJSON(resp.Header) || json.Unmarshal(body, &p) != nil || p.Code == "" {
		// Not ours: a proxy in between, or another server.
		return &api.Refusal{
			Code:       codeOf(resp.StatusCode),
			Detail:     fmt.Sprintf("the answer was %s and no problem document", resp.Status),
			RetryAfter: retryAfter(resp.Header, now),
		}, false
	}
	return refusalIn(p, resp.StatusCode, resp.Header, now), true
}

// refusalIn is the no of a problem document that came with a status and headers.
func refusalIn(p api.Problem, status int, h http.Header, now time.Time) *api.Refusal {
	r := fromProblem(p)
	if !known(p.Code) {
		// A newer server's code: its status says what to make of it.
		r.Code, r.Detail = codeOf(status), joined(": ", string(p.Code), r.Detail)
	}
	if r.RetryAfter == 0 {
		r.RetryAfter = retryAfter(h, now)
	}
	return r
}

func fromProblem(p api.Problem) *api.Refusal {
	return &api.Refusal{
		Code:       p.Code,
		Scope:      p.Scope,
		Detail:     joined("\n", append([]string{p.Detail}, faults(p.Errors)...)...),
		Remedy:     p.Remedy,
		DecisionID: p.DecisionID,
		RetryAfter: milliseconds(p.RetryAfterMS),
		Receipt:    p.Receipt,
		Reason:     string(p.Reason),
		Figures: api.Figures{
			WaitingFor: string(p.WaitingFor),
			Pool:       p.Pool,
			PoolBusy:   value(p.PoolBusy),
			Cap:        p.Cap,
			Position:   p.Position,
			QueuedFor:  milliseconds(p.QueuedForMS),
			TimedOut:   p.TimedOut,
			Limit:      value(p.Limit),
			Use:        value(p.Use),
			Hosts:      p.Hosts,
			Share:      p.Share,

			ElsewhereFits: p.ElsewhereFits,
			Override:      p.Override,
		},
	}
}

// faults writes each fault of a document on a line of its own.
func faults(list []api.Fault) []string {
	lines := make([]string, len(list))
	for i, f := range list {
		line := ""
		if f.Line > 0 {
			line = fmt.Sprintf("line %d", f.Line)
		}
		lines[i] = joined(": ", line, f.Path, f.Message)
	}
	return lines
}

// joined joins what is not empty.
func joined(separator string, parts ...string) string {
	kept := make([]string, 0, len(parts))
	for _, part := range parts {
		if part != "" {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, separator)
}

func value(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}

func known(code api.Code) bool { return code.Meaning().Code == code }

// codeOf is the nearest code to a status that came without one we know. 429 is a rule of some
// proxy that this caller runs into; it never means capacity.
func codeOf(status int) api.Code {
	switch status {
	case http.StatusUnauthorized:
		return api.Unauthenticated
	case http.StatusForbidden, http.StatusTooManyRequests:
		return api.Forbidden
	case http.StatusNotFound:
		return api.NotFound
	case http.StatusMethodNotAllowed:
		return api.MethodNotAllowed
	case http.StatusRequestEntityTooLarge:
		return api.BodyTooLarge
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return api.Unavailable
	}
	if status/100 == 4 {
		return api.InvalidRequest
	}
	return api.Internal
}

func isJSON(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (kind == "application/json" || kind == "application/problem+json")
}

func retryAfter(h http.Header, now time.Time) time.Duration {
	hint, _ := backoff.Hint(backoff.Outcome{RetryAfter: h.Get("Retry-After")}, now)
	return hint
}
