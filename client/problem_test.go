package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

func TestAnUnknownCodeIsJudgedByItsStatus(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		c, _ := talk(t, answer{status: 503, body: api.Problem{Code: "moon_too_close", Detail: "wait a night", RetryAfterMS: 1500}})
		_, err := c.Whoami(ctx)
		if !client.NotNow(err) || err.Error() != "unavailable: moon_too_close: wait a night" || client.RetryAfter(err) != 1500*time.Millisecond {
			t.Fatal(err)
		}
		c, _ = talk(t, answer{status: 403, body: api.Problem{Code: "not_on_sundays"}})
		if _, err := c.Whoami(ctx); !client.NotAllowed(err) {
			t.Fatal(err)
		}
	})
}

func TestRetryAfterMayBeADate(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		refused := no(api.NoCapacity, 0)
		refused.header = map[string]string{"Retry-After": time.Now().Add(7 * time.Second).UTC().Format(http.TimeFormat)}
		c, _ := talk(t, refused)
		_, err := c.Hosts(ctx)
		if got := client.RetryAfter(err); got != 7*time.Second {
			t.Fatal(got)
		}
	})
}

func TestFaultsOfADocumentAreLinesOfTheDetail(t *testing.T) {
	virtual(t, func(t *testing.T, ctx context.Context) {
		c, _ := talk(t, answer{status: 422, body: api.Problem{Code: api.InvalidConfig, Detail: "2 faults", Errors: []api.Fault{
			{Line: 3, Path: "pools.agent.cap", Message: "must be a number"}, {Message: "no classes"},
		}}})
		_, err := c.PutConfig(ctx, api.ConfigChange{})
		r, ok := api.AsRefusal(err)
		if !ok || r.Detail != "2 faults\nline 3: pools.agent.cap: must be a number\nno classes" {
			t.Fatalf("%q", err)
		}
	})
}

func TestAnswersOverRealSockets(t *testing.T) {
	bodies := map[string]http.HandlerFunc{
		"no_json": func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) },
		"garbage": func(w http.ResponseWriter, _ *http.Request) { reply(w, "{") },
		"endless": func(w http.ResponseWriter, _ *http.Request) { reply(w, `"`+strings.Repeat("x", 17<<20)+`"`) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.test/", http.StatusFound)
		},
	}
	for name, handler := range bodies {
		s := httptest.NewServer(handler)
		c, err := client.New(s.URL, "secret")
		if err != nil {
			t.Fatal(err)
		}
		if a, err := c.Get(t.Context(), "k"); err == nil {
			t.Errorf("%s: got %+v", name, a)
		}
		s.Close()
		var unreachable *client.Unreachable
		if _, err := c.Get(t.Context(), "k"); !errors.As(err, &unreachable) {
			t.Errorf("%s: of a closed server: %v", name, err)
		}
	}
}

func reply(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Write([]byte(body))
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for _, bad := range []struct{ url, token string }{
		{"127.0.0.1:7070", "t"}, {"", "t"}, {"ftp://x", "t"}, {"http://", "t"}, {"http://x", "a\nb"}, {"http://x\x7f", "t"},
	} {
		if _, err := client.New(bad.url, bad.token); err == nil {
			t.Errorf("New(%q, %q) did not fail", bad.url, bad.token)
		}
	}
}
