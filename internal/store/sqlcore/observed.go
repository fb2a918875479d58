package sqlcore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/hindsight"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// Compare takes what another scheduler decided, and what came of it.
func (s *Store) Compare(ctx context.Context, o table.Options, told []hindsight.Told) ([]hindsight.Answer, error) {
	var answers []hindsight.Answer // read by the caller once the transaction is done
	err := s.queue.submit(ctx, &op{alone: true, exec: func(ctx context.Context, l *loader) error {
		d, err := l.docket(ctx, told)
		if err != nil {
			return err
		}
		answers = d.Take(l.now, o, told)
		return l.writeDocket(ctx, d)
	}})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// docket reads what a step needs, under the lock of the tally.
func (l *loader) docket(ctx context.Context, told []hindsight.Told) (*hindsight.Docket, error) {
	d := &hindsight.Docket{Cases: map[hindsight.ID]*hindsight.Case{}}
	if err := each(l.tx.Query(ctx, l.store.sql["compared_lock"]))(func(rows Rows) error { return scanJSON(rows, &d.Tally) }); err != nil {
		return nil, err
	}
	wanted, from, to := [][3]string{}, l.now, pool.Time(0)
	for _, t := range told {
		wanted = append(wanted, [3]string{t.ID.Consumer, t.ID.Key, t.ID.Host})
		if t.Decision != nil {
			at := l.now.Add(-t.Decision.Age)
			from, to = min(from, at), max(to, at)
		}
	}
	arg, err := array(wanted)
	if err != nil {
		return nil, err
	}
	from = from.Add(-hindsight.SetAside)
	err = each(l.tx.Query(ctx, l.store.sql["observed"], arg, int64(from), int64(to)))(func(rows Rows) error {
		var c hindsight.Case
		err := scanJSON(rows, &c)
		d.Cases[c.ID] = &c
		return err
	})
	return d, err
}

// writeDocket writes what a step changed.
func (l *loader) writeDocket(ctx context.Context, d *hindsight.Docket) error {
	for _, c := range d.Written() {
		document, err := json.Marshal(c)
		if err != nil {
			return err
		}
		yes := int64(0)
		if c.Yes {
			yes = 1
		}
		if _, err = l.tx.Exec(ctx, l.store.sql["observed_put"], c.Number, c.Consumer, c.Key, c.Host, int64(c.At), yes, string(document)); err != nil {
			return err
		}
	}
	if n := d.Forgotten(); n > 0 {
		if _, err := l.tx.Exec(ctx, l.store.sql["observed_forget"], n); err != nil {
			return err
		}
	}
	return l.writeTally(ctx, &d.Tally)
}

func (l *loader) writeTally(ctx context.Context, t *hindsight.Tally) error {
	document, err := json.Marshal(t)
	if err == nil {
		_, err = l.tx.Exec(ctx, l.store.sql["compared_put"], string(document))
	}
	return err
}

// Compared returns what came of all of it.
func (s *Store) Compared(ctx context.Context) (t hindsight.Tally, err error) {
	err = each(s.db.Query(ctx, s.sql["compared"]))(func(rows Rows) error { return scanJSON(rows, &t) })
	return t, s.explain(err)
}

// ForgetCompared begins the comparison anew.
func (s *Store) ForgetCompared(ctx context.Context, by string) error {
	return s.queue.submit(ctx, &op{alone: true, exec: func(ctx context.Context, l *loader) error {
		var was hindsight.Tally
		if err := each(l.tx.Query(ctx, l.store.sql["compared_lock"]))(func(rows Rows) error { return scanJSON(rows, &was) }); err != nil {
			return err
		}
		if _, err := l.tx.Exec(ctx, l.store.sql["observed_forget"], was.Last); err != nil {
			return err
		}
		if err := l.writeTally(ctx, &hindsight.Tally{Last: was.Last}); err != nil {
			return err
		}
		return l.done(ctx, control.Deed{By: by, What: control.ForgetComparedDeed})
	}})
}

func scanJSON(rows Rows, into any) error {
	var document string
	if err := rows.Scan(&document); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(document), into); err != nil {
		return fmt.Errorf("read a kept document: %w", err)
	}
	return nil
}
