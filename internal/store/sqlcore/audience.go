package sqlcore

import (
	"context"
	"slices"

	"github.com/plimsoll-project/plimsoll/pool"
)

// Hear takes a caller's heartbeat for a slot without a host.
func (s *Store) Hear(ctx context.Context, id string, epoch int64) (pool.Row, bool, error) {
	return s.change(ctx, id, 0, func(k pool.Clerk) (pool.Row, bool) { return k.Hear(id, epoch) })
}

// Redeem closes a ticket without a host.
func (s *Store) Redeem(ctx context.Context, d pool.Redemption) (pool.RedeemVerdict, pool.Row, error) {
	type redeemed struct {
		verdict pool.RedeemVerdict
		row     pool.Row
	}
	r, err := submit(ctx, s, op{ids: []string{d.ID}}, func(k pool.Clerk) (r redeemed) {
		r.verdict, r.row = k.Redeem(d)
		return r
	})
	return r.verdict, r.row, err
}

// Seen says which of what somebody lists as running has a slot without a host. A long list
// takes several transactions: each of its items stands for itself.
func (s *Store) Seen(ctx context.Context, running []pool.Ref) ([]bool, error) {
	have := make([]bool, 0, len(running))
	for refs := range slices.Chunk(running, sweepChunk) {
		ids := make([]string, len(refs))
		for i, ref := range refs {
			ids[i] = ref.ID
		}
		seen, err := submit(ctx, s, op{ids: ids}, func(k pool.Clerk) []bool { return k.Seen(refs) })
		if err != nil {
			return nil, err
		}
		have = append(have, seen...)
	}
	return have, nil
}
