package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/backoff"
)

// wait takes note of a place in the queue. early says that the server gave a long poll back
// long before its time, as one does that stops: then the next is not asked at once. Else the
// server said how far off the turn is.
func (s *seeker) wait(ctx context.Context, w api.Waiting, early bool) error {
	s.request = nil
	s.refused(time.Now())
	if s.o.Progress != nil {
		s.o.Progress(w)
	}
	if time.Until(s.deadline) <= 0 {
		return &StillWaiting{w}
	}
	if !early {
		s.pacer = s.pace(min(earlyPolls, s.c.widest()))
		return s.sleep(ctx, s.away(&w), &StillWaiting{w})
	}
	in, what := s.pacer.Next(time.Now(), backoff.Outcome{}, s.c.random())
	if what != backoff.Retry {
		return &StillWaiting{w}
	}
	return s.sleep(ctx, in, &StillWaiting{w})
}

// away is how long a waiter leaves its place alone: until shortly before its turn, and not at
// all where somebody watches. What a quota or a host frees nobody has measured, and memory is
// set aside only for who is there.
func (s *seeker) away(w *api.Waiting) time.Duration {
	if s.o.Progress != nil || w.WaitingFor != api.WaitingForSlot {
		return 0
	}
	return backoff.Away(time.Duration(w.PollAfterMS)*time.Millisecond, time.Until(s.deadline), pollQuiet)
}

// earlyPolls stays below the time in which a waiter that went away still counts as on time.
const earlyPolls = time.Second

// pause waits for the next try, or returns err when the next try would come after the end
// of patience. It never comes before the server's appointment; and where nobody answered, not
// without a token of the client's budget.
func (s *seeker) pause(ctx context.Context, err error) error {
	if !errors.As(err, new(*Unreachable)) {
		s.refused(time.Now())
	}
	if time.Until(s.deadline) <= 0 {
		return err
	}
	in, what := s.pacer.Next(time.Now(), outcome(err), s.c.random())
	if what != backoff.Retry {
		return err
	}
	if r, ok := api.AsRefusal(err); ok && s.request != nil && r.Receipt != "" {
		s.request.Receipt = r.Receipt
	}
	if s.o.Retry != nil {
		s.o.Retry(err, in)
	}
	if err := s.sleep(ctx, in, err); err != nil {
		return err
	}
	if unanswered(err) && !s.c.afford(ctx, s.deadline) {
		return err
	}
	return ctx.Err()
}

// pace begins to count tries anew, within what is left of the patience.
func (s *seeker) pace(widest time.Duration) *backoff.Backoff {
	left := max(time.Until(s.deadline), time.Nanosecond)
	return backoff.New(backoff.Policy{Base: s.c.policy.Base, Cap: widest, Deadline: left}, time.Now())
}

// widest is the client's widest window.
func (c *Client) widest() time.Duration {
	if c.policy.Cap > 0 {
		return c.policy.Cap
	}
	return 8 * time.Second
}

// outcome is what the state machine needs to know of an error; no answer is status 0.
func outcome(err error) backoff.Outcome {
	r, ok := api.AsRefusal(err)
	if !ok {
		return backoff.Outcome{}
	}
	return backoff.Outcome{Status: r.Code.Meaning().Status, RetryMS: r.RetryAfter.Milliseconds()}
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
