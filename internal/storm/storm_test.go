package storm

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Three callers of ten seconds for one slot, at once: the last has it after twenty. A slot that
// is free again before the next caller comes was no backlog.
func TestWhenABacklogCouldBeEmpty(t *testing.T) {
	s := time.Second
	for want, all := range map[time.Duration][]arrival{
		20 * s: {{0, 10 * s}, {s, 10 * s}, {s, 10 * s}, {40 * s, s}},
		0:      {{0, 10 * s}, {10 * s, 10 * s}, {30 * s, s}},
		11 * s: {{0, 10 * s}, {9 * s, s}, {9 * s, s}},
	} {
		if got := couldBeEmpty(1, all); got != want {
			t.Errorf("%v: %v, want %v", all, got, want)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Simulate(ctx, DefaultOptions()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func playSmall(t *testing.T, change func(*Options)) map[string]Client {
	t.Helper()
	o := DefaultOptions()
	o.Cap, o.Plays, o.Jobs = 20, 1, 4
	change(&o)
	r, err := Simulate(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Client{}
	for _, c := range r.Clients {
		if c.Client == essayName && c.DeadlineS == essayPatience.Seconds() && o.Deadline != essayPatience {
			continue
		}
		all[c.Client] = c
	}
	return all
}

// Targets.md row 12, as plimsoll sim storm prints it, and with several replicas too.
func TestRow12(t *testing.T) {
	for replicas, slots := range map[int]int64{1: 200, 4: 100} {
		o := DefaultOptions()
		o.Plays, o.Jobs, o.Replicas, o.Cap = 1, 1, replicas, slots
		k := kinds(&o)
		ours := k[len(k)-1]
		h, err := play(t.Context(), &o, ours, 0)
		if err != nil {
			t.Fatal(err)
		}
		c := sum(ours, []*history{h})
		if c.Client != sdkName || int64(c.Waiters) < 7*slots || c.Attempts > 2.2 || c.GaveUp > 0.001 || c.Recovery > 30 || c.Within20 < 0.8 {
			t.Errorf("%d replicas: %+v", replicas, c)
		}
	}
}

// Every kind meets the same callers; who asks each second costs a call a second, and a place in
// the line loses no slot for a moment.
func TestWhatEachKindCosts(t *testing.T) {
	all := playSmall(t, func(*Options) {})
	for name, c := range all {
		if c.Callers != all[sdkName].Callers || c.Callers < 100 || c.Waiters > c.Callers || c.Attempts < 2 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := all[fixedName]; c.Attempts < c.WaitP50/2 || c.Hints != 0 {
		t.Errorf("%+v", c)
	}
	if c := all[sdkName]; c.Recovery != 0 || c.GaveUps != 0 || c.Hints == 0 {
		t.Errorf("%+v", c)
	}
}

// Who would have to wait longer than it will gives up when its patience ends, and not before.
func TestPatienceEnds(t *testing.T) {
	for name, c := range playSmall(t, func(o *Options) { o.Load, o.Deadline = 10, 10*time.Second }) {
		if c.GaveUps == 0 || c.WaitP99 > 10.001 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// A storm that fits into what is free is no storm: nobody waits.
func TestNoStorm(t *testing.T) {
	for name, c := range playSmall(t, func(o *Options) { o.Cap, o.Load = 300, 0.3 }) {
		if c.Callers == 0 || c.Waiters != 0 || c.Attempts != 0 || c.Recovery != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// A storm in which nobody comes at all is played, too.
func TestNobodyComes(t *testing.T) {
	for name, c := range playSmall(t, func(o *Options) { o.Cap, o.Life, o.Storm = 1, time.Hour, time.Second }) {
		if c.Callers != 0 || c.Most != 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
