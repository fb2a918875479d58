package client_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/transcript"
)

// errorVector is an answer, and what it becomes in every SDK.
type errorVector struct {
	Name    string            `json:"name"`
	NowMS   int64             `json:"now_ms"`
	Status  int               `json:"status"` // 0: the connection was lost
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`

	Kind         string `json:"kind"` // not_now, not_allowed, never, internal, unreachable
	Code         string `json:"code"`
	Scope        string `json:"scope"`
	Reason       string `json:"reason,omitempty"`
	Detail       string `json:"detail"`
	Remedy       string `json:"remedy,omitempty"`
	DecisionID   string `json:"decision_id,omitempty"`
	Receipt      string `json:"receipt,omitempty"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	Retried      bool   `json:"retried"`
	NeedsToken   bool   `json:"needs_token"`
	Answered     bool   `json:"answered"`
}

const problemKind = "application/problem+json"

// errorVectors are the answers.
func errorVectors() (all []errorVector) {
	problem := func(name string, status int, body string) {
		all = append(all, errorVector{Name: name, Status: status, Headers: map[string]string{"Content-Type": problemKind}, Body: body})
	}
	for _, m := range api.Table() {
		if m.Status >= 300 {
			problem("code "+string(m.Code), m.Status, `{"code":"`+string(m.Code)+`","detail":"why","retry_after_ms":1500,"decision_id":"d-1","receipt":"r-1"}`)
		}
	}
	problem("a scope and a remedy of its own", 503, `{"code":"no_capacity","scope":"host","remedy":"pin no host","detail":""}`)
	problem("a rejected ticket", 403, `{"code":"ticket_rejected","reason":"replayed","detail":"it was redeemed"}`)
	problem("a newer code of a 503", 503, `{"code":"moon_too_close","detail":"wait a night","retry_after_ms":1500}`)
	problem("a newer code of a 403", 403, `{"code":"not_on_sundays"}`)
	problem("a newer code of a 409", 409, `{"code":"too_odd"}`)
	problem("a newer code of a 500", 500, `{"code":"on_fire"}`)
	problem("faults of a document", 422, `{"code":"invalid_config","detail":"2 faults","errors":[{"line":3,"path":"pools.a.cap","message":"must be a number"},{"message":"no classes"}]}`)
	problem("a hint below zero", 503, `{"code":"pool_full","retry_after_ms":-5}`)
	problem("a document without a code", 503, `{"detail":"?"}`)
	problem("a document that is none", 503, `[1]`)
	problem("half a document", 503, `{"code":"pool_fu`)
	hinted := func(name, after string) {
		h := map[string]string{"Content-Type": problemKind, "Retry-After": after}
		all = append(all, errorVector{Name: name, Status: 503, Headers: h, Body: `{"code":"pool_full"}`})
	}
	hinted("Retry-After in seconds", "7")
	hinted("Retry-After as a date", "Tue, 08 Sep 2026 12:00:07 GMT")
	hinted("Retry-After that nobody can read", "soon")
	h := map[string]string{"Content-Type": problemKind + "; charset=utf-8", "Retry-After": "7"}
	all = append(all, errorVector{Name: "the body goes before the header", Status: 503, Headers: h, Body: `{"code":"pool_full","retry_after_ms":2400}`})
	for _, status := range []int{301, 302, 307, 400, 401, 403, 404, 405, 408, 409, 410, 413, 422, 425, 429, 451, 500, 501, 502, 503, 504, 505, 599} {
		all = append(all, errorVector{
			Name: "a proxy's " + http.StatusText(status), Status: status, Body: "<html>",
			Headers: map[string]string{"Content-Type": "text/html", "Retry-After": "2", "Location": "http://elsewhere.test/"},
		})
	}
	page := map[string]string{"Content-Type": "text/html"}
	all = append(all,
		errorVector{Name: "a page and no answer", Status: 200, Headers: page, Body: "<html>"},
		errorVector{Name: "half an answer", Status: 200, Headers: map[string]string{"Content-Type": "application/json"}, Body: `{"key":`},
		errorVector{Name: "a lost connection"},
	)
	return all
}

// judge fills in what the client makes of an answer.
func (v *errorVector) judge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2026, 9, 8, 12, 0, 0, 0, time.UTC)
		v.NowMS = noon.UnixMilli()
		time.Sleep(time.Until(noon)) // a bubble begins in the year 2000
		first := answer{status: v.Status, body: v.Body, header: v.Headers}
		if v.Status == 0 {
			first = answer{err: errors.New("reset")}
		}
		c, _ := talk(t, first)
		c.Drain()
		_, err := c.Admit(t.Context(), request, client.Options{Wait: client.Once})
		v.Answered = c.Take()
		v.fill(err)
		c, s := talk(t, first, yes(200))
		_, _ = c.Admit(t.Context(), request, client.Options{Wait: time.Hour})
		v.Retried = len(s.seen) == 2
		v.NeedsToken = v.Retried && client.Unanswered(err)
	})
}

func (v *errorVector) fill(err error) {
	switch {
	case errors.As(err, new(*client.Unreachable)):
		v.Kind = "unreachable"
	case client.NotNow(err):
		v.Kind = "not_now"
	case client.NotAllowed(err):
		v.Kind = "not_allowed"
	case client.Never(err) && !errors.Is(err, api.Internal):
		v.Kind = "never"
	default:
		v.Kind = "internal"
	}
	if r, ok := api.AsRefusal(err); ok {
		v.Code, v.Scope, v.Detail, v.Remedy = string(r.Code), string(r.WhoseNo()), r.Detail, r.Remedy
		if !v.Answered && !strings.HasPrefix(v.Name, "a newer") && v.Name != "code unavailable" {
			v.Detail = "" // in words of its own
		}
		v.Reason, v.DecisionID, v.Receipt, v.RetryAfterMS = r.Reason, r.DecisionID, r.Receipt, r.RetryAfter.Milliseconds()
	}
}

func TestErrorVectors(t *testing.T) {
	v := struct {
		About string        `json:"about"`
		Cases []errorVector `json:"cases"`
	}{
		About: "An answer of an address (status 0: the connection was lost), and the error that it becomes. detail is empty where the answer was no problem document, for each SDK has its own words then.",
		Cases: errorVectors(),
	}
	for i := range v.Cases {
		v.Cases[i].judge(t)
	}
	transcript.Current(t, "../sdk/vectors/errors.json", v)
}
