// Package sqlcore is what the SQLite and the PostgreSQL store share: one writer that runs
// transitions in batches, each batch in one transaction with one commit.
//
// A transaction locks the rows of its pools, loads what its transitions touch and what
// the line has to count, lets pool.Clerk decide over these books in memory, and writes
// back what changed, guarded by the state, generation and epoch under which each row was
// loaded. No rule stands in SQL: it counts and stores.
//
//	lock order: pools by name → tenants by name (both at the start, in one statement each)
//
// Reads go beside the writer and see what is committed. A Store may be used concurrently.
package sqlcore

import (
	"context"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// Store implements control.Store over a database. Nothing that writes is answered before
// Run is called.
type Store struct {
	db      DB
	dialect Dialect
	sql     map[string]string // name of a file in sql/ -> statement
	queue   *queue
	counts  counts // of the writer
}

// New returns a store over a database whose schema is current.
func New(db DB, d Dialect) (*Store, error) {
	sql, err := statements(d.Rewrite)
	if err != nil {
		return nil, err
	}
	return &Store{db: db, dialect: d, sql: sql, queue: newQueue(), counts: counts{}}, nil
}

// Close stops the writer after the transaction that it is in, answers every transition
// that waits, and closes the database.
func (s *Store) Close() error {
	s.queue.halt()
	s.queue.wait()
	return s.db.Close()
}

// Freed is nil: one process has nobody to tell.
func (s *Store) Freed() <-chan struct{} { return nil }

// Claim finds or makes the row of a key and gives it a slot, a place or a no.
func (s *Store) Claim(ctx context.Context, c pool.Claim) (pool.Claimed, error) {
	return submit(ctx, s, op{claim: &c, counts: true, numbers: 1}, func(k pool.Clerk) pool.Claimed { return k.Claim(c) })
}

// submit runs a transition and returns what it answered. The answer is the transition's
// own until it is done, so that a caller who left reads nothing that is still written.
func submit[T any](ctx context.Context, s *Store, o op, transition func(pool.Clerk) T) (T, error) {
	var answer, none T
	o.do = func(b *books) { answer = transition(pool.NewClerk(b)) }
	if err := s.queue.submit(ctx, &o); err != nil {
		return none, err
	}
	return answer, nil
}

// Regen gives a placing a new generation; zero when it no longer is at the old one.
func (s *Store) Regen(ctx context.Context, id string, gen int64) (int64, error) {
	return submit(ctx, s, op{ids: []string{id}, numbers: 1}, func(k pool.Clerk) int64 { return k.Regen(id, gen) })
}

// found is a row and whether the transition took effect, or the row was found.
type found struct {
	row pool.Row
	ok  bool
}

func (s *Store) change(ctx context.Context, id string, numbers int, step func(pool.Clerk) (pool.Row, bool)) (pool.Row, bool, error) {
	f, err := submit(ctx, s, op{ids: []string{id}, numbers: numbers}, func(k pool.Clerk) (f found) {
		f.row, f.ok = step(k)
		return f
	})
	return f.row, f.ok, err
}

// Settle writes the placement that a host promised.
func (s *Store) Settle(ctx context.Context, id string, gen int64, host string, reservedFor time.Duration) (pool.Row, bool, error) {
	return s.change(ctx, id, 0, func(k pool.Clerk) (pool.Row, bool) { return k.Settle(id, gen, host, reservedFor) })
}

// NoRoom takes back a grant for which no host was found.
func (s *Store) NoRoom(ctx context.Context, id string, gen int64, hostless bool, present time.Duration) (pool.Claimed, error) {
	return submit(ctx, s, op{ids: []string{id}, counts: true}, func(k pool.Clerk) pool.Claimed {
		return k.NoRoom(id, gen, hostless, present)
	})
}

// Attend notes how far ahead a waiter's long poll is held; zero: it hung up.
func (s *Store) Attend(ctx context.Context, id string, present time.Duration) (bool, error) {
	return submit(ctx, s, op{ids: []string{id}}, func(k pool.Clerk) bool { return k.Attend(id, present) })
}

// Move places an unbooted admission anew.
func (s *Store) Move(ctx context.Context, id string, epoch int64, acknowledged bool) (pool.Row, bool, error) {
	return s.change(ctx, id, 1, func(k pool.Clerk) (pool.Row, bool) { return k.Move(id, epoch, acknowledged) })
}

// Renew writes how long the reservation will last, before the host is asked to keep it.
func (s *Store) Renew(ctx context.Context, id string, epoch int64, reservedFor time.Duration) (pool.Row, bool, error) {
	return s.change(ctx, id, 0, func(k pool.Clerk) (pool.Row, bool) { return k.Renew(id, epoch, reservedFor) })
}

// Track writes that the boot was seen.
func (s *Store) Track(ctx context.Context, id string, epoch int64) (bool, error) {
	return submit(ctx, s, op{ids: []string{id}}, func(k pool.Clerk) bool { return k.Track(id, epoch) })
}

// Leave begins a release; ok is false when there is no such admission.
func (s *Store) Leave(ctx context.Context, id string, of pool.Passage) (pool.Row, bool, error) {
	return s.change(ctx, id, 0, func(k pool.Clerk) (pool.Row, bool) { return k.Leave(id, of) })
}

// Stand writes where memory is set aside for a waiter.
func (s *Store) Stand(ctx context.Context, id, at string) (bool, error) {
	return submit(ctx, s, op{ids: []string{id}}, func(k pool.Clerk) bool { return k.Stand(id, at) })
}

// Reopen writes that a sandbox ended and may be started anew under its admission.
func (s *Store) Reopen(ctx context.Context, id string, epoch int64, reservedFor time.Duration) (bool, error) {
	return submit(ctx, s, op{ids: []string{id}}, func(k pool.Clerk) bool { return k.Reopen(id, epoch, reservedFor) })
}

// Return writes that what was lost runs on. It takes a slot, so that its tenant is locked.
func (s *Store) Return(ctx context.Context, id string, epoch int64, host string) (bool, error) {
	return submit(ctx, s, op{ids: []string{id}, counts: true}, func(k pool.Clerk) bool { return k.Return(id, epoch, host) })
}

// End writes an end; again asks the host to repeat it, because its placing is not settled yet.
func (s *Store) End(ctx context.Context, id string, epoch int64, to pool.State, reason string) (written, again bool, err error) {
	type ended struct{ written, again bool }
	e, err := submit(ctx, s, op{ids: []string{id}}, func(k pool.Clerk) (e ended) {
		e.written, e.again = k.End(id, epoch, to, reason)
		return e
	})
	return e.written, e.again, err
}
