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
	// Wait is the caller's patience: 90 s unless it is set, and Once asks once. In the queue it
	// ends with a StillWaiting, and the place is kept.
	Wait time.Duration
	// Progress hears of the place in the queue, each time that the server tells it. With it
	// the server is asked every 5 s; without it, shortly before the turn that it tells.
	Progress func(api.Waiting)
	// Retry hears why the client is about to ask again, and when: a refusal, or an
	// Unreachable. It is not called for waits in the queue.
	Retry func(err error, in time.Duration)
	// Admitted hears how a yes was come by.
	Admitted func(Success)
	// KeepPlace leaves alone what was asked for when the call is cancelled: a place in the queue,
	// or a yes whose answer was on its way. Without it that is given back.
	KeepPlace bool
	// GiveUpPlace gives the place back at the end of the patience in the queue.
	GiveUpPlace bool
}

// DefaultWait is the patience of a call that states none.
const DefaultWait = 90 * time.Second

// Once is no patience: the first answer is taken.
const Once time.Duration = -1

// Within is a patience that may have run out by now.
func Within(d time.Duration) time.Duration {
	if d <= 0 {
		return Once
	}
	return d
}

// Success is how a yes was come by.
type Success struct {
	Admission *api.Admission
	Attempts  int  // requests that it took
	Refused   bool // the first answer was a no, or a place in the queue
	// SinceRefused is the time from that to the yes.
	SinceRefused time.Duration
}

// NewKey makes a key that nobody else has.
func NewKey() string { return "k-" + strings.ToLower(rand.Text()) }

// Admit asks for one sandbox to be admitted. In refuse mode it asks again within o.Wait, in
// queue mode it waits there for its turn. A request without a key gets a random one, which
// stays the same over all tries; the answer names it.
//
// What is NotNow is a tempo: park the work as waiting, write no failure down, and never run it
// outside a sandbox.
//
// A cancelled call returns at once; what it asked for is given back in the background (see
// Close), unless o.KeepPlace is set. So is what was asked for under a random key when nobody
// knows what became of it.
func (c *Client) Admit(ctx context.Context, q api.AdmissionRequest, o Options) (*api.Admission, error) {
	own := q.Key == ""
	if own {
		q.Key = NewKey()
	}
	s := c.newSeeker(ctx, q.Key, o)
	s.request, s.ownKey = &q, own
	return s.run(ctx)
}

// Resume attempts a key that was asked for before: one that waits in the queue, or one
// whose boot was refused with a 503, which is then placed anew. It ends as Admit does.
func (c *Client) Resume(ctx context.Context, key string, o Options) (*api.Admission, error) {
	s := c.newSeeker(ctx, key, o)
	s.left = true
	return s.run(ctx)
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
	ownKey   bool                  // made here: nobody else can come back to it
	request  *api.AdmissionRequest // posted; nil once there is a place to attempt
	o        Options
	deadline time.Time        // end of patience
	pacer    *backoff.Backoff // of tries without progress, in a row
	attempts int
	first    time.Time // of the first no, or place; zero: none yet
	left     bool      // something may stand at the server under this key
}

func (c *Client) newSeeker(ctx context.Context, key string, o Options) *seeker {
	wait := o.Wait
	switch {
	case wait == 0:
		wait = DefaultWait
	case wait < 0:
		wait = 0
	}
	s := &seeker{c: c, key: key, o: o, deadline: time.Now().Add(wait)}
	// Where the context ends sooner, the last answer says more than its error.
	if at, ok := ctx.Deadline(); ok && at.Before(s.deadline) {
		s.deadline = at
	}
	s.pacer = s.pace(c.widest())
	return s
}

// run seeks, and leaves nothing behind that nobody will come back for.
func (s *seeker) run(ctx context.Context) (*api.Admission, error) {
	a, err := s.seek(ctx)
	if err == nil {
		if s.o.Admitted != nil {
			s.o.Admitted(s.success(a, time.Now()))
		}
		return a, nil
	}
	return nil, s.leave(ctx, err)
}

func (s *seeker) success(a *api.Admission, now time.Time) Success {
	out := Success{Admission: a, Attempts: s.attempts, Refused: !s.first.IsZero()}
	if out.Refused {
		out.SinceRefused = now.Sub(s.first)
	}
	return out
}

// refused takes note of the first no, or place.
func (s *seeker) refused(now time.Time) {
	if s.first.IsZero() {
		s.first = now
	}
}

func (s *seeker) seek(ctx context.Context) (*api.Admission, error) {
	for {
		asked := time.Now()
		hold := s.hold()
		admission, waiting, err := s.ask(ctx, hold)
		s.left = s.leaves(err)
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
	s.attempts++
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
	return NotNow(err) && !errors.Is(err, api.QueueTimeout)
}
