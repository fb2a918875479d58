package storm

import (
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/backoff"
	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/pool"
)

// kind is a kind of client.
type kind struct {
	name     string
	mode     pool.Mode
	deadline time.Duration
	heeds    bool // goes by what it is told
	begin    func(*caller) patient
}

// patient is what a client does between its tries: how long it waits after a refusal, and
// false when it gives up.
type patient interface {
	again(c *caller, told time.Duration) (time.Duration, bool)
}

// The names of the clients.
const (
	fixedName       = "fixed"
	exponentialName = "exponential"
	essayName       = "essay_sdk"
	retryAfterName  = "retry_after"
	sdkName         = "sdk"
)

// essayPatience is the deadline of the essay's SDK.
const essayPatience = 90 * time.Second

func kinds(o *Options) []kind {
	essay := func(*caller) patient { return &essaySDK{} }
	all := []kind{
		{fixedName, pool.Refuse, o.Deadline, false, func(*caller) patient { return fixed{} }},
		{exponentialName, pool.Refuse, o.Deadline, false, func(*caller) patient { return &exponential{} }},
		{essayName, pool.Refuse, essayPatience, true, essay},
		{essayName, pool.Refuse, o.Deadline, true, essay},
		{retryAfterName, pool.Refuse, o.Deadline, true, func(*caller) patient { return obedient{} }},
		{sdkName, pool.Queue, o.Deadline, true, func(c *caller) patient { return newSDK(c) }},
	}
	if o.Deadline == essayPatience {
		all = slices.Delete(all, 2, 3) // the essay's twice
	}
	return all
}

// fixed asks every second.
type fixed struct{}

func (fixed) again(c *caller, _ time.Duration) (time.Duration, bool) {
	return c.within(time.Second)
}

// exponential doubles its wait from a quarter of a second to eight, without jitter.
type exponential struct{ tries int }

func (e *exponential) again(c *caller, _ time.Duration) (time.Duration, bool) {
	e.tries++
	return c.within(min(8*time.Second, 250*time.Millisecond<<min(e.tries-1, 10)))
}

// essaySDK is create_with_backoff of the essay: it sleeps exactly Retry-After, which is in
// whole seconds. Its own backoff with full jitter is for refusals without one; there are none.
type essaySDK struct{}

func (*essaySDK) again(c *caller, told time.Duration) (time.Duration, bool) {
	return c.within(time.Duration(hint.Seconds(told)) * time.Second)
}

// obedient comes back to the millisecond when it was told to, and gives up where that is beyond its
// patience.
type obedient struct{}

func (obedient) again(c *caller, told time.Duration) (time.Duration, bool) {
	return told, c.left() > told
}

// sdk is ours when it is refused a place, as client/pace.go drives it.
type sdk struct{ pacer *backoff.Backoff }

func newSDK(c *caller) *sdk {
	return &sdk{backoff.New(backoff.Policy{Deadline: c.kind.deadline}, c.world.wall())}
}

func (s *sdk) again(c *caller, told time.Duration) (time.Duration, bool) {
	in, verdict := s.pacer.Next(c.world.wall(), backoff.Outcome{Status: 503, RetryMS: hint.Millis(told)}, c.world.rand.Uint64())
	return in, verdict == backoff.Retry
}
