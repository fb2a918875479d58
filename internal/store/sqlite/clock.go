package sqlite

import (
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// clock is the store's: it never goes backwards, and starts no earlier than the newest
// instant in the database, whatever was done to the machine's clock meanwhile.
type clock struct {
	read func() pool.Time

	mu   sync.Mutex // guards last
	last pool.Time
}

func (c *clock) now() pool.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, c.read())
	return c.last
}

func wallClock() pool.Time { return pool.Time(time.Now().UnixMilli()) }
