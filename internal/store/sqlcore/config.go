package sqlcore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Ping proves that the store can be written.
func (s *Store) Ping(ctx context.Context) error {
	return s.queue.submit(ctx, &op{exec: func(ctx context.Context, l *loader) error {
		hit, err := l.tx.Exec(ctx, l.store.sql["ping"], int64(l.now))
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
	err = s.queue.submit(ctx, &op{alone: true, allPools: true, exec: func(ctx context.Context, l *loader) error {
		return l.apply(ctx, c, limits)
	}})
	switch {
	case errors.Is(err, errFaster):
		return 0, false, nil
	case errors.Is(err, control.ErrOverCeiling):
		return 0, false, control.ErrOverCeiling
	case err != nil:
		return 0, false, err
	}
	return c.Generation + 1, true, nil
}

// apply replaces all limits; every pool is locked, so that no claim sees half of a document.
// Pools and tenants that are no longer named keep their rows: places go on from them.
func (l *loader) apply(ctx context.Context, c control.Config, limits pool.Settings) error {
	if err := l.addConfig(ctx, c); err != nil {
		return err
	}
	overrides := map[string]pool.Override{}
	for name, p := range l.pools {
		overrides[name] = p.override
	}
	if limits.OverCeiling(overrides, l.now) > 0 {
		return control.ErrOverCeiling
	}
	if err := l.replaceLimits(ctx, limits); err != nil {
		return err
	}
	l.loosened = true
	return l.done(ctx, control.Deed{By: c.By, What: control.ApplyDeed(c.Generation + 1)})
}

func (l *loader) replaceLimits(ctx context.Context, limits pool.Settings) (err error) {
	run := func(name string, args ...any) {
		if err == nil {
			_, err = l.tx.Exec(ctx, l.store.sql[name], args...)
		}
	}
	run("pools_close")
	for _, name := range slices.Sorted(maps.Keys(limits.Pools)) {
		p := limits.Pools[name]
		shares, shareErr := encodeShares(p.Shares)
		if shareErr != nil {
			return shareErr
		}
		run("pools_open", name, p.Cap, p.MaxWaiting, shares, p.Audience, p.SlotTTL.Milliseconds(), p.TicketTTL.Milliseconds(), int64(p.Enforcement))
	}
	run("quotas_clear")
	for _, tenant := range slices.Sorted(maps.Keys(limits.Quotas)) {
		run("quotas_set", tenant, limits.Quotas[tenant])
	}
	run("settings_set", limits.DefaultQuota, limits.Ceiling, int64(limits.QuotaEnforcement))
	return err
}

// addConfig adds the next generation. Two at once meet at its primary key.
func (l *loader) addConfig(ctx context.Context, c control.Config) error {
	var inForce control.Config
	err := each(l.tx.Query(ctx, l.store.sql["config"]))(func(rows Rows) (err error) {
		inForce, err = scanConfig(rows)
		return err
	})
	if err != nil {
		return err
	}
	if inForce.Generation != c.Generation {
		return errFaster
	}
	hit, err := l.tx.Exec(ctx, l.store.sql["config_add"], c.Generation+1, c.Document, c.By, int64(l.now))
	if err == nil && hit == 0 {
		err = errFaster
	}
	return err
}

// Config returns the document in force; generation 0 when there is none yet.
func (s *Store) Config(ctx context.Context) (control.Config, error) {
	c, err := s.configs(ctx, "config")
	if len(c) == 0 {
		return control.Config{}, err
	}
	return c[0], err
}

// ConfigAt returns a former document; ok is false when that generation never was.
func (s *Store) ConfigAt(ctx context.Context, generation int64) (c control.Config, ok bool, err error) {
	found, err := s.configs(ctx, "config_at", generation)
	if len(found) == 0 {
		return control.Config{}, false, err
	}
	return found[0], true, err
}

// Configs returns the newest generations first, without their documents.
func (s *Store) Configs(ctx context.Context, limit int) ([]control.Config, error) {
	return s.configs(ctx, "configs", int64(limit))
}

func (s *Store) configs(ctx context.Context, query string, args ...any) ([]control.Config, error) {
	var out []control.Config
	err := each(s.db.Query(ctx, s.sql[query], args...))(func(rows Rows) error {
		c, err := scanConfig(rows)
		out = append(out, c)
		return err
	})
	return out, s.explain(err)
}

func scanConfig(rows Rows) (c control.Config, err error) {
	err = rows.Scan(&c.Generation, &c.Document, &c.By, &c.AppliedAt)
	return c, err
}

// shareRecord is a share as pools.shares keeps it.
type shareRecord struct {
	Consumer string `json:"consumer,omitempty"`
	Priority int64  `json:"priority,omitempty"`
	Reserved int64  `json:"reserved,omitempty"`
	Max      int64  `json:"max,omitempty"`
}

const noShares = "[]"

func encodeShares(shares []pool.Share) (string, error) {
	records := make([]shareRecord, len(shares))
	for i, s := range shares {
		records[i] = shareRecord(s)
	}
	return array(records)
}

func decodeShares(text string) ([]pool.Share, error) {
	var records []shareRecord
	if err := json.Unmarshal([]byte(text), &records); err != nil {
		return nil, fmt.Errorf("column pools.shares: %w", err)
	}
	shares := make([]pool.Share, len(records))
	for i, r := range records {
		shares[i] = pool.Share(r)
	}
	return shares, nil
}
