package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/explain"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// minuted is a decision as it is kept.
type minuted struct {
	document, evidence []byte
	id, consumer, key  string
	at                 pool.Time
}

// minute keeps a decision unless its id is there already.
func (m *Memory) minute(d *control.Decision) error {
	for i := range m.minutes {
		if m.minutes[i].id == d.Told.ID {
			return nil
		}
	}
	one := minuted{id: d.Told.ID, consumer: d.Told.Consumer, key: d.Told.Key, at: m.model.Now()}
	var err error
	if one.document, err = json.Marshal(d); err != nil {
		return err
	}
	if d.Evidence != nil {
		if one.evidence, err = json.Marshal(d.Evidence); err != nil {
			return err
		}
	}
	m.minutes = append(m.minutes, one)
	return nil
}

// Decide implements control.Store.
func (m *Memory) Decide(_ context.Context, decisions []*control.Decision) (early int64, err error) {
	defer m.in()()
	for _, d := range decisions {
		if err := m.minute(d); err != nil {
			return 0, err
		}
	}
	if over := len(m.minutes) - control.MostDecisions; over > 0 {
		m.minutes, early = m.minutes[over:], int64(over)
	}
	return early, nil
}

// Decision implements control.Store.
func (m *Memory) Decision(_ context.Context, id string) (*control.Decision, bool, error) {
	defer m.in()()
	for i := range m.minutes {
		if one := &m.minutes[i]; one.id == id {
			d, err := control.ReadDecision(one.document, one.evidence)
			return d, err == nil, err
		}
	}
	return nil, false, nil
}

// Decisions implements control.Store.
func (m *Memory) Decisions(_ context.Context, consumer, key string, limit int) (out []*control.Decision, err error) {
	defer m.in()()
	for i := len(m.minutes) - 1; i >= 0 && len(out) < limit; i-- {
		if one := &m.minutes[i]; one.consumer == consumer && one.key == key {
			d, err := control.ReadDecision(one.document, one.evidence)
			if err != nil {
				return nil, err
			}
			out = append(out, d)
		}
	}
	return out, nil
}

// forgetDecisions drops those whose day is over.
func (m *Memory) forgetDecisions() {
	left := m.minutes[:0:0]
	for _, one := range m.minutes {
		if m.model.Now().Since(one.at) < pool.KeepEnded {
			left = append(left, one)
		}
	}
	m.minutes = left
}

// keepYes keeps the yes of a row that a transition makes another's.
func (m *Memory) keepYes(before pool.Row, after *pool.Row) error {
	if before.ID != after.ID || !control.Supersedes(after, &before) {
		return nil
	}
	return m.minute(control.YesOf(&before))
}

// decided is a decision of a key, and what it rests on.
func decided(id, consumer, key string, seen *control.Evidence) *control.Decision {
	return &control.Decision{
		Told: api.Decision{
			ID: id, At: time.Unix(1_800_000_000, 0).UTC(), Replica: "r1", Consumer: consumer, Key: key,
			Outcome: api.DecisionOutcomeRefused, Code: api.NoCapacity, Detail: "needs \"'\\ é",
		},
		Facts: &explain.Facts{Code: api.NoCapacity, Ask: gate.Ask{Class: "small", Memory: gate.GiB}}, Evidence: seen,
	}
}

// sees is what there was to see of a host.
func sees(host string) *control.Evidence {
	return &control.Evidence{
		Excluded: []explain.Exclusion{{Reason: "no_room", Count: 1, Hosts: []string{host}}},
		Near:     []table.Room{{Host: host, Why: table.NoRoom, Admittable: 812 * gate.MiB, Need: gate.GiB}},
	}
}

// decide keeps some decisions, a few of them twice.
func (p *pair) decide(t *rapid.T) {
	var all []*control.Decision
	shared := sees(rapid.SampledFrom(hosts).Draw(t, "host"))
	for range rapid.IntRange(1, 4).Draw(t, "decisions") {
		p.ids++
		id := p.ids - rapid.SampledFrom([]int{0, 0, 0, 0, 3}).Draw(t, "told before")
		d := decided(fmt.Sprintf("dec-%d", id), rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "consumer"), rapid.SampledFrom([]string{"k1", "k2", ""}).Draw(t, "key"), shared)
		if rapid.Bool().Draw(t, "nothing seen") {
			d.Evidence = nil
		}
		all = append(all, d)
	}
	p.both("decide", func(ctx context.Context, s control.Store) (any, error) { return s.Decide(ctx, all) })
}

// decisions are all that may be kept, as they are read.
func (p *pair) decisions(ctx context.Context, s control.Store) (any, error) {
	var out []*control.Decision
	for _, consumer := range []string{"c1", "c2"} {
		for _, key := range []string{"k1", "k2", "k3", "k4", "k5", ""} {
			some, err := s.Decisions(ctx, consumer, key, 3)
			if err != nil {
				return nil, err
			}
			out = append(out, some...)
		}
	}
	for _, d := range out {
		one, ok, err := s.Decision(ctx, d.Told.ID)
		if err != nil || !ok || !reflect.DeepEqual(one, d) {
			return nil, fmt.Errorf("%s by its id: %+v %v %w", d.Told.ID, one, ok, err)
		}
	}
	return out, nil
}
