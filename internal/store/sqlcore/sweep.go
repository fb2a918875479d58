package sqlcore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

const sweepChunk = 256 // admissions that one sweeping transaction may change

// Sweep writes the pulse, and then undoes, ends or forgets what is due. Which rows may be
// due is read beside the writer; each is judged again in the transaction that changes it, so
// that several replicas may sweep at once.
func (s *Store) Sweep(ctx context.Context) ([]pool.Row, error) {
	pulse, err := s.Pulse(ctx, nil)
	if err != nil {
		return nil, err
	}
	ids, err := s.due(ctx, pulse)
	var changed []pool.Row
	for chunk := range slices.Chunk(ids, sweepChunk) {
		swept, chunkErr := submit(ctx, s, op{ids: chunk, hears: true, leases: true}, func(k pool.Clerk) []pool.Row { return k.Sweep(chunk) })
		if chunkErr != nil {
			return changed, chunkErr
		}
		changed = append(changed, swept...)
	}
	return changed, cmp.Or(err, s.forgetDecisions(ctx))
}

func (s *Store) due(ctx context.Context, pulse pool.Pulse) ([]string, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	all, buried, err := leases(ctx, s.db, s.sql["leases"], pulse.LeftBefore(now))
	if err != nil {
		return nil, s.explain(err)
	}
	dead, err := names(pool.Dead(all, now, pulse))
	if err != nil {
		return nil, err
	}
	dug, err := names(buried)
	if err != nil {
		return nil, err
	}
	before := func(d time.Duration) int64 { return int64(now.Add(-d)) }
	var ids []string
	err = each(s.db.Query(ctx, s.sql["due"], before(pool.PlacingFor), int64(now), before(pool.KeepEnded), dead, dug))(func(rows Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	slices.Sort(ids)
	return ids, s.explain(err)
}

func (s *Store) explain(err error) error {
	if err == nil {
		return nil
	}
	return s.dialect.Explain(err)
}
