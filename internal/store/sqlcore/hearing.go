package sqlcore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
)

// hearing is what is known of who can be heard: the pulse, and the leases of hosts. The
// pulse's row is the lock of both.
type hearing struct {
	pulse  pool.Pulse
	beaten bool // the pulse is to be written
	silent int  // hosts, and of how many, where the leases were not read
	of     int
	leases map[string]pool.Lease // by host; not of those that are buried; nil: not read
	buried []string              // hosts, by name
	heard  map[string]bool       // hosts whose lease is to be written
}

func (b *books) Pulse() pool.Pulse { return b.hearing.pulse }

func (b *books) PutPulse(p pool.Pulse) { b.hearing.pulse, b.hearing.beaten = p, true }

func (b *books) Silent() (silent, of int) {
	if b.hearing.leases == nil {
		return b.hearing.silent, b.hearing.of
	}
	return b.hearing.pulse.Silent(b.hearing.leases, b.now)
}

func (b *books) Leases() map[string]pool.Lease { return b.hearing.leases }

func (b *books) Buried() []string { return b.hearing.buried }

// hear renews the leases, where they are due, of those hosts that are registered: at once where
// nobody in this transaction has read them all, which takes longer than to count the silent.
func (l *loader) hear(ctx context.Context, hosts []string) error {
	h := &l.hearing
	if h.leases == nil {
		if err := l.renew(ctx, hosts); err != nil {
			return err
		}
		return each(l.tx.Query(ctx, l.store.sql["hosts_silent"], int64(l.now.Add(-pool.HostSilent)), int64(h.pulse.LeftBefore(l.now))))(func(rows Rows) error {
			return rows.Scan(&h.silent, &h.of)
		})
	}
	for _, name := range hosts {
		if lease, registered := h.leases[name]; registered && pool.Renews(lease.HeardAt, l.now) {
			lease.HeardAt = l.now
			h.leases[name], h.heard[name] = lease, true
		}
	}
	return nil
}

// renew writes leases that are due.
func (l *loader) renew(ctx context.Context, hosts []string) error {
	if len(hosts) == 0 {
		return nil
	}
	arg, err := names(hosts)
	if err == nil {
		_, err = l.tx.Exec(ctx, l.store.sql["hosts_heard"], arg, int64(l.now), int64(l.now.Add(-pool.RenewAfter)))
	}
	return err
}

// lockHearing reads the pulse; others who write it, or leases, wait.
func (l *loader) lockHearing(ctx context.Context) error {
	l.hearing.heard = map[string]bool{}
	err := each(l.tx.Query(ctx, l.store.sql["pulse_lock"]))(func(rows Rows) error {
		var shortest int64
		err := rows.Scan(&l.hearing.pulse.At, &l.hearing.pulse.HeardSince, &l.hearing.pulse.HostsSince, &shortest)
		l.hearing.pulse.Gap = pool.GapFor(time.Duration(shortest) * time.Millisecond)
		return err
	})
	if err == nil && l.store.dialect.Steady != nil {
		err = l.store.dialect.Steady(ctx, l.tx)
	}
	return err
}

// leases reads those of the hosts that are not buried, and which are. A program of schema 1
// registers without one.
func leases(ctx context.Context, from Querier, statement string, left pool.Time) (all map[string]pool.Lease, buried []string, err error) {
	all = map[string]pool.Lease{}
	err = each(from.Query(ctx, statement, int64(left)))(func(rows Rows) error {
		var name, state string
		var lease pool.Lease
		err := rows.Scan(&name, &state, &lease.HeardAt, &lease.Holds)
		if registry.State(state) == registry.Buried {
			buried = append(buried, name)
		} else {
			all[name] = lease
		}
		return err
	})
	return all, buried, err
}

func (l *loader) flushHearing(ctx context.Context) error {
	if l.hearing.beaten {
		p := l.hearing.pulse
		if _, err := l.tx.Exec(ctx, l.store.sql["pulse"], int64(p.At), int64(p.HeardSince), int64(p.HostsSince)); err != nil {
			return err
		}
	}
	return l.renew(ctx, slices.Sorted(maps.Keys(l.hearing.heard)))
}

// Pulse writes that this replica hears, and renews the leases of the hosts that it heard.
func (s *Store) Pulse(ctx context.Context, heard []string) (pool.Pulse, error) {
	var p pool.Pulse
	o := &op{hears: true, exec: func(ctx context.Context, l *loader) error {
		err := l.hear(ctx, heard)
		if err == nil {
			p = pool.NewClerk(l.books).Pulse()
		}
		return err
	}}
	if err := s.queue.submit(ctx, o); err != nil {
		return pool.Pulse{}, err
	}
	return p, nil
}

const attestFor = time.Hour // a replica is shown for so long after its last word

// Attest writes that a replica is up. Those who are no longer shown are forgotten.
func (s *Store) Attest(ctx context.Context, r control.Replica) error {
	return s.queue.submit(ctx, &op{exec: func(ctx context.Context, l *loader) error {
		_, err := l.tx.Exec(ctx, l.store.sql["attest"], r.ID, r.Address, r.Version, r.Keys, int64(l.now))
		if err == nil {
			_, err = l.tx.Exec(ctx, l.store.sql["replicas_forget"], int64(l.now.Add(-attestFor)))
		}
		return err
	}})
}

// Replicas returns those that attested within the last hour, by id.
func (s *Store) Replicas(ctx context.Context) ([]control.Replica, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	var out []control.Replica
	err = each(s.db.Query(ctx, s.sql["replicas"], int64(now.Add(-attestFor))))(func(rows Rows) error {
		var r control.Replica
		err := rows.Scan(&r.ID, &r.Address, &r.Version, &r.Keys, &r.HeardAt)
		out = append(out, r)
		return err
	})
	return out, s.explain(err)
}
