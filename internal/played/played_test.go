package played

import (
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/workload"
	"github.com/plimsoll-project/plimsoll/learn"
)

// A life is the run's own, or the run drawn out over it and in proportion to its size.
func TestLife(t *testing.T) {
	run := []gate.Bytes{10, 20, 30}
	for _, c := range []struct {
		life Life
		want []gate.Bytes
	}{
		{AsItWas(run), run},
		{Life{Resident: run, Seconds: 6, Size: 4, Of: 4}, []gate.Bytes{10, 10, 20, 20, 30, 30}},
		{Life{Resident: run, Seconds: 2, Size: 8, Of: 4}, []gate.Bytes{20, 40}},
		{Life{Resident: run, Seconds: 3, Size: 2, Of: 4}, []gate.Bytes{5, 10, 15}},
	} {
		var got []gate.Bytes
		for s := range c.life.Seconds {
			got = append(got, c.life.At(s))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.life, got, c.want)
		}
	}
}

// pass lets a second pass, and says who left and who started in it.
func pass(t *testing.T, h *Host) (left, started []string) {
	t.Helper()
	h.Now += time.Second
	if err := h.Leave(func(s *Sandbox) { left = append(left, s.ID) }); err != nil {
		t.Fatal(err)
	}
	if err := h.Track(func(s *Sandbox) { started = append(started, s.ID) }); err != nil {
		t.Fatal(err)
	}
	h.Touch()
	if _, err := h.Measure(); err != nil {
		t.Fatal(err)
	}
	if err := h.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
	return left, started
}

// A start takes until the next second, and of more than may start at a time the others wait; each
// holds what its life says from its start to its end, and leaves nothing behind.
func TestHost(t *testing.T) {
	cfg := host.DefaultConfig("h1", 1) // two starts at a time
	h := New(cfg, 8*gate.GiB, true)
	pass(t, h)
	empty := h.Admittable()
	ask := gate.Ask{Memory: gate.GiB, Rule: gate.DefaultReserveRule()}
	for _, id := range []string{"a", "b", "c"} {
		if denial, err := h.Admit(Sandbox{ID: id, Epoch: 1, Life: AsItWas([]gate.Bytes{gate.MiB, 2 * gate.MiB})}, ask); denial != "" || err != nil {
			t.Fatalf("%s: %s, %v", id, denial, err)
		}
	}
	var told [][]string
	var resident []gate.Bytes
	for range 5 {
		left, started := pass(t, h)
		told = append(told, started, left)
		resident = append(resident, h.Resident/gate.MiB)
	}
	want := [][]string{{"a", "b"}, nil, {"c"}, nil, nil, {"a", "b"}, nil, {"c"}, nil, nil}
	if !slices.EqualFunc(told, want, slices.Equal) || !slices.Equal(resident, []gate.Bytes{2, 5, 2, 0, 0}) {
		t.Errorf("%q, want %q; resident %v", told, want, resident)
	}
	if h.Admittable() != empty || len(h.Lives) != 0 {
		t.Errorf("admittable %s, and %s when it was empty; %d live", h.Admittable(), empty, len(h.Lives))
	}
}

// What is full denies, and one that is taken out gives its place back.
func TestDenialAndRemoval(t *testing.T) {
	cfg := host.DefaultConfig("h1", 8)
	cfg.Mode = gate.Committed
	h := New(cfg, 8*gate.GiB, false)
	pass(t, h)
	ask := gate.Ask{Memory: 4 * gate.GiB, Rule: gate.DefaultReserveRule()}
	life := AsItWas(slices.Repeat([]gate.Bytes{gate.GiB}, 9))
	for i, want := range []host.Denial{"", host.NoRoom} {
		if denial, err := h.Admit(Sandbox{ID: string(rune('a' + i)), Epoch: 1, Life: life}, ask); denial != want || err != nil {
			t.Errorf("%d: %q, %v; want %q", i, denial, err, want)
		}
	}
	pass(t, h)
	if err := h.Remove(0, host.Done{OutOfMemory: true}); err != nil || h.Resident != 0 || len(h.Lives) != 0 {
		t.Errorf("%v: %s resident, %d live", err, h.Resident, len(h.Lives))
	}
	pass(t, h)
}

// Enough runs teach a reserve; too few, the prior.
func TestLearned(t *testing.T) {
	runs := make([]workload.Run, learn.Enough)
	for i := range runs {
		runs[i] = workload.Run{Peak: 200 * gate.MiB, Resident: []gate.Bytes{200 * gate.MiB}}
	}
	ask := gate.Ask{Memory: 4 * gate.GiB}
	if ask.Rule = Learned(runs, ask.Memory); ask.ReserveOn(gate.WorkingSet) != 200*gate.MiB {
		t.Errorf("learned: %+v", ask.Rule)
	}
	if ask.Rule = Learned(runs[1:], ask.Memory); ask.ReserveOn(gate.WorkingSet) != Prior(ask.Memory) {
		t.Errorf("too few: %+v", ask.Rule)
	}
}
