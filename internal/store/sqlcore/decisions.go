package sqlcore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Decide keeps decisions, and forgets the oldest where there are more than may be kept. It shares
// no transaction, so that nothing that goes wrong with it is an admission's.
func (s *Store) Decide(ctx context.Context, decisions []*control.Decision, most int64) (early int64, err error) {
	told, seen, err := encodedDecisions(decisions)
	if err != nil {
		return 0, err
	}
	var bounded atomic.Int64 // a transaction outlives a caller whose patience is over
	err = s.queue.submit(ctx, &op{alone: true, exec: func(ctx context.Context, l *loader) error {
		if err := l.putDecisions(ctx, told, seen); err != nil {
			return err
		}
		n, err := l.tx.Exec(ctx, l.store.sql["decisions_bound"], most)
		bounded.Store(n)
		return err
	}})
	if err != nil {
		return 0, err
	}
	return bounded.Load(), nil
}

// encodedDecisions are their rows, and what they rest on, each once.
func encodedDecisions(decisions []*control.Decision) (told, seen [][]string, err error) {
	names, evidence := map[*control.Evidence]string{}, map[string]string{}
	for _, d := range decisions {
		document, err := json.Marshal(d)
		if err != nil {
			return nil, nil, fmt.Errorf("encode a decision: %w", err)
		}
		name := ""
		if e := d.Evidence; e != nil {
			if name = names[e]; name == "" {
				text, err := json.Marshal(e)
				if err != nil {
					return nil, nil, fmt.Errorf("encode what a decision rests on: %w", err)
				}
				sum := sha256.Sum256(text)
				name = hex.EncodeToString(sum[:16])
				names[e], evidence[name] = name, string(text)
			}
		}
		t := &d.Told
		told = append(told, []string{t.ID, t.Consumer, t.Key, name, string(document)})
	}
	for _, name := range slices.Sorted(maps.Keys(evidence)) { // in one order, so that replicas do not lock each other out
		seen = append(seen, []string{name, evidence[name]})
	}
	return told, seen, nil
}

func (l *loader) putDecisions(ctx context.Context, told, seen [][]string) error {
	for _, of := range []struct {
		statement string
		rows      [][]string
	}{{"evidence_put", seen}, {"decisions_put", told}} {
		if len(of.rows) == 0 {
			continue
		}
		arg, err := array(of.rows)
		if err != nil {
			return err
		}
		if _, err := l.tx.Exec(ctx, l.store.sql[of.statement], arg, int64(l.now)); err != nil {
			return err
		}
	}
	return nil
}

// keepYes keeps the yes of an admission whose row is becoming another's: until then the row itself
// tells of it.
func (l *loader) keepYes(ctx context.Context) error {
	var over []*control.Decision
	for _, e := range l.order {
		if e.stored != nil && e.row != nil && control.Supersedes(e.row, e.stored) {
			over = append(over, control.YesOf(e.stored))
		}
	}
	if len(over) == 0 {
		return nil
	}
	told, seen, err := encodedDecisions(over)
	if err != nil {
		return err
	}
	return l.putDecisions(ctx, told, seen)
}

// forgetDecisions drops those whose day is over, and what only they rested on.
func (s *Store) forgetDecisions(ctx context.Context) error {
	return s.queue.submit(ctx, &op{alone: true, exec: func(ctx context.Context, l *loader) error {
		_, err := l.tx.Exec(ctx, l.store.sql["decisions_forget"], int64(l.now.Add(-pool.KeepEnded)))
		if err == nil {
			_, err = l.tx.Exec(ctx, l.store.sql["evidence_forget"], int64(l.now)+1)
		}
		return err
	}})
}

// Decision returns one that is kept; ok is false when none of that id is.
func (s *Store) Decision(ctx context.Context, id string) (d *control.Decision, ok bool, err error) {
	all, err := s.decisions(ctx, "decision", id)
	if err != nil || len(all) == 0 {
		return nil, false, err
	}
	return all[0], true, nil
}

// Decisions returns what a consumer's key was told, or anybody's for "", the newest first.
func (s *Store) Decisions(ctx context.Context, consumer, key string, limit int) ([]*control.Decision, error) {
	return s.decisions(ctx, "decisions", key, consumer, int64(limit))
}

func (s *Store) decisions(ctx context.Context, statement string, args ...any) (out []*control.Decision, err error) {
	err = each(s.db.Query(ctx, s.sql[statement], args...))(func(rows Rows) error {
		var document, evidence string
		if err := rows.Scan(&document, &evidence); err != nil {
			return err
		}
		d, err := control.ReadDecision([]byte(document), []byte(evidence))
		out = append(out, d)
		return err
	})
	return out, s.explain(err)
}
