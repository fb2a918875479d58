package sqlcore

import (
	"context"
	"maps"
	"slices"

	"github.com/plimsoll-project/plimsoll/pool"
)

// flush writes what the transitions changed, one statement for each kind of change.
// Removals come first, because a key may have been removed and made anew.
func (l *loader) flush(ctx context.Context) error {
	var gone, steps, restarts, fresh []Record
	for _, e := range l.order {
		l.touch(e)
		switch {
		case e.stored == nil && e.row == nil:
		case e.stored == nil:
			fresh = append(fresh, toRecord(e.row, &pool.Row{}))
		case e.row == nil:
			gone = append(gone, toRecord(e.stored, e.stored))
		case *e.row == *e.stored:
		case sameRequest(e.row, e.stored):
			steps = append(steps, toRecord(e.row, e.stored))
		default:
			restarts = append(restarts, toRecord(e.row, e.stored))
		}
	}
	if err := write(ctx, l, "remove", gone); err != nil {
		return err
	}
	for _, w := range []struct {
		change Change
		rows   []Record
	}{{Step, steps}, {Restart, restarts}, {Insert, fresh}} {
		if err := l.change(ctx, w.change, w.rows); err != nil {
			return err
		}
	}
	if err := l.keepYes(ctx); err != nil {
		return err
	}
	if err := l.flushPools(ctx); err != nil {
		return err
	}
	return l.flushHearing(ctx)
}

func (l *loader) change(ctx context.Context, c Change, rows []Record) error {
	if len(rows) == 0 {
		return nil
	}
	hit, err := l.store.dialect.Write(ctx, l.tx, c, rows)
	if err == nil && hit != int64(len(rows)) {
		return errMoved
	}
	return err
}

// touch notes whose counts an admission's change makes void.
func (l *loader) touch(e *entry) {
	if e.stored != nil && e.row != nil && *e.row == *e.stored {
		return
	}
	for _, r := range []*pool.Row{e.stored, e.row} {
		if r != nil {
			l.pool(r.Pool).touched = true
		}
	}
}

func sameRequest(a, b *pool.Row) bool {
	return a.Contents == b.Contents && a.Pool == b.Pool && a.Mode == b.Mode && a.MaxQueueAge == b.MaxQueueAge
}

// write runs a statement over an array; unless it hits each of its rows, somebody else
// moved one of them, and the transaction is tried again.
func write[T any](ctx context.Context, l *loader, name string, rows []T) error {
	if len(rows) == 0 {
		return nil
	}
	arg, err := array(rows)
	if err != nil {
		return err
	}
	hit, err := l.tx.Exec(ctx, l.store.sql[name], arg)
	if err == nil && hit != int64(len(rows)) {
		return errMoved
	}
	return err
}

type markRecord struct {
	ID       string    `json:"id"`
	Late     bool      `json:"late"`
	SparedAt pool.Time `json:"spared_at"`
}

func (l *loader) flushPools(ctx context.Context) error {
	var marks []markRecord
	for _, id := range slices.Sorted(maps.Keys(l.marked)) {
		if w := l.marked[id]; l.entries[id] == nil {
			marks = append(marks, markRecord{id, w.Late, w.SparedAt})
		}
	}
	if err := write(ctx, l, "mark", marks); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(l.pools)) {
		if err := l.flushPool(ctx, name, l.pools[name]); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) flushPool(ctx context.Context, name string, p *poolState) error {
	if p.touched {
		hit, err := l.tx.Exec(ctx, l.store.sql["touch"], name, p.version, p.lastPlace, int64(l.now), p.freed)
		if err == nil && hit != 1 {
			err = errMoved
		}
		if err != nil {
			return err
		}
	}
	if !p.overridden {
		return nil
	}
	o := p.override
	_, err := l.tx.Exec(ctx, l.store.sql["override"], name, o.Cap, int64(o.Since), int64(o.Until), o.By, o.Reason)
	return err
}
