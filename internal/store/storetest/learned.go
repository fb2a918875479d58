package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/learned"
)

// Learn implements control.Store.
func (m *Memory) Learn(_ context.Context, rules learned.Rules, told []learned.Word) error {
	defer m.in()()
	lives := map[string]int64{}
	for i := range told {
		if h, ok := m.hosts[told[i].Host]; ok {
			lives[h.ID] = h.Incarnation
		}
	}
	m.lore.Take(m.model.Now(), lives, rules, told)
	m.lore.Settle()
	return nil
}

// Learned implements control.Store.
func (m *Memory) Learned(context.Context) ([]learned.Known, error) {
	defer m.in()()
	return m.lore.List(), nil
}

// lessons are the rules that are in force in tests.
var lessons = learned.Rules{"small": gate.DefaultReserveRule(), "large": {Permille: 500}}

// word is what a host saw: so many runs that peaked at so much.
func word(at string, incarnation, sequence int64, class, template string, runs int, peak gate.Bytes) learned.Word {
	w := learned.Word{Host: at, Incarnation: incarnation, Seen: host.Seen{
		Class: class, Template: template, Sequence: sequence, Size: 4 * gate.GiB,
		Held: int64(runs) * peak.CeilMiB(), Committed: int64(runs) * 4 << 10,
	}}
	for range runs {
		w.Runs.Ended(peak, 0)
		w.Runs.Sampled(peak/2, 10)
	}
	return w
}

// learn tells some words, of present lives and of former ones, late and again.
func (p *pair) learn(t *rapid.T) {
	var told []learned.Word
	for range rapid.IntRange(0, 4).Draw(t, "told") {
		at, life := rapid.SampledFrom(hosts).Draw(t, "host"), int64(0)
		if h, ok := p.model.hosts[at]; ok {
			life = near(t, h.Incarnation)
		}
		w := word(at, life, rapid.Int64Range(1, 9).Draw(t, "sequence"), rapid.SampledFrom([]string{"small", "large", "gone"}).Draw(t, "class"),
			rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "template"), rapid.IntRange(0, 40).Draw(t, "runs"),
			gate.FromMiB(rapid.Int64Range(1, 5000).Draw(t, "peak")))
		for range rapid.IntRange(0, 40).Draw(t, "judged") {
			w.Runs.Ended(gate.GiB, rapid.SampledFrom([]gate.Bytes{gate.MiB, 2 * gate.GiB}).Draw(t, "reserve"))
		}
		told = append(told, w)
	}
	p.both("learn", func(ctx context.Context, s control.Store) (any, error) { return nil, s.Learn(ctx, lessons, told) })
}

// testLearned tells several replicas at once, again and late: each run counts once, also over a
// host's next life and a restart of the store; templates are bounded, and sink and are forgotten.
func testLearned(t *testing.T, o Opened) {
	all := o.stores(t)
	first, err := all[0].Register(t.Context(), "h1")
	if err != nil {
		t.Fatal(err)
	}
	other, err := all[0].Register(t.Context(), "h2")
	if err != nil {
		t.Fatal(err)
	}
	tell := func(s control.Store, told ...learned.Word) {
		if err := s.Learn(t.Context(), lessons, told); err != nil {
			t.Error(err)
		}
	}
	crowd(12, func(i int) { // two hosts; each word is told to many, and the last is the longest
		n := i%3 + 1
		s := all[i%len(all)]
		tell(s, word("h1", first, int64(n), "small", "base", 5*n, 200*gate.MiB), word("h2", other, int64(n), "small", "base", 6*n, 200*gate.MiB))
	})
	known := learnedOf(t, all[0])
	if k := known["small/base"]; k.Runs != 15+18 || !k.Estimate.Learned || k.Estimate.Reserve != 200*gate.MiB || k.Prior != gate.GiB {
		t.Fatalf("after 33 runs: %+v", k)
	}
	second, err := all[0].Register(t.Context(), "h1")
	if err != nil {
		t.Fatal(err)
	}
	tell(all[0], word("h1", first, 9, "small", "base", 99, gate.GiB)) // of a life that is over
	tell(all[0], word("h1", second, 1, "small", "base", 2, 200*gate.MiB))
	tell(all[len(all)-1], word("h1", second, 1, "small", "base", 2, 200*gate.MiB))
	for _, one := range all {
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := o.Open(t)
	tell(s, word("h1", second, 2, "small", "base", 3, 200*gate.MiB), word("h9", 1, 1, "small", "base", 3, gate.GiB), word("h2", other, 1, "nowhere", "base", 3, gate.GiB))
	o.Clock.Advance(learned.StepEvery)
	tell(s)
	if k := learnedOf(t, s)["small/base"]; k.Runs != 15+18+3 {
		t.Errorf("in its next life: %+v", k)
	}
	for i := range 2 * learned.MostOfClass {
		tell(s, word("h2", other, int64(10+i), "small", fmt.Sprintf("made-up-%03d", i), 1, gate.GiB))
	}
	tell(s, word("h2", other, 500, "large", "base", 1, gate.GiB))
	known = learnedOf(t, s)
	if _, kept := known["small/base"]; len(known) != learned.MostOfClass+1 || !kept {
		t.Errorf("%d templates are kept, and the one that ran most among them: %v", len(known), kept)
	}
	o.Clock.Advance(learned.Forgotten - time.Hour)
	tell(s, word("h2", other, 501, "small", "base", 18, 200*gate.MiB))
	o.Clock.Advance(2 * time.Hour)
	tell(s)
	var names []string
	for name := range learnedOf(t, s) {
		names = append(names, name)
	}
	if diff := cmp.Diff([]string{"small/base"}, names); diff != "" {
		t.Error("after thirty days:", diff)
	}
}

func learnedOf(t *testing.T, s control.Store) map[string]learned.Known {
	t.Helper()
	list, err := s.Learned(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]learned.Known{}
	for _, k := range list {
		out[k.Class+"/"+k.Template] = k
	}
	return out
}
