package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/plimsoll-project/plimsoll/internal/store/sqlcore"
	"github.com/plimsoll-project/plimsoll/pool"
)

// clock is the store's: the server's, and ahead of it by what that was set back.
type clock struct {
	read func() pool.Time // stands for the server's in tests; nil: the server's
}

// reading is what the pulse's row knows of the clock.
type reading struct {
	raw    pool.Time // the server's, now
	rawAt  pool.Time // the server's when the two were last compared
	ahead  pool.Time // by how much the store's is ahead since
	beatAt pool.Time // the last pulse
}

const readClock = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, raw_at, ahead_ms, beat_at FROM pulse WHERE one = 1"

// now is never before the last pulse; a pool's row holds what is newer.
func (c clock) now(ctx context.Context, q sqlcore.Querier) (pool.Time, error) {
	r, err := c.reading(ctx, q)
	return max(r.raw+r.ahead, r.beatAt), err
}

func (c clock) reading(ctx context.Context, q sqlcore.Querier) (r reading, err error) {
	rows, err := q.Query(ctx, readClock)
	if err != nil {
		return r, err
	}
	defer rows.Close()
	if !rows.Next() {
		return r, cmp.Or(rows.Err(), errors.New("the store has lost its pulse row"))
	}
	if err := rows.Scan(&r.raw, &r.rawAt, &r.ahead, &r.beatAt); err != nil {
		return r, err
	}
	if c.read != nil {
		r.raw = c.read()
	}
	return r, rows.Err()
}

// steady compares the two clocks, under the lock of the pulse.
func (c clock) steady(ctx context.Context, t sqlcore.Tx) error {
	r, err := c.reading(ctx, t)
	if err != nil {
		return err
	}
	_, err = t.Exec(ctx, "UPDATE pulse SET raw_at = $1, ahead_ms = $2 WHERE one = 1", int64(r.raw), int64(r.steadied()))
	return err
}

const makeUp = 10 // one part in so many is the clock slower while it is ahead

// steadied is by how much the store's clock is ahead from now on. When the server's was set
// back, it goes on from where it stood, and then loses a tenth until the server's has caught
// up. A leap forward is made use of to come together; otherwise it looks like an outage, in
// which the clock went on: nothing is over by a silence then (pool.Pulse).
func (r reading) steadied() pool.Time {
	last := max(r.rawAt+r.ahead, r.beatAt)
	elapsed := r.raw.Since(r.rawAt)
	if elapsed < 0 || elapsed > pool.PulseGap {
		return max(last-r.raw, 0)
	}
	return max(r.ahead-(r.raw-r.rawAt)/makeUp, 0)
}
