package sqlcore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
)

// The registry of hosts is written under the lock of the pulse's row, as their leases are.

// registering runs a transition of the registry.
func (s *Store) registering(ctx context.Context, numbers int, step func(context.Context, *loader) error) error {
	return s.queue.submit(ctx, &op{numbers: numbers, hears: true, leases: true, exec: step})
}

// host reads a host, nil for none, with what this transaction heard of it.
func (l *loader) host(ctx context.Context, id string) (found *registry.Host, err error) {
	err = each(l.tx.Query(ctx, l.store.sql["host"], id))(func(rows Rows) error {
		h, err := scanHost(rows)
		h.HeardAt = max(h.HeardAt, l.hearing.leases[id].HeardAt)
		found = &h
		return err
	})
	return found, err
}

// putHost writes a host, and keeps what the sweep of the same transaction goes by.
func (l *loader) putHost(ctx context.Context, h *registry.Host) error {
	if l.err != nil { // it was given no number
		return l.err
	}
	bounds, err := encodeBounds(h.Bounds)
	if err != nil {
		return err
	}
	if err := l.moved(ctx); err != nil {
		return err
	}
	_, err = l.tx.Exec(ctx, l.store.sql["host_put"], h.ID, h.Incarnation, h.Endpoint, string(h.State), encodeDigest(h.Credential),
		h.Version, bounds, int64(h.RegisteredAt), int64(h.HeardAt), int64(h.BuriedAt))
	l.hearing.buried = slices.DeleteFunc(l.hearing.buried, func(id string) bool { return id == h.ID })
	if h.State == registry.Buried {
		l.hearing.buried = append(l.hearing.buried, h.ID)
		delete(l.hearing.leases, h.ID)
		delete(l.hearing.heard, h.ID)
	} else {
		l.hearing.leases[h.ID] = pool.Lease{HeardAt: h.HeardAt, Holds: l.hearing.leases[h.ID].Holds}
	}
	return err
}

// moved counts a change of the registry, and has other replicas look at once.
func (l *loader) moved(ctx context.Context) error {
	l.loosened = true
	_, err := l.tx.Exec(ctx, l.store.sql["hosts_moved"])
	return err
}

// HostsVersion rises with every change of what Hosts returns, but for HeardAt.
func (s *Store) HostsVersion(ctx context.Context) (version int64, err error) {
	err = each(s.db.Query(ctx, s.sql["hosts_version"]))(func(rows Rows) error { return rows.Scan(&version) })
	return version, s.explain(err)
}

// Register gives a host of this very process a new incarnation from the sequence.
func (s *Store) Register(ctx context.Context, host string) (incarnation int64, err error) {
	err = s.registering(ctx, 1, func(ctx context.Context, l *loader) error {
		h, err := l.host(ctx, host)
		if err != nil {
			return err
		}
		in := registry.Own(host, h, l.Next(), l.now)
		incarnation = in.Incarnation
		return l.putHost(ctx, &in)
	})
	return incarnation, err
}

// Join registers a host under a token, which is used up.
func (s *Store) Join(ctx context.Context, j registry.Join) (entry registry.Entry, err error) {
	err = s.registering(ctx, 1, func(ctx context.Context, l *loader) error {
		t, err := l.token(ctx, j.Token)
		if err != nil {
			return err
		}
		h, err := l.host(ctx, j.Host)
		if err != nil {
			return err
		}
		if entry = registry.JudgeJoin(&j, t, h, l.now); entry != registry.Entered {
			return nil
		}
		in := j.Enter(t, h, l.Next(), l.now)
		if err := l.putHost(ctx, &in); err != nil {
			return err
		}
		if _, err := l.tx.Exec(ctx, l.store.sql["join_use"], t.ID, int64(t.UsedAt), t.UsedBy); err != nil {
			return err
		}
		return l.done(ctx, control.JoinDeed(&j, t))
	})
	return entry, err
}

// RegisterHost takes a host's own word, under its credential.
func (s *Store) RegisterHost(ctx context.Context, r registry.Registration) (out registry.Host, entry registry.Entry, err error) {
	err = s.registering(ctx, 1, func(ctx context.Context, l *loader) error {
		h, err := l.host(ctx, r.Host)
		if err != nil {
			return err
		}
		if entry = registry.JudgeRegistration(&r, h); entry != registry.Entered {
			return nil
		}
		moved, incarnation := h.Endpoint != r.Endpoint, int64(0)
		if r.Begins(h) {
			incarnation = l.Next()
		}
		r.Enter(h, incarnation, l.now)
		out = *h
		if err := l.putHost(ctx, h); err != nil || !moved {
			return err
		}
		return l.done(ctx, control.EndpointDeed(&r))
	})
	if err != nil || entry != registry.Entered {
		return registry.Host{}, entry, err
	}
	return out, entry, nil
}

// SetHostState carries out an operator's deed, if it is legal. What a buried host holds in the
// store is over with the next sweep.
func (s *Store) SetHostState(ctx context.Context, c registry.Change) (was registry.Host, v registry.Verdict, err error) {
	err = s.registering(ctx, 0, func(ctx context.Context, l *loader) error {
		h, err := l.host(ctx, c.Host)
		if err != nil {
			return err
		}
		held, err := l.held(ctx, c.Host)
		if err != nil {
			return err
		}
		was = registry.Host{}
		if h != nil {
			was = *h
		}
		if v = registry.Judge(&c, h, held, l.now, l.hearing.pulse.HeardSince); v != registry.Changed {
			return nil
		}
		c.Apply(h, l.now)
		if err := l.putHost(ctx, h); err != nil {
			return err
		}
		return l.done(ctx, control.HostDeed(&c))
	})
	return was, v, err
}

// held counts the admissions on a host.
func (l *loader) held(ctx context.Context, host string) (n int64, err error) {
	err = each(l.tx.Query(ctx, l.store.sql["host_held"], host))(func(rows Rows) error { return rows.Scan(&n) })
	return n, err
}

// Describe keeps what hosts said of themselves.
func (s *Store) Describe(ctx context.Context, said []control.HostBounds) error {
	return s.registering(ctx, 0, func(ctx context.Context, l *loader) error {
		for _, h := range said {
			bounds, err := encodeBounds(h.Bounds)
			if err != nil {
				return err
			}
			if _, err := l.tx.Exec(ctx, l.store.sql["host_bounds"], h.ID, bounds); err != nil {
				return err
			}
		}
		return l.moved(ctx)
	})
}

// Hosts returns the registered hosts, the buried ones too, by id.
func (s *Store) Hosts(ctx context.Context) ([]control.RegisteredHost, error) {
	var out []control.RegisteredHost
	err := each(s.db.Query(ctx, s.sql["hosts"]))(func(rows Rows) error {
		h, err := scanHost(rows)
		out = append(out, h)
		return err
	})
	return out, s.explain(err)
}

// Host returns one host; ok is false when it is not registered.
func (s *Store) Host(ctx context.Context, id string) (h control.RegisteredHost, ok bool, err error) {
	err = each(s.db.Query(ctx, s.sql["host"], id))(func(rows Rows) (err error) {
		h, err = scanHost(rows)
		ok = err == nil
		return err
	})
	return h, ok, s.explain(err)
}

// scanHost reads what hosts.sql and host.sql select.
func scanHost(rows Rows) (h registry.Host, err error) {
	var credential, bounds, state string
	err = rows.Scan(&h.ID, &h.Incarnation, &h.Endpoint, &state, &credential, &h.Version, &bounds, &h.RegisteredAt, &h.HeardAt, &h.BuriedAt)
	if err != nil {
		return h, err
	}
	h.State = registry.State(state)
	if h.Credential, err = decodeDigest(credential); err != nil {
		return h, fmt.Errorf("column hosts.credential of %s: %w", h.ID, err)
	}
	if h.Bounds, err = decodeBounds(bounds); err != nil {
		return h, fmt.Errorf("column hosts.bounds of %s: %w", h.ID, err)
	}
	return h, nil
}

// IssueJoin keeps a join token that lasts for a while from now. Those that were used or ended a
// day ago are forgotten.
func (s *Store) IssueJoin(ctx context.Context, t registry.Token, lasts time.Duration) (registry.Token, error) {
	err := s.registering(ctx, 0, func(ctx context.Context, l *loader) error {
		t.CreatedAt, t.ExpiresAt = l.now, l.now.Add(lasts)
		if _, err := l.tx.Exec(ctx, l.store.sql["join_forget"], int64(l.now.Add(-pool.KeepEnded))); err != nil {
			return err
		}
		if _, err := l.tx.Exec(ctx, l.store.sql["join_add"], t.ID, encodeDigest(t.Digest), t.Host, t.By, int64(t.CreatedAt), int64(t.ExpiresAt)); err != nil {
			return err
		}
		return l.done(ctx, control.IssueDeed(&t, lasts))
	})
	return t, err
}

// RevokeJoin makes an unused token void; ok is false when there is none of that id.
func (s *Store) RevokeJoin(ctx context.Context, id, by string) (t registry.Token, ok bool, err error) {
	err = s.registering(ctx, 0, func(ctx context.Context, l *loader) error {
		found, err := tokens(l.tx.Query(ctx, l.store.sql["join_unused"], id))
		if ok = len(found) > 0; err != nil || !ok {
			return err
		}
		t = found[0]
		if _, err := l.tx.Exec(ctx, l.store.sql["join_revoke"], id); err != nil {
			return err
		}
		return l.done(ctx, control.RevokeDeed(id, by))
	})
	return t, ok, err
}

// JoinTokens returns those that neither were used nor ended a day ago, newest first.
func (s *Store) JoinTokens(ctx context.Context) ([]registry.Token, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	out, err := tokens(s.db.Query(ctx, s.sql["joins"], int64(now.Add(-pool.KeepEnded))))
	return out, s.explain(err)
}

func (l *loader) token(ctx context.Context, d registry.Digest) (*registry.Token, error) {
	found, err := tokens(l.tx.Query(ctx, l.store.sql["join"], encodeDigest(d)))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func tokens(rows Rows, err error) (out []registry.Token, _ error) {
	err = each(rows, err)(func(rows Rows) error {
		var t registry.Token
		var digest string
		err := rows.Scan(&t.ID, &digest, &t.Host, &t.By, &t.CreatedAt, &t.ExpiresAt, &t.UsedAt, &t.UsedBy)
		if err == nil {
			t.Digest, err = decodeDigest(digest)
		}
		out = append(out, t)
		return err
	})
	return out, err
}

// encodeDigest is a digest in hex; none for zero.
func encodeDigest(d registry.Digest) string {
	if d == (registry.Digest{}) {
		return ""
	}
	return hex.EncodeToString(d[:])
}

func decodeDigest(text string) (d registry.Digest, err error) {
	if text == "" {
		return d, nil
	}
	b, err := hex.DecodeString(text)
	if err == nil && len(b) != len(d) {
		err = fmt.Errorf("%d bytes are no SHA-256", len(b))
	}
	copy(d[:], b)
	return d, err
}

// boundsRecord is a host's word as hosts.bounds keeps it.
type boundsRecord struct {
	Committed bool          `json:"committed,omitempty"`
	MaxAsk    int64         `json:"max_ask,omitempty"` // bytes
	Labels    []labelRecord `json:"labels,omitempty"`
	Limits    []limitRecord `json:"limits,omitempty"`
}

type (
	labelRecord struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	limitRecord struct {
		Name string `json:"name"`
		N    int64  `json:"n"`
	}
)

func encodeBounds(b registry.Bounds) (string, error) {
	r := boundsRecord{Committed: b.Mode == gate.Committed, MaxAsk: int64(b.MaxAsk)}
	for _, l := range b.Labels {
		r.Labels = append(r.Labels, labelRecord(l))
	}
	for _, d := range b.Limits {
		r.Limits = append(r.Limits, limitRecord(d))
	}
	text, err := json.Marshal(r)
	return string(text), err
}

func decodeBounds(text string) (b registry.Bounds, err error) {
	var r boundsRecord
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return b, err
	}
	b.MaxAsk = gate.Bytes(r.MaxAsk)
	if r.Committed {
		b.Mode = gate.Committed
	}
	for _, l := range r.Labels {
		b.Labels = append(b.Labels, gate.Label(l))
	}
	for _, d := range r.Limits {
		b.Limits = append(b.Limits, gate.Dim(d))
	}
	return b, nil
}
