package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// undoing is what is given back in the background.
type undoing struct {
	work   sync.WaitGroup
	mu     sync.Mutex // guards failed
	failed []error
}

func (u *undoing) fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failed = append(u.failed, err)
}

// Close waits until what cancelled calls asked for is given back, which takes 10 s at most
// where no replica answers, and returns what could not be: a *NotGivenBack for each. A program that is
// about to end calls it; the client may be used afterwards.
func (c *Client) Close() error {
	c.undo.work.Wait()
	c.undo.mu.Lock()
	defer c.undo.mu.Unlock()
	err := errors.Join(c.undo.failed...)
	c.undo.failed = nil
	return err
}

// NotGivenBack is about something that a replica could not be told to release. It lapses by
// itself when its time is over unheard; until then it holds what it holds.
type NotGivenBack struct {
	Key string
	ID  string // empty: none is known
	Err error
}

// Error says what was not given back.
func (n *NotGivenBack) Error() string {
	return fmt.Sprintf("key %s was not given back, and lapses by itself: %s", n.Key, n.Err)
}

// Unwrap returns why.
func (n *NotGivenBack) Unwrap() error { return n.Err }

// leaves says whether something may stand at the server after an answer.
func (s *seeker) leaves(err error) bool {
	switch {
	case err == nil:
		return true
	case unheard(err):
		return s.left
	case unanswered(err):
		return true
	}
	r, refused := api.AsRefusal(err)
	if !refused {
		return true
	}
	switch r.Code {
	case api.HostSilent, api.HostDraining, api.ReservationLapsed, api.Releasing:
		return s.left // about what stands already
	}
	return s.request == nil && again(err)
}

// leave ends a call without a yes. What it asked for is given back if the caller left it, or if
// nobody else knows its key and nobody knows what became of it.
func (s *seeker) leave(ctx context.Context, err error) error {
	canceled := ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded)
	var waiting *StillWaiting
	switch {
	case !s.left:
	case canceled:
		if !s.o.KeepPlace {
			s.c.giveBack(ctx, s.key)
		}
	case errors.As(err, &waiting):
		if s.o.GiveUpPlace {
			return s.giveUp(ctx, err)
		}
	case s.ownKey && !s.o.KeepPlace:
		s.c.giveBack(ctx, s.key)
	}
	return err
}

// giveUp gives a place back before the caller is told that its patience is over.
func (s *seeker) giveUp(ctx context.Context, err error) error {
	if undone := s.c.undoNow(ctx, s.key); undone != nil {
		return errors.Join(err, undone)
	}
	return err
}

// giveBack releases a key in the background, whatever ended the caller.
func (c *Client) giveBack(ctx context.Context, key string) {
	c.undo.work.Go(func() {
		if err := c.undoNow(ctx, key); err != nil {
			c.undo.fail(err)
		}
	})
}

// lateArrival is how much later than its undoing a request may be heard that was cut off.
const lateArrival = 250 * time.Millisecond

func (c *Client) undoNow(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*persistence)
	defer cancel()
	q := call{method: http.MethodDelete, path: byKey(key)}
	err := c.persist(ctx, q, new(api.Admission), again)
	if errors.Is(err, api.NotFound) && sleep(ctx, lateArrival) == nil {
		err = c.persist(ctx, q, new(api.Admission), again)
	}
	if err == nil || errors.Is(err, api.NotFound) {
		return nil
	}
	return &NotGivenBack{Key: key, Err: err}
}
