package storetest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
)

// host is what is registered under an id, nil for nothing.
func (m *Memory) host(id string) *registry.Host {
	h, ok := m.hosts[id]
	if !ok {
		return nil
	}
	return &h
}

// put registers a host, and has the model count it or not.
func (m *Memory) put(h registry.Host) {
	m.version++
	m.hosts[h.ID] = h
	switch {
	case h.State == registry.Buried:
		m.model.BuryHost(h.ID)
	case h.HeardAt == m.model.Now():
		m.model.AdmitHost(h.ID)
	}
}

// Register implements control.Store.
func (m *Memory) Register(_ context.Context, host string) (int64, error) {
	defer m.in()()
	h := registry.Own(host, m.host(host), m.model.Next(), m.model.Now())
	m.put(h)
	return h.Incarnation, nil
}

// IssueJoin implements control.Store.
func (m *Memory) IssueJoin(_ context.Context, t registry.Token, lasts time.Duration) (registry.Token, error) {
	defer m.in()()
	t.CreatedAt, t.ExpiresAt = m.model.Now(), m.model.Now().Add(lasts)
	maps.DeleteFunc(m.tokens, func(_ registry.Digest, t registry.Token) bool { return m.over(t) })
	m.tokens[t.Digest] = t
	m.write(control.IssueDeed(&t, lasts))
	return t, nil
}

// over says whether a token was used or ended a day ago.
func (m *Memory) over(t registry.Token) bool {
	return m.model.Now().Since(cmp.Or(t.UsedAt, t.ExpiresAt)) >= pool.KeepEnded
}

// RevokeJoin implements control.Store.
func (m *Memory) RevokeJoin(_ context.Context, id, by string) (registry.Token, bool, error) {
	defer m.in()()
	for d, t := range m.tokens {
		if t.ID == id && t.UsedAt == 0 {
			delete(m.tokens, d)
			m.write(control.RevokeDeed(id, by))
			return t, true, nil
		}
	}
	return registry.Token{}, false, nil
}

// JoinTokens implements control.Store.
func (m *Memory) JoinTokens(context.Context) ([]registry.Token, error) {
	defer m.in()()
	var out []registry.Token
	for _, t := range m.tokens {
		if !m.over(t) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b registry.Token) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// Join implements control.Store.
func (m *Memory) Join(_ context.Context, j registry.Join) (registry.Entry, error) {
	defer m.in()()
	var known *registry.Token
	if t, ok := m.tokens[j.Token]; ok {
		known = &t
	}
	h := m.host(j.Host)
	entry := registry.JudgeJoin(&j, known, h, m.model.Now())
	if entry == registry.Entered {
		m.put(j.Enter(known, h, m.model.Next(), m.model.Now()))
		m.tokens[j.Token] = *known
		m.write(control.JoinDeed(&j, known))
	}
	return entry, nil
}

// RegisterHost implements control.Store.
func (m *Memory) RegisterHost(_ context.Context, r registry.Registration) (registry.Host, registry.Entry, error) {
	defer m.in()()
	h := m.host(r.Host)
	entry := registry.JudgeRegistration(&r, h)
	if entry != registry.Entered {
		return registry.Host{}, entry, nil
	}
	moved, incarnation := h.Endpoint != r.Endpoint, int64(0)
	if r.Begins(h) {
		incarnation = m.model.Next()
	}
	r.Enter(h, incarnation, m.model.Now())
	m.put(*h)
	if moved {
		m.write(control.EndpointDeed(&r))
	}
	return *h, entry, nil
}

// SetHostState implements control.Store.
func (m *Memory) SetHostState(_ context.Context, c registry.Change) (was registry.Host, v registry.Verdict, err error) {
	defer m.in()()
	h := m.host(c.Host)
	if h != nil {
		was = *h
	}
	held := int64(len(m.model.OnHosts()[c.Host]))
	if v = registry.Judge(&c, h, held, m.model.Now(), m.model.HeardSince()); v == registry.Changed {
		c.Apply(h, m.model.Now())
		m.put(*h)
		m.write(control.HostDeed(&c))
	}
	return was, v, nil
}

// HostsVersion implements control.Store.
func (m *Memory) HostsVersion(context.Context) (int64, error) {
	defer m.in()()
	return m.version, nil
}

// Describe implements control.Store.
func (m *Memory) Describe(_ context.Context, said []control.HostBounds) error {
	defer m.in()()
	m.version++
	for _, s := range said {
		if h := m.host(s.ID); h != nil {
			h.Bounds = s.Bounds
			m.hosts[s.ID] = *h
		}
	}
	return nil
}

// Hosts implements control.Store.
func (m *Memory) Hosts(context.Context) ([]control.RegisteredHost, error) {
	defer m.in()()
	var out []control.RegisteredHost
	for _, id := range slices.Sorted(maps.Keys(m.hosts)) {
		out = append(out, m.hosts[id])
	}
	return out, nil
}

// Host implements control.Store.
func (m *Memory) Host(_ context.Context, id string) (control.RegisteredHost, bool, error) {
	defer m.in()()
	h, ok := m.hosts[id]
	return h, ok, nil
}

func (m *Memory) write(d control.Deed) { m.done(d.By, d.What, d.Reason) }
