package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// wait takes note of a place in the queue. early says that the server gave a long poll back
// long before its time, as one does that stops: then the next is not asked at once.
func (s *seeker) wait(ctx context.Context, w api.Waiting, early bool) error {
	s.request = nil
	if s.o.Progress != nil {
		s.o.Progress(w)
	}
	if !time.Now().Before(s.deadline) {
		return &StillWaiting{w}
	}
	if !early {
		s.tries = 0
		return nil
	}
	pause := min(s.c.jitter(s.tries), earlyMost, time.Until(s.deadline))
	s.tries++
	return s.sleep(ctx, pause, &StillWaiting{w})
}

// earlyMost stays below the time in which a waiter that went away still counts as on time.
const earlyMost = time.Second

// pause waits for the next try, or returns err when the next try would come after the end
// of patience. It never comes before the server's appointment.
func (s *seeker) pause(ctx context.Context, err error) error {
	left, hint := time.Until(s.deadline), RetryAfter(err)
	if left <= 0 || hint > left {
		return err
	}
	in := min(hint+s.c.jitter(s.tries), left)
	s.tries++
	if r, ok := api.AsRefusal(err); ok && s.request != nil && r.Receipt != "" {
		s.request.Receipt = r.Receipt
	}
	if s.o.Retry != nil {
		s.o.Retry(err, in)
	}
	return s.sleep(ctx, in, err)
}

func (s *seeker) sleep(ctx context.Context, d time.Duration, last error) error {
	if err := sleep(ctx, d); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return last // patience ended, whoever put it into the context
		}
		return fmt.Errorf("%w, while waiting after: %w", err, last)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// Full jitter: a delay is drawn evenly from nothing to the window, and the window doubles.
// Callers refused in the same instant do not come back in the same instant.
const (
	firstWindow = 250 * time.Millisecond
	lastWindow  = 8 * time.Second
)

func (c *Client) jitter(tries int) time.Duration {
	window := min(firstWindow<<min(tries, 10), lastWindow)
	return time.Duration(c.random() * float64(window))
}

// lookAgain is the pause between two looks at something that ends by itself.
func (c *Client) lookAgain(tries int) time.Duration {
	window := min(50*time.Millisecond<<min(tries, 10), time.Second)
	return window/2 + time.Duration(c.random()*float64(window/2))
}
