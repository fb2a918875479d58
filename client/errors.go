package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// StillWaiting is how a wait in the queue ends when the caller's patience does. The place is
// kept: Resume goes on with it, Release gives it back. It is no refusal.
type StillWaiting struct{ api.Waiting }

// Error says what is waited for.
func (w *StillWaiting) Error() string {
	text := string(api.WaitingCapacity) + ": no " + string(w.WaitingFor) + " yet"
	if w.Position > 0 {
		text += fmt.Sprintf(", position %d", w.Position)
	}
	if w.Pool != "" {
		text += " in pool " + w.Pool
	}
	return text
}

// Is makes errors.Is(err, api.WaitingCapacity) work.
func (w *StillWaiting) Is(target error) bool { return target == error(api.WaitingCapacity) }

// Unreachable is how a call ends that no replica answered: a NotNow, for what it is about may
// succeed as soon as one does.
type Unreachable struct {
	URL string
	Err error
}

// Error names the server and the cause.
func (u *Unreachable) Error() string { return fmt.Sprintf("no answer from %s: %s", u.URL, u.Err) }

// Unwrap returns the cause.
func (u *Unreachable) Unwrap() error { return u.Err }

// NotNow says that the same request, unchanged, may succeed later. A place in the queue that is
// kept is one of these, and so is a gate that nobody reached.
//
// It is a tempo and no failure: never write it to a status column. Park the work as
// waiting_capacity and ask again; and never run it outside a sandbox because the gate said no.
func NotNow(err error) bool {
	return errors.As(err, new(*StillWaiting)) || errors.As(err, new(*Unreachable)) || hasKind(err, api.NotNow)
}

// NotAllowed says that a rule stands against this caller: its token, its role, its quota.
func NotAllowed(err error) bool { return hasKind(err, api.NotAllowed) }

// Never says that waiting will not change the answer: the request must change.
func Never(err error) bool { return hasKind(err, api.Never) }

func hasKind(err error, kind api.Kind) bool {
	r, ok := api.AsRefusal(err)
	return ok && r.Code.Meaning().Kind == kind
}

// RetryAfter returns the server's appointment for this caller, zero if it gave none. Come
// later rather than sooner: add jitter on top.
func RetryAfter(err error) time.Duration {
	var waiting *StillWaiting
	if errors.As(err, &waiting) {
		return milliseconds(waiting.RetryAfterMS)
	}
	if r, ok := api.AsRefusal(err); ok {
		return r.RetryAfter
	}
	return 0
}

// milliseconds converts a wire amount, which may be absurd, without overflow.
func milliseconds(n int64) time.Duration {
	const most = int64(365 * 24 * time.Hour / time.Millisecond)
	return time.Duration(min(max(n, 0), most)) * time.Millisecond
}
