package storetest

import (
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// Clock is a store's clock that only a test moves.
type Clock struct {
	mu  sync.Mutex // guards now
	now pool.Time
}

// NewClock returns a clock that stands at some instant of 2026.
func NewClock() *Clock { return &Clock{now: 1_780_000_000_000} }

// Now returns the instant at which the clock stands.
func (c *Clock) Now() pool.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves it on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
