package sqlcore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
)

// Run is the writer: it takes transitions, runs them in shared transactions and answers
// them, until ctx ends or the store is closed. Whoever waits then is told ErrClosed.
func (s *Store) Run(ctx context.Context) error {
	if err := s.queue.begin(); err != nil {
		return err
	}
	defer close(s.queue.ended)
	defer s.queue.halt()
	var held *op
	for {
		batch := s.queue.gather(ctx, held)
		held = nil
		if len(batch) == 0 {
			return nil
		}
		if last := len(batch) - 1; last > 0 && batch[last].alone {
			held, batch = batch[last], batch[:last]
		}
		s.answer(batch)
	}
}

// answer runs a batch and answers all of it.
func (s *Store) answer(batch []*op) {
	live := batch[:0:0]
	for _, o := range batch {
		if o.err = o.ctx.Err(); o.err == nil {
			live = append(live, o)
		}
	}
	s.execute(live)
	for _, o := range batch {
		if o.err != nil {
			o.err = s.dialect.Explain(o.err)
		}
		close(o.done)
	}
}

// execute runs the transitions in one transaction. When one of them cannot be written,
// each is run again in a transaction of its own, so that only that one fails. A rollback
// of the whole and a second run need no savepoints, which SQLite drops anyway when the
// disk is full, and cost nothing while all goes well.
func (s *Store) execute(ops []*op) {
	if len(ops) == 0 {
		return
	}
	err := s.retry(ops)
	if err != nil && len(ops) > 1 && s.kind(err) == Split {
		for _, o := range ops {
			s.execute([]*op{o})
		}
		return
	}
	for _, o := range ops {
		o.err = err
	}
}

// retry runs a transaction until it meets no conflict, a bounded number of times.
func (s *Store) retry(ops []*op) error {
	ctx, cancel := context.WithTimeout(context.Background(), batchFor)
	defer cancel()
	var err error
	for try := range maxTries {
		if err = s.try(ctx, ops, try > 0); s.kind(err) != Retry {
			return err
		}
		select {
		case <-time.After(time.Duration(1+rand.IntN(2<<try)) * time.Millisecond):
		case <-ctx.Done():
			return err
		}
	}
	return err
}

func (s *Store) kind(err error) Kind {
	switch {
	case err == nil || errors.Is(err, errFaster) || errors.Is(err, control.ErrOverCeiling):
		return Fatal
	case errors.Is(err, errMoved):
		return Retry
	case errors.Is(err, errNotLoaded):
		return Split
	}
	_, committing := errors.AsType[commitError](err)
	return s.dialect.Kind(err, committing)
}

// try runs the transitions in one transaction, in the order in which they came.
func (s *Store) try(ctx context.Context, ops []*op, again bool) error {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return err
	}
	l := &loader{store: s, books: newBooks(ctx, tx), need: needOf(ops), again: again}
	l.take = l.takeNumbers
	if err = l.transact(ctx, ops); err == nil {
		if err = tx.Commit(ctx); err == nil {
			s.counts.keep(l.books)
			s.tellFreed(l.books)
			return nil
		}
		err = commitError{err}
	}
	clear(s.counts) // the transitions have changed them
	undo, cancel := context.WithTimeout(context.Background(), batchFor)
	defer cancel()
	return errors.Join(err, tx.Rollback(undo))
}

// tellFreed says that a committed transaction made room for somebody.
func (s *Store) tellFreed(b *books) {
	if s.dialect.Freed != nil && (b.loosened || slices.ContainsFunc(b.order, (*entry).freed)) {
		s.dialect.Freed()
	}
}

// commitError says that a whole batch's outcome hangs on one commit.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }

func (l *loader) transact(ctx context.Context, ops []*op) error {
	if err := l.load(ctx); err != nil {
		return err
	}
	for _, o := range ops {
		if o.do != nil {
			o.do(l.books)
		}
		if o.exec != nil {
			l.books.fail(o.exec(ctx, l))
		}
		l.wanting -= o.numbers
		if l.err != nil {
			return l.err
		}
	}
	return l.flush(ctx)
}

// takeNumbers takes n numbers from the sequence.
func (l *loader) takeNumbers(n int) ([]int64, error) {
	taken := make([]int64, 0, n)
	err := each(l.tx.Query(l.ctx, l.store.dialect.Numbers, int64(n)))(func(rows Rows) error {
		var first, last int64
		if err := rows.Scan(&first, &last); err != nil {
			return err
		}
		for i := first; i <= last; i++ {
			taken = append(taken, i)
		}
		return nil
	})
	if err == nil && len(taken) < n {
		err = errors.New("the sequence gave too few numbers")
	}
	return taken, err
}
