package control

import "sync"

// waker tells every held long poll that something may have become free. Who is next is
// not its business: each of them claims, and the store decides.
type waker struct {
	mu  sync.Mutex // guards now
	now chan struct{}
}

// next returns a channel that the next wake closes.
func (w *waker) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		w.now = make(chan struct{})
	}
	return w.now
}

func (w *waker) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now != nil {
		close(w.now)
		w.now = nil
	}
}
