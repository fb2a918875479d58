package sim

import (
	"os"
	"runtime"
	"strconv"
	"testing"
)

// firstSeed is 1, or what a longer run asks for, so that it sees other histories each time.
func firstSeed(t *testing.T) uint64 {
	text := os.Getenv("PLIMSOLL_SEED")
	if text == "" {
		return 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("PLIMSOLL_SEED: %v", err)
	}
	return n
}

// Every fault, and every size of fleet that a seed can choose.
func TestInvariantsHoldUnderFaults(t *testing.T) {
	s := Campaign{First: firstSeed(t), Seeds: 200, Jobs: runtime.NumCPU()}.Run(t.Context())
	for _, f := range s.Failed {
		t.Errorf("seed %d: %s\n  %s", f.Seed, f.What, f.Replay)
	}
	if s.Seeds != 200 || s.Admitted < 10*s.Seeds || s.Refused < 10*s.Seeds || s.Boots < 10*s.Seeds || s.Faults < 2*s.Seeds {
		t.Errorf("%+v: too little happened to prove anything", s)
	}
	t.Logf("%d seeds, %d events, %d faults, %d admitted, %d refused, %d boots, %d evictions", s.Seeds, s.Events, s.Faults, s.Admitted, s.Refused, s.Boots, s.Evictions)
}

// Two replicas and three agents, the smallest fleet in which all of it matters.
func TestTwoReplicasThreeAgents(t *testing.T) {
	s := Campaign{First: firstSeed(t), Seeds: 20, Size: Size{Replicas: 2, Hosts: 3}, Jobs: 1}.Run(t.Context())
	for _, f := range s.Failed {
		t.Errorf("seed %d: %s\n  %s", f.Seed, f.What, f.Replay)
	}
}

// A hundred hosts and four replicas.
func TestHundredHosts(t *testing.T) {
	p := NewPlan(firstSeed(t), Size{Hosts: 100, Replicas: 4, Callers: 1000})
	if r := Play(p, nil); len(r.Violations) > 0 || r.Boots < 500 {
		t.Errorf("%d boots, %v\n  %s", r.Boots, r.Violations, p.Command())
	}
}

// One seed is one history, so that a failure can be replayed; whether anybody reads along
// changes nothing.
func TestOneSeedOneDigest(t *testing.T) {
	for seed := uint64(1); seed <= 10; seed++ {
		p := NewPlan(seed, Size{})
		first, second := Play(p, nil), Play(p, discard{})
		if first.Digest != second.Digest || first.Events != second.Events {
			t.Errorf("seed %d: digest %x after %d events, then %x after %d", seed, first.Digest, first.Events, second.Digest, second.Events)
		}
		if other := Play(NewPlan(seed+1, Size{}), nil); other.Digest == first.Digest {
			t.Errorf("seeds %d and %d have the same digest", seed, seed+1)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// The digest is the same on every machine: change it only with what it stands for.
func TestDigestIsPinned(t *testing.T) {
	const want = "8e96601eeb0079f3"
	if s := (Campaign{First: 1, Seeds: 3, Jobs: 1}).Run(t.Context()); s.Digest != want {
		t.Errorf("digest of seeds 1 to 3 is %s, and was %s: if a rule was changed on purpose, pin the new one", s.Digest, want)
	}
}
