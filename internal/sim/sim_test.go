package sim

import "testing"

// Two replicas and three agents in virtual time, under lost, late and doubled frames,
// killed agents and a store that fails with and without persisting: after every event the
// invariants hold, and an idle fleet holds nothing.
func TestFleetUnderFaults(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		r := Run(seed, 2, 3)
		if len(r.Violations) > 0 {
			t.Errorf("seed %d, %d events: %v", seed, r.Events, r.Violations)
		}
		if r.Admitted < 50 || r.Refused == 0 {
			t.Errorf("seed %d: %d admitted, %d refused: nothing was contended", seed, r.Admitted, r.Refused)
		}
	}
}

// One seed is one history, so that a failure can be replayed.
func TestOneSeedOneDigest(t *testing.T) {
	first, second := Run(7, 2, 3), Run(7, 2, 3)
	if first.Digest != second.Digest || first.Events != second.Events {
		t.Errorf("seed 7 ran twice: digest %x after %d events, then %x after %d", first.Digest, first.Events, second.Digest, second.Events)
	}
	if other := Run(8, 2, 3); other.Digest == first.Digest {
		t.Errorf("seeds 7 and 8 have the same digest %x", other.Digest)
	}
}
