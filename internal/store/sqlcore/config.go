package sqlcore

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Register gives a host a new incarnation from the sequence.
func (s *Store) Register(ctx context.Context, host string) (int64, error) {
	var incarnation int64
	err := s.queue.submit(ctx, &op{numbers: 1, exec: func(ctx context.Context, l *loader) error {
		n := l.Next()
		if l.err != nil {
			return l.err
		}
		_, err := l.tx.Exec(ctx, l.store.sql["register"], host, n, int64(l.now))
		incarnation = n
		return err
	}})
	if err != nil {
		return 0, err
	}
	return incarnation, nil
}

// Ping proves that the store can be written.
func (s *Store) Ping(ctx context.Context) error {
	return s.queue.submit(ctx, &op{exec: func(ctx context.Context, l *loader) error {
		hit, err := l.tx.Exec(ctx, l.store.sql["pulse"], int64(l.now))
		if err == nil && hit != 1 {
			err = errors.New("the store has lost its pulse row")
		}
		return err
	}})
}

// errFaster is what an Apply meets that another one overtook.
var errFaster = errors.New("another document came into force")

// Apply puts a document in force, only if the generation in force is c.Generation; the new
// generation is one higher. ok is false when somebody was faster.
func (s *Store) Apply(ctx context.Context, c control.Config, limits pool.Settings) (generation int64, ok bool, err error) {
	err = s.queue.submit(ctx, &op{alone: true, exec: func(ctx context.Context, l *loader) error {
		return l.apply(ctx, c, limits)
	}})
	if errors.Is(err, errFaster) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	return c.Generation + 1, true, nil
}

// apply locks every pool, so that no claim sees half of a document, then replaces all
// limits. Pools and tenants that are no longer named keep their rows: places go on from them.
func (l *loader) apply(ctx context.Context, c control.Config, limits pool.Settings) error {
	if err := each(l.tx.Query(ctx, l.store.sql["pools_lock"]))(func(Rows) error { return nil }); err != nil {
		return err
	}
	now, err := l.store.clock(ctx, l.tx)
	if err != nil {
		return err
	}
	if err := l.addConfig(ctx, c, now); err != nil {
		return err
	}
	run := func(name string, args ...any) {
		if err == nil {
			_, err = l.tx.Exec(ctx, l.store.sql[name], args...)
		}
	}
	run("pools_close")
	for _, name := range slices.Sorted(maps.Keys(limits.Pools)) {
		run("pools_open", name, limits.Pools[name].Cap, limits.Pools[name].MaxWaiting)
	}
	run("quotas_clear")
	for _, tenant := range slices.Sorted(maps.Keys(limits.Quotas)) {
		run("quotas_set", tenant, limits.Quotas[tenant])
	}
	run("settings_set", limits.DefaultQuota)
	return err
}

// addConfig adds the next generation. Two at once meet at its primary key.
func (l *loader) addConfig(ctx context.Context, c control.Config, now pool.Time) error {
	var inForce control.Config
	err := each(l.tx.Query(ctx, l.store.sql["config"]))(func(rows Rows) error {
		return rows.Scan(&inForce.Generation, &inForce.Document, &inForce.By, &inForce.AppliedAt)
	})
	if err != nil {
		return err
	}
	if inForce.Generation != c.Generation {
		return errFaster
	}
	hit, err := l.tx.Exec(ctx, l.store.sql["config_add"], c.Generation+1, c.Document, c.By, int64(now))
	if err == nil && hit == 0 {
		err = errFaster
	}
	return err
}
