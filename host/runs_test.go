package host_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// runOf has one sandbox of a template run, hold so much once, and end.
func (r *rig) runOf(id, class, template string, resident gate.Bytes) {
	r.t.Helper()
	a := ask(512)
	a.Class, a.Template = class, template
	r.reserve(id, 1, a)
	r.redeem(id, 1)
	r.track(id, 1)
	r.now += time.Second
	r.step(machine(64<<10, 0, host.Resident{ID: id, Bytes: resident}))
	r.done(id, 1)
	r.step(host.Acked{ID: id, Epoch: 1})
}

// A request may name any template, and what is noted stays bounded: a new one takes the place of
// the one with the fewest runs, so that those that run often stay, whatever is made up.
func TestTemplatesAreBounded(t *testing.T) {
	r := newRig(t, config())
	r.step(machine(64<<10, 0))
	for i := range 3 {
		r.runOf(fmt.Sprint("often", i), "c", "often", gate.GiB)
	}
	for i := range 100 {
		r.runOf(fmt.Sprint("made-up", i), "c", fmt.Sprint("made-up-", i), gate.GiB)
	}
	names := r.tells(0)
	if len(names) != 32 || !slices.Contains(names, "c/often") || !slices.Contains(names, "c/made-up-99") {
		t.Errorf("of 101 templates of one class %d are noted: %v", len(names), names)
	}
	for i := range 300 {
		r.runOf(fmt.Sprint("class", i), fmt.Sprint("class-", i), "base", gate.GiB)
	}
	if names = r.tells(0); len(names) != 256 || !slices.Contains(names, "c/often") {
		t.Errorf("%d templates are noted in all", len(names))
	}
}

// tells asks, bounded, until nothing is left.
func (r *rig) tells(after int64) (names []string) {
	for more := true; more; {
		l := r.h.Lore(after)
		more = l.More
		for _, s := range l.Seen {
			names = append(names, s.Class+"/"+s.Template)
			after = max(after, s.Sequence)
		}
		if len(l.Seen) > 64 {
			r.t.Fatalf("%d at once", len(l.Seen))
		}
	}
	return names
}

// What stood under a learned reserve is judged by it, and nothing else is: neither the
// prior nor what is charged in full was predicted to be passed by so many.
func TestOnlyLearnedReservesAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		mode   gate.Mode
		change func(*gate.Ask)
		judged bool
	}{
		"learned":   {gate.WorkingSet, func(a *gate.Ask) { a.Rule.Learned = gate.MiB }, true},
		"prior":     {gate.WorkingSet, func(*gate.Ask) {}, false},
		"committed": {gate.Committed, func(a *gate.Ask) { a.Rule.Learned = gate.MiB }, false},
		"stateful":  {gate.WorkingSet, func(a *gate.Ask) { a.Rule.Learned, a.Stateful = gate.MiB, true }, false},
	} {
		cfg := config()
		cfg.Mode = c.mode
		r := newRig(t, cfg)
		r.step(machine(64<<10, 0))
		a := ask(512)
		c.change(&a)
		r.reserve("a", 1, a)
		r.redeem("a", 1)
		r.track("a", 1)
		r.now += time.Second
		r.step(machine(64<<10, 0, host.Resident{ID: "a", Bytes: gate.GiB}))
		r.done("a", 1)
		l := r.h.Lore(0)
		text, err := l.Seen[0].Runs.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if judged := strings.Contains(string(text), `"judged"`); judged != c.judged {
			t.Errorf("%s: %s", name, text)
		}
	}
}
