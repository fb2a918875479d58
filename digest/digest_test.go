package digest_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/plimsoll-project/plimsoll/digest"
)

func of(epochs ...int64) (s digest.Sum) {
	for _, e := range epochs {
		s.Add(e, +1)
	}
	return s
}

// A sum follows the set through any order of comings and goings.
func TestSumFollowsItsSet(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var s digest.Sum
	var set []int64
	for range 10_000 {
		if len(set) > 0 && rnd.IntN(2) == 0 {
			i := rnd.IntN(len(set))
			s.Add(set[i], -1)
			set = slices.Delete(set, i, i+1)
			continue
		}
		e := rnd.Int64N(1 << 40)
		s.Add(e, +1)
		set = append(set, e)
	}
	slices.Reverse(set)
	half := len(set) / 2
	if want := of(set[:half]...).Plus(of(set[half:]...)); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}

// Sets that differ by up to two placements on either side never have the same sum: all pairs
// out of a range, at its start and past the prime.
func TestDifferencesOfTwoAreSeen(t *testing.T) {
	for _, base := range []int64{1, digest.Prime - 20, 1 << 40} {
		seen := map[digest.Sum][2]int64{}
		for a := base; a < base+60; a++ {
			for b := a + 1; b < base+60; b++ {
				s := of(a, b)
				if other, twice := seen[s]; twice {
					t.Fatalf("%d and %d have the sum of %v", a, b, other)
				}
				seen[s] = [2]int64{a, b}
			}
		}
	}
}

// The first difference that can go unseen is of three, and is no more than that: it is found
// by the full comparison.
func TestTheSmallestCollision(t *testing.T) {
	if of(1, 5, 6) != of(2, 3, 7) {
		t.Error("1+5+6 and 2+3+7 have the same squares as well; the package's comment is wrong")
	}
}
