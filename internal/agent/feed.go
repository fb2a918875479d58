package agent

import (
	"context"
	"sync"

	"github.com/plimsoll-project/plimsoll/host"
)

// Feed is one listener's news: verdicts replace each other, happenings add up, so that a
// slow listener holds nobody up and misses nothing.
type Feed struct {
	mu     sync.Mutex // guards news and closed
	news   host.News
	some   bool
	closed bool
	wake   chan struct{} // holds one token when there is something
}

// Next waits for news.
func (f *Feed) Next(ctx context.Context) (host.News, error) {
	for {
		if n, ok, closed := f.take(); ok {
			return n, nil
		} else if closed {
			return host.News{}, ErrStopped
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return host.News{}, context.Cause(ctx)
		}
	}
}

func (f *Feed) take() (n host.News, ok, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok = f.news, f.some
	f.news, f.some = host.News{}, false
	return n, ok, f.closed
}

func (f *Feed) tell(n host.News) {
	f.mu.Lock()
	f.news.Add(n)
	f.some = true
	f.mu.Unlock()
	f.signal()
}

func (f *Feed) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.signal()
}

func (f *Feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// feeds are the listeners.
type feeds struct {
	mu     sync.Mutex // guards all and closed
	all    []*Feed
	closed bool
}

// Subscribe adds a listener.
func (a *Agent) Subscribe() *Feed {
	f := &Feed{wake: make(chan struct{}, 1)}
	a.feeds.mu.Lock()
	defer a.feeds.mu.Unlock()
	f.closed = a.feeds.closed
	a.feeds.all = append(a.feeds.all, f)
	return f
}

func (fs *feeds) tell(n host.News) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.all {
		f.tell(n)
	}
}

func (fs *feeds) close() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.closed = true
	for _, f := range fs.all {
		f.close()
	}
}
