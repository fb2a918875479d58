package agent

import (
	"context"
	"slices"
	"sync"

	"github.com/plimsoll-project/plimsoll/host"
)

// Feed is one listener's news: verdicts replace each other, happenings add up, so that a
// slow listener holds nobody up. One so slow that they pass feedMax misses what there was
// of them, and finds it when it next reconciles with all that the host holds.
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

// Wake gets a token when there is news, or when the feed is over.
func (f *Feed) Wake() <-chan struct{} { return f.wake }

// Take returns what there is, if there is some. A feed that is over tells the rest first.
func (f *Feed) Take() (n host.News, ok, over bool) {
	n, ok, over = f.take()
	return n, ok, over && !ok
}

// NewFeed returns one that whoever makes it tells.
func NewFeed() *Feed { return &Feed{wake: make(chan struct{}, 1)} }

func (f *Feed) take() (n host.News, ok, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, ok = f.news, f.some
	f.news, f.some = host.News{}, false
	return n, ok, f.closed
}

// feedMax is how many happenings are kept for a listener.
const feedMax = 16 << 10

// Tell adds news, and never waits.
func (f *Feed) Tell(n host.News) {
	f.mu.Lock()
	if len(f.news.Tracks)+len(f.news.Reopens)+len(f.news.Ends) > feedMax {
		f.news = host.News{}
	}
	f.news.Add(n)
	f.some = true
	f.mu.Unlock()
	f.signal()
}

// Close ends the feed: Next fails once it has told what there was.
func (f *Feed) Close() {
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
	f := NewFeed()
	a.feeds.mu.Lock()
	defer a.feeds.mu.Unlock()
	f.closed = a.feeds.closed
	a.feeds.all = append(a.feeds.all, f)
	return f
}

// Unsubscribe forgets a listener.
func (a *Agent) Unsubscribe(f *Feed) {
	a.feeds.mu.Lock()
	defer a.feeds.mu.Unlock()
	a.feeds.all = slices.DeleteFunc(a.feeds.all, func(other *Feed) bool { return other == f })
}

func (fs *feeds) tell(n host.News) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.all {
		f.Tell(n)
	}
}

func (fs *feeds) close() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.closed = true
	for _, f := range fs.all {
		f.Close()
	}
}
