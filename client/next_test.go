package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

// replicas answer by their names; a client of them begins at a.
type replicas struct {
	says  map[string]func() answer // host of the URL -> what it answers now
	hear  func(*http.Request)      // nil: nobody listens
	asked []string
}

func (r *replicas) RoundTrip(q *http.Request) (*http.Response, error) {
	if r.hear != nil {
		r.hear(q)
	}
	r.asked = append(r.asked, q.URL.Host)
	a := r.says[q.URL.Host]()
	return respond(a), a.err
}

func (r *replicas) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New("http://a, http://b,http://c", "secret", client.WithHTTPClient(&http.Client{Transport: r}), client.WithRandom(func() uint64 { return 3 }))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func saying(a answer) func() answer { return func() answer { return a } }

var (
	refused = answer{err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	reset   = answer{err: &net.OpError{Op: "read", Err: errors.New("connection reset")}}
	done    = answer{status: 200, body: map[string]any{"id": "x", "key": "k"}}
)

// Where one replica does not answer the next is asked; but what might be done twice by that
// goes on only where nobody can have heard it.
func TestTheNextAddress(t *testing.T) {
	admit := func(c *client.Client) error {
		_, err := c.Admit(context.Background(), api.AdmissionRequest{Key: "k", Class: "small"}, client.Options{Wait: client.Once})
		return err
	}
	look := func(c *client.Client) error { _, err := c.Hosts(context.Background()); return err }
	beat := func(c *client.Client) error { _, err := c.Heartbeat(context.Background(), "k"); return err }
	token := func(c *client.Client) error {
		_, err := c.CreateJoinToken(context.Background(), "h", 0)
		return err
	}
	unavailable := no(api.Unavailable, 1000)
	for name, tt := range map[string]struct {
		a, b  answer
		ask   func(*client.Client) error
		asked []string
		fails bool
	}{
		"all is well":                    {done, done, admit, []string{"a"}, false},
		"nobody there":                   {refused, refused, admit, []string{"a", "b", "c"}, false},
		"it went in the middle":          {reset, done, admit, []string{"a", "b"}, false},
		"it has no store":                {unavailable, done, admit, []string{"a", "b"}, false},
		"a look":                         {reset, done, look, []string{"a", "b"}, false},
		"a heartbeat":                    {reset, done, beat, []string{"a", "b"}, false},
		"a deed that nobody heard":       {refused, done, token, []string{"a", "b"}, false},
		"a deed that may have been done": {reset, done, token, []string{"a"}, true},
		"a no is an answer":              {no(api.Forbidden, 0), done, look, []string{"a"}, true},
	} {
		r := &replicas{says: map[string]func() answer{"a": saying(tt.a), "b": saying(tt.b), "c": saying(done)}}
		c := r.client(t)
		if err := tt.ask(c); (err != nil) != tt.fails || !slices.Equal(r.asked, tt.asked) {
			t.Errorf("%s: asked %v, %v", name, r.asked, err)
		}
		// Whoever answered is asked first from then on; whoever did not, last.
		last := r.asked[len(r.asked)-1]
		if tt.asked[0] == last && tt.fails && tt.a.err != nil {
			last = "b"
		}
		r.asked = nil
		if err := look(c); r.asked[0] != last {
			t.Errorf("%s: then %v, and not %s: %v", name, r.asked, last, err)
		}
	}
}

// None of them: the caller is told of one, and each was asked once.
func TestNoAddressAnswers(t *testing.T) {
	r := &replicas{says: map[string]func() answer{"a": saying(refused), "b": saying(answer{err: io.ErrUnexpectedEOF}), "c": saying(refused)}}
	var away *client.Unreachable
	if _, err := r.client(t).Hosts(t.Context()); !errors.As(err, &away) || len(r.asked) != 3 {
		t.Errorf("%v after %v", err, r.asked)
	}
	for _, address := range []string{"http://a,", "http://a,b:7070", ","} {
		if _, err := client.New(address, ""); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
}

// What one replica may have heard is given back, though the next was not there to ask.
func TestWhatOneHeardIsNotForgottenOverTheNext(t *testing.T) {
	for name, a := range map[string]answer{"went in the middle": reset, "had no store": no(api.Unavailable, 1000)} {
		var deleted atomic.Bool
		r := &replicas{says: map[string]func() answer{"a": saying(a), "b": saying(refused), "c": saying(refused)}}
		c := r.client(t)
		r.hear = func(q *http.Request) {
			if q.Method == http.MethodDelete {
				deleted.Store(true)
				r.says["a"] = saying(done)
			}
		}
		_, err := c.Admit(context.Background(), api.AdmissionRequest{Class: "small"}, client.Options{Wait: client.Once})
		if err == nil || !client.NotNow(err) {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.Close(); err != nil || !deleted.Load() {
			t.Errorf("%s: given back: %t, %v", name, deleted.Load(), err)
		}
	}
}
