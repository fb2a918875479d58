package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
func (m *Memory) Decide(_ context.Context, decisions []*control.Decision, most int64) (early int64, err error) {
	defer m.in()()
	for _, d := range decisions {
		if err := m.minute(d); err != nil {
			return 0, err
		}
	}
	if over := int64(len(m.minutes)) - most; over > 0 {
		m.minutes, early = m.minutes[over:], over
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
		if one := &m.minutes[i]; (consumer == "" || one.consumer == consumer) && one.key == key {
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

// Decided is a decision of a key, and what it rests on.
func Decided(id, consumer, key string, seen *control.Evidence) *control.Decision {
	return &control.Decision{
		Told: api.Decision{
			ID: id, At: time.Unix(1_800_000_000, 0).UTC(), Replica: "r1", Consumer: consumer, Key: key,
			Outcome: api.DecisionOutcomeRefused, Code: api.NoCapacity, Detail: "needs \"'\\ é",
		},
		Facts: &explain.Facts{Code: api.NoCapacity, Ask: gate.Ask{Class: "small", Memory: gate.GiB}}, Evidence: seen,
	}
}

// Sees is what there was to see of a host.
func Sees(host string) *control.Evidence {
	return &control.Evidence{
		Excluded: []explain.Exclusion{{Reason: "no_room", Count: 1, Hosts: []string{host}}},
		Near:     []table.Room{{Host: host, Why: table.NoRoom, Admittable: 812 * gate.MiB, Need: gate.GiB}},
	}
}

// decide keeps some decisions, a few of them twice.
func (p *pair) decide(t *rapid.T) {
	var all []*control.Decision
	shared := Sees(rapid.SampledFrom(hosts).Draw(t, "host"))
	for range rapid.IntRange(1, 4).Draw(t, "decisions") {
		p.ids++
		id := p.ids - rapid.SampledFrom([]int{0, 0, 0, 0, 3}).Draw(t, "told before")
		d := Decided(fmt.Sprintf("dec-%d", id), rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "consumer"), rapid.SampledFrom([]string{"k1", "k2", ""}).Draw(t, "key"), shared)
		if rapid.Bool().Draw(t, "nothing seen") {
			d.Evidence = nil
		}
		all = append(all, d)
	}
	p.both("decide", func(ctx context.Context, s control.Store) (any, error) { return s.Decide(ctx, all, 1000) })
}

// decisions are all that may be kept, as they are read.
func (p *pair) decisions(ctx context.Context, s control.Store) (any, error) {
	var out []*control.Decision
	for _, consumer := range []string{"c1", "c2", ""} {
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

// testDecisions keeps decisions of several replicas at once: each once, what they rest on once, the
// oldest forgotten first, all of them after a day, and the yes of a key that is admitted anew.
func testDecisions(t *testing.T, o Opened) {
	all := o.stores(t)
	s := all[0]
	Configure(t, s, OnePool(pool.Unlimited, 9))
	crowd(8, func(i int) {
		for j := range 5 {
			some := []*control.Decision{Decided(fmt.Sprint("a", i/2, "-", j), "c", "k", Sees("h1")), Decided(fmt.Sprint("b", i/2, "-", j), "c", "k", Sees("h2"))}
			if _, err := all[i%len(all)].Decide(t.Context(), some, 1000); err != nil {
				t.Error(err)
			}
		}
	})
	told := func(key string) []*control.Decision {
		got, err := s.Decisions(t.Context(), "c", key, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := told("k"); len(got) != 40 || got[0].Evidence == nil || len(got[0].Evidence.Near) != 1 {
		t.Fatalf("told twice, kept once each: %d", len(got))
	}
	early, err := s.Decide(t.Context(), []*control.Decision{Decided("last", "c", "k", nil)}, 10)
	if got := told("k"); err != nil || early < 31 || len(got) > 10 || got[0].Told.ID != "last" || got[0].Evidence != nil {
		t.Errorf("%d forgotten of 41, %d left of at most 10: %v", early, len(got), err)
	}
	testYesKept(t, o, s)
	o.Clock.Advance(pool.KeepEnded)
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := told("k"); len(got) != 0 {
		t.Errorf("a day later: %d", len(got))
	}
}

// testYesKept admits a key twice: the first yes outlives its row.
func testYesKept(t *testing.T, o Opened, s control.Store) {
	t.Helper()
	var yes []*control.Decision
	for range 2 {
		c, err := s.Claim(t.Context(), newClaim(1))
		if err != nil {
			t.Fatal(err)
		}
		row, ok, err := s.Settle(t.Context(), c.Row.ID, c.Row.Gen, "h1", time.Minute)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		o.Clock.Advance(time.Second)
		if _, _, err := s.End(t.Context(), row.ID, row.Epoch, pool.Released, "done"); err != nil {
			t.Fatal(err)
		}
		over, _, err := s.ByID(t.Context(), row.ID)
		if err != nil {
			t.Fatal(err)
		}
		yes = append(yes, control.YesOf(&over))
	}
	first, ok, err := s.Decision(t.Context(), yes[0].Told.ID)
	if diff := cmp.Diff(yes[0], first); !ok || err != nil || diff != "" {
		t.Errorf("the first yes: %v %v %s", ok, err, diff)
	}
	if _, ok, err := s.Decision(t.Context(), yes[1].Told.ID); ok || err != nil {
		t.Errorf("the second yes is told by its row, and was kept beside it: %v %v", ok, err)
	}
}
