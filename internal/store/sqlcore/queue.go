package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// ErrClosed is the answer to every transition that the store no longer takes up.
var ErrClosed = errors.New("the store is closed")

const (
	maxBatch    = 64               // transitions that share a commit
	gatherTurns = 4                // times that others may run before a batch counts as complete
	maxTries    = 8                // of a batch that met a conflict
	batchFor    = 15 * time.Second // after which a hanging database is given up
)

// op is one transition on its way through the writer.
type op struct {
	claim   *pool.Claim // whose key, pool and tenant it touches
	ids     []string    // of the admissions it touches
	counts  bool        // it may grant, refuse or queue
	numbers int         // most numbers of the sequence that it takes
	alone   bool        // it shares no transaction

	allPools bool // it touches every pool
	hears    bool // it reads or writes the pulse
	leases   bool // it looks at when each host was last heard

	do   func(*books)                         // the transition, over the loaded books
	exec func(context.Context, *loader) error // statements of its own; nil for most

	ctx  context.Context // of its caller: it is not begun once that has gone
	done chan struct{}   // closed when err and what do has kept may be read
	err  error
}

// queue carries transitions to the one writer. It holds none itself: a caller waits until
// the writer takes its transition, or the store stops.
type queue struct {
	ops  chan *op
	stop chan struct{} // closed: nothing more is taken up
	once sync.Once     // closes stop

	mu      sync.Mutex    // guards running and ended
	running bool          // Run was called
	ended   chan struct{} // closed when Run has returned
}

func newQueue() *queue {
	return &queue{ops: make(chan *op), stop: make(chan struct{}), ended: make(chan struct{})}
}

// submit waits for the transition's answer. When the caller goes first, the transition may
// still happen; that is what every error of a store means.
func (q *queue) submit(ctx context.Context, o *op) error {
	o.ctx, o.done = ctx, make(chan struct{})
	select {
	case <-q.stop:
		return ErrClosed
	default:
	}
	select {
	case q.ops <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-q.stop:
		return ErrClosed
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gather waits for a transition and takes with it all that are waiting too. The answers of
// the last batch have just gone out: callers get a few turns to come back, so that they
// share this commit instead of waiting for it.
func (q *queue) gather(ctx context.Context, held *op) []*op {
	batch := make([]*op, 0, maxBatch)
	if held == nil {
		select {
		case held = <-q.ops:
		case <-ctx.Done():
			return nil
		case <-q.stop:
			return nil
		}
	}
	batch = append(batch, held)
	for quiet := 0; quiet < gatherTurns && len(batch) < maxBatch && !batch[len(batch)-1].alone; {
		select {
		case o := <-q.ops:
			batch, quiet = append(batch, o), 0
		default:
			quiet++
			runtime.Gosched()
		}
	}
	return batch
}

// begin notes that Run runs; a store has one writer.
func (q *queue) begin() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running {
		return fmt.Errorf("the store's writer runs already")
	}
	q.running = true
	return nil
}

func (q *queue) halt() { q.once.Do(func() { close(q.stop) }) }

// wait returns when the writer has ended, if it ever began.
func (q *queue) wait() {
	q.mu.Lock()
	running := q.running
	q.mu.Unlock()
	if running {
		<-q.ended
	}
}
