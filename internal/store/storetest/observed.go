package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/hindsight"
	"github.com/plimsoll-project/plimsoll/table"
)

// Compare implements control.Store.
func (m *Memory) Compare(_ context.Context, o table.Options, told []hindsight.Told) ([]hindsight.Answer, error) {
	defer m.in()()
	out := m.docket.Take(m.model.Now(), o, told)
	m.docket.Trim()
	return out, nil
}

// Compared implements control.Store. It is a copy, by the way on which a store keeps it.
func (m *Memory) Compared(context.Context) (t hindsight.Tally, err error) {
	defer m.in()()
	text, err := json.Marshal(&m.docket.Tally)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	return t, err
}

// ForgetCompared implements control.Store.
func (m *Memory) ForgetCompared(_ context.Context, by string) error {
	defer m.in()()
	last := m.docket.Last
	m.docket = hindsight.Docket{Cases: map[hindsight.ID]*hindsight.Case{}, Tally: hindsight.Tally{Last: last}}
	m.done(by, control.ForgetComparedDeed, "")
	return nil
}

// said is what a replica had heard of a host.
func said(host string, mb int64) *hindsight.Word {
	return &hindsight.Word{Age: time.Second, Verdict: table.Verdict{
		Host: host, Incarnation: 1, Sequence: 7, Admittable: gate.FromMiB(mb), Free: gate.FromMiB(mb),
		Limit: 32 * gate.GiB, MaxAsk: 30 * gate.GiB,
	}}
}

func decidedFor(key, host string, yes bool, w *hindsight.Word) hindsight.Told {
	return hindsight.Told{
		ID:       hindsight.ID{Consumer: "c", Key: key, Host: host},
		Decision: &hindsight.Decision{Ask: gate.Ask{Memory: 4 * gate.GiB, Rule: gate.DefaultReserveRule()}, Yes: yes, Word: w},
	}
}

// observed tells some decisions and outcomes, and now and then begins anew.
func (p *pair) observed(t *rapid.T) {
	if rapid.IntRange(0, 19).Draw(t, "anew") == 0 {
		p.both("forget compared", func(ctx context.Context, s control.Store) (any, error) { return nil, s.ForgetCompared(ctx, "operator") })
	}
	var told []hindsight.Told
	for range rapid.IntRange(1, 4).Draw(t, "told") {
		one := decidedFor(rapid.SampledFrom([]string{"k1", "k2", "k3", "k4", "k5", "k6"}).Draw(t, "key"), rapid.SampledFrom(hosts).Draw(t, "host"),
			rapid.IntRange(0, 3).Draw(t, "yes") > 0, said("", rapid.Int64Range(0, 3).Draw(t, "room")<<10))
		one.Decision.Word.Verdict.Host = one.ID.Host
		one.Decision.Age = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "age")
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			one.Decision.Word = nil
		case 1, 2:
			one.Decision = nil
			one.Outcome = hindsight.Outcome(rapid.IntRange(1, 3).Draw(t, "outcome"))
		}
		told = append(told, one)
	}
	p.both("compare", func(ctx context.Context, s control.Store) (any, error) {
		answers, err := s.Compare(ctx, table.Options{}, told)
		return fmt.Sprint(answers), err
	})
}

// testObserved tells several replicas at once: nothing is counted twice or lost, their yeses are
// set aside whoever was told of them, and an outcome finds its decision at any replica, also
// after a restart. What is kept is bounded, and the counts stay.
func testObserved(t *testing.T, o Opened) {
	all := o.stores(t)
	tell := func(s control.Store, told ...hindsight.Told) []hindsight.Answer {
		answers, err := s.Compare(t.Context(), table.Options{}, told)
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	crowd(20, func(i int) {
		one := decidedFor(fmt.Sprint("k", i/2), "h1", true, said("h1", 4096)) // each is told twice
		if _, err := all[i%len(all)].Compare(t.Context(), table.Options{}, []hindsight.Told{one}); err != nil {
			t.Error(err)
		}
	})
	tally, err := all[0].Compared(t.Context())
	if err != nil || tally.Decisions() != 10 || tally.Cells[1][1].Total() != 4 || tally.Cells[1][0].Total() != 6 {
		t.Fatalf("ten, of which four fit by one word: %+v %v", tally, err)
	}
	for _, one := range all {
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := o.Open(t)
	for i := range 10 {
		if a := tell(s, hindsight.Told{ID: decidedFor(fmt.Sprint("k", i), "h1", true, nil).ID, Outcome: hindsight.Fitted}); a[0].Err != nil {
			t.Error(a)
		}
	}
	tally, err = s.Compared(t.Context())
	if err != nil || tally.Count(hindsight.WrongNo) != 6 || len(tally.Wrong[hindsight.WrongNo]) != 6 || tally.Wrong[hindsight.WrongNo][0].WhyNot != "no_room" {
		t.Errorf("after a restart: %+v %v", tally, err)
	}
	fill(t, s, tell)
	if err := s.ForgetCompared(t.Context(), "operator"); err != nil {
		t.Error(err)
	}
	if tally, err = s.Compared(t.Context()); err != nil || tally.Decisions() != 0 || tally.Since != 0 {
		t.Errorf("begun anew: %+v %v", tally, err)
	}
	if a := tell(s, hindsight.Told{ID: decidedFor("n1", "h1", true, nil).ID, Outcome: hindsight.Fitted}); a[0].Err != hindsight.ErrNever {
		t.Errorf("a decision outlived the new beginning: %+v", a)
	}
	if deeds, err := s.Audit(t.Context(), 1); err != nil || len(deeds) != 1 || deeds[0].What != control.ForgetComparedDeed {
		t.Errorf("%+v %v", deeds, err)
	}
}

// fill tells of more decisions than are kept.
func fill(t *testing.T, s control.Store, tell func(control.Store, ...hindsight.Told) []hindsight.Answer) {
	t.Helper()
	const each = 256
	for i := range hindsight.Decisions / each {
		var told []hindsight.Told
		for j := range each {
			told = append(told, decidedFor(fmt.Sprint("n", i*each+j), "h2", false, said("h2", 4096)))
		}
		tell(s, told...)
	}
	tally, err := s.Compared(t.Context())
	if err != nil || tally.Decisions() != hindsight.Decisions+10 || len(tally.Wrong[hindsight.WrongNo]) != 6 {
		t.Errorf("the counts: %+v %v", tally, err)
	}
	gone := tell(s, hindsight.Told{ID: decidedFor("k9", "h1", true, nil).ID, Outcome: hindsight.OOM})
	kept := tell(s, hindsight.Told{ID: decidedFor("n0", "h2", true, nil).ID, Outcome: hindsight.OOM})
	if diff := cmp.Diff([]string{hindsight.ErrNever.Error(), hindsight.ErrNoYes.Error()}, []string{fmt.Sprint(gone[0].Err), fmt.Sprint(kept[0].Err)}); diff != "" {
		t.Error(diff)
	}
}
