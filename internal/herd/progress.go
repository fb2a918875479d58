package herd

import "sync/atomic"

// counter tells how many of so many are done. It may be used by many at once.
type counter struct {
	done  atomic.Int64
	total int
	tell  func(done, total int)
}

func newCounter(total int, tell func(done, total int)) *counter {
	return &counter{total: total, tell: tell}
}

func (c *counter) one() {
	if n := c.done.Add(1); c.tell != nil {
		c.tell(int(n), c.total)
	}
}
