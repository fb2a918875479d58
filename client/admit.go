package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/backoff"
)

// Options say how a call waits.
type Options struct {
	// Wait is the caller's patience. Zero asks once; in queue mode that leaves a place in
	// the queue behind, and the error is a StillWaiting.
	Wait time.Duration
	// Progress hears of the place in the queue, each time that the server tells it. With it
	// the server is asked every 5 s; without it, shortly before the turn that it tells.
	Progress func(api.Waiting)
	// Retry hears why the client is about to ask again, and when: a refusal, or an
	// Unreachable. It is not called for waits in the queue.
	Retry func(err error, in time.Duration)
}

// NewKey makes a key that nobody else has.
func NewKey() string { return "k-" + strings.ToLower(rand.Text()) }

// Admit asks for one sandbox to be admitted. In refuse mode it asks again within o.Wait, in
// queue mode it waits there for its turn. A request without a key gets a random one, which
// stays the same over all tries; the answer names it.
//
// When ctx ends first, what was asked for may still be granted or wait: Release the key.
func (c *Client) Admit(ctx context.Context, q api.AdmissionRequest, o Options) (*api.Admission, error) {
	if q.Key == "" {
		q.Key = NewKey()
	}
	s := c.newSeeker(ctx, q.Key, o)
	s.request = &q
	return s.seek(ctx)
}

// Resume attempts a key that was asked for before: one that waits in the queue, or one
// whose boot was refused with a 503, which is then placed anew.
func (c *Client) Resume(ctx context.Context, key string, o Options) (*api.Admission, error) {
	return c.newSeeker(ctx, key, o).seek(ctx)
}

// How long one long poll is held. Somebody who watches is told more often.
const (
	pollQuiet   = 30 * time.Second
	pollWatched = 5 * time.Second
)

// seeker is one call that goes on until it has a yes, a final no, or no patience left.
type seeker struct {
	c        *Client
	key      string
	request  *api.AdmissionRequest // posted; nil once there is a place to attempt
	o        Options
	deadline time.Time        // end of patience
	pacer    *backoff.Backoff // of tries without progress, in a row
}

func (c *Client) newSeeker(ctx context.Context, key string, o Options) *seeker {
	s := &seeker{c: c, key: key, o: o, deadline: time.Now().Add(o.Wait)}
	// Where the context ends sooner, the last answer says more than its error.
	if at, ok := ctx.Deadline(); ok && at.Before(s.deadline) {
		s.deadline = at
	}
	s.pacer = s.pace(backoff.Policy{})
	return s
}

func (s *seeker) seek(ctx context.Context) (*api.Admission, error) {
	for {
		asked := time.Now()
		hold := s.hold()
		admission, waiting, err := s.ask(ctx, hold)
		switch {
		case admission != nil:
			return admission, nil
		case waiting != nil:
			err = s.wait(ctx, *waiting, time.Since(asked) < hold/2)
		case ctx.Err() == nil && again(err):
			err = s.pause(ctx, err)
		}
		if err != nil {
			return nil, err
		}
	}
}

// hold is how long the next call may be held open: a post is not held.
func (s *seeker) hold() time.Duration {
	if s.request != nil {
		return 0
	}
	poll := pollQuiet
	if s.o.Progress != nil {
		poll = pollWatched
	}
	return max(min(poll, time.Until(s.deadline)), 0)
}

// ask makes one call. Exactly one of the three results is set.
func (s *seeker) ask(ctx context.Context, hold time.Duration) (*api.Admission, *api.Waiting, error) {
	q := call{method: http.MethodPost, path: "/v1/admissions", body: s.request, keyed: true}
	if s.request == nil {
		q = call{
			method: http.MethodPost, path: byKey(s.key) + "/attempt", held: hold, keyed: true,
			query: url.Values{"wait_ms": {strconv.FormatInt(hold.Milliseconds(), 10)}},
		}
	}
	var body json.RawMessage
	status, err := s.c.do(ctx, q, &body)
	if err != nil {
		return nil, nil, err
	}
	if status == http.StatusAccepted {
		w := new(api.Waiting)
		if err := json.Unmarshal(body, w); err != nil {
			return nil, nil, fmt.Errorf("read the place in the queue: %w", err)
		}
		return nil, w, nil
	}
	a := new(api.Admission)
	if err := json.Unmarshal(body, a); err != nil {
		return nil, nil, fmt.Errorf("read the admission: %w", err)
	}
	return a, nil, nil
}

// again says whether a no is worth another try. Out of patience in the queue is an end: only
// the caller knows whether it wants a new place.
func again(err error) bool {
	var unreachable *Unreachable
	if errors.As(err, &unreachable) {
		return true
	}
	return hasKind(err, api.NotNow) && !errors.Is(err, api.QueueTimeout)
}
