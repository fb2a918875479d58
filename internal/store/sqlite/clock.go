package sqlite

import (
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// clock is the store's. It starts no earlier than the newest instant in the database, and
// then only goes forward, by what its source goes forward: a machine's clock that is set
// back neither takes it back nor stops it, or nothing would expire for as long.
type clock struct {
	read func() pool.Time

	mu   sync.Mutex // guards what follows
	raw  pool.Time  // last read off the source
	last pool.Time
}

func newClock(read func() pool.Time) *clock {
	if read == nil {
		read = elapsed(time.Now())
	}
	raw := read()
	return &clock{read: read, raw: raw, last: raw}
}

// notBefore puts the clock forward to the newest instant of the database.
func (c *clock) notBefore(newest pool.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, newest)
}

func (c *clock) now() pool.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	raw := c.read()
	c.last += max(raw-c.raw, 0)
	c.raw = raw
	return c.last
}

// elapsed reads the wall clock once, and from then on the monotonic one.
func elapsed(since time.Time) func() pool.Time {
	return func() pool.Time { return pool.Time(since.Add(time.Since(since)).UnixMilli()) }
}
