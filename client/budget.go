package client

import (
	"context"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/backoff"
)

// budget is one client's, for all its callers.
type budget struct {
	mu     sync.Mutex // guards tokens
	tokens *backoff.Budget
}

// with takes the tokens as of now; they are full at first.
func (b *budget) with(do func(tokens *backoff.Budget, now time.Time)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.tokens == nil {
		b.tokens = backoff.NewBudget(now)
	}
	do(b.tokens, now)
}

func (b *budget) take() (ok bool) {
	b.with(func(tokens *backoff.Budget, now time.Time) { ok = tokens.Take(now) })
	return ok
}

func (b *budget) answered() {
	b.with(func(tokens *backoff.Budget, now time.Time) { tokens.Answered(now) })
}

// afford waits for a token for a retry that follows no answer. False says that there is none in time.
func (c *Client) afford(ctx context.Context, end time.Time) bool {
	for !c.budget.take() {
		in := backoff.PutOff(c.random())
		if time.Until(end) <= in || sleep(ctx, in) != nil {
			return false
		}
	}
	return true
}
