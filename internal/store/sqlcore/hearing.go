package sqlcore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
)

// hearing is what is known of who can be heard: the pulse, and the leases of hosts. The
// pulse's row is the lock of both.
type hearing struct {
	pulse  pool.Pulse
	beaten bool                 // the pulse is to be written
	leases map[string]pool.Time // host -> last heard
	heard  map[string]bool      // hosts whose lease is to be written
}

func (b *books) Pulse() pool.Pulse { return b.hearing.pulse }

func (b *books) PutPulse(p pool.Pulse) { b.hearing.pulse, b.hearing.beaten = p, true }

func (b *books) Leases() map[string]pool.Time { return b.hearing.leases }

// hear renews the leases of those hosts that are registered.
func (b *books) hear(hosts []string) {
	for _, name := range hosts {
		if _, registered := b.hearing.leases[name]; registered {
			b.hearing.leases[name], b.hearing.heard[name] = b.now, true
		}
	}
}

// lockHearing reads the pulse and the leases; others who write them wait.
func (l *loader) lockHearing(ctx context.Context) error {
	l.hearing.leases, l.hearing.heard = map[string]pool.Time{}, map[string]bool{}
	err := each(l.tx.Query(ctx, l.store.sql["pulse_lock"]))(func(rows Rows) error {
		var shortest int64
		err := rows.Scan(&l.hearing.pulse.At, &l.hearing.pulse.HeardSince, &l.hearing.pulse.HostsSince, &shortest)
		l.hearing.pulse.Gap = pool.GapFor(time.Duration(shortest) * time.Millisecond)
		return err
	})
	if err == nil && l.store.dialect.Steady != nil {
		err = l.store.dialect.Steady(ctx, l.tx)
	}
	if err != nil {
		return err
	}
	return each(l.tx.Query(ctx, l.store.sql["hosts"]))(func(rows Rows) error {
		h, err := scanHost(rows)
		l.hearing.leases[h.ID] = h.HeardAt
		return err
	})
}

func (l *loader) flushHearing(ctx context.Context) error {
	if l.hearing.beaten {
		p := l.hearing.pulse
		if _, err := l.tx.Exec(ctx, l.store.sql["pulse"], int64(p.At), int64(p.HeardSince), int64(p.HostsSince)); err != nil {
			return err
		}
	}
	if len(l.hearing.heard) == 0 {
		return nil
	}
	arg, err := names(slices.Sorted(maps.Keys(l.hearing.heard)))
	if err == nil {
		_, err = l.tx.Exec(ctx, l.store.sql["hosts_heard"], arg, int64(l.now))
	}
	return err
}

// Pulse writes that this replica hears, and renews the leases of the hosts that it heard.
func (s *Store) Pulse(ctx context.Context, heard []string) (pool.Pulse, error) {
	var p pool.Pulse
	o := &op{hears: true, do: func(b *books) {
		b.hear(heard)
		p = pool.NewClerk(b).Pulse()
	}}
	if err := s.queue.submit(ctx, o); err != nil {
		return pool.Pulse{}, err
	}
	return p, nil
}

// Register gives a host a new incarnation from the sequence.
func (s *Store) Register(ctx context.Context, host string) (int64, error) {
	var incarnation int64
	err := s.queue.submit(ctx, &op{numbers: 1, hears: true, exec: func(ctx context.Context, l *loader) error {
		n := l.Next()
		if l.err != nil {
			return l.err
		}
		_, err := l.tx.Exec(ctx, l.store.sql["register"], host, n, int64(l.now))
		l.hearing.leases[host] = l.now
		incarnation = n
		return err
	}})
	if err != nil {
		return 0, err
	}
	return incarnation, nil
}

// Hosts returns the registered hosts, by id.
func (s *Store) Hosts(ctx context.Context) ([]control.HostLease, error) {
	var out []control.HostLease
	err := each(s.db.Query(ctx, s.sql["hosts"]))(func(rows Rows) error {
		h, err := scanHost(rows)
		out = append(out, h)
		return err
	})
	return out, s.explain(err)
}

// scanHost reads what hosts.sql selects. A program of schema 1 registers without a lease.
func scanHost(rows Rows) (control.HostLease, error) {
	var h control.HostLease
	var registered pool.Time
	err := rows.Scan(&h.ID, &h.Incarnation, &registered, &h.HeardAt)
	h.HeardAt = max(h.HeardAt, registered)
	return h, err
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
