// Package digest sums a set of placements up, so that a host and the store can tell whether
// they hold the same without naming it all. What is summed are epochs: the store's sequence
// gives each placement one of its own, so that the epoch stands for the id as well.
//
// A Sum is the count, Σ x and Σ x² mod Prime, with x = epoch mod Prime. The order of the set
// does not matter, what left is subtracted, and integers of 64 bits are enough, in SQL too:
// no product passes 2^62, and no sum of two thousand million epochs passes 2^63.
//
// Two sets with the same Sum differ, if they do, by as many placements on either side, at
// least three: over a field, the first two power sums tell any two sets apart that differ by
// two or fewer (epochs less than Prime apart, which is two thousand million placements). Three
// and more on either side go unseen by chance once in some 2^31 times.
package digest

// Prime is 2^31 - 1, the largest whose squares of remainders every database can count in.
const Prime = 1<<31 - 1

// Sum is that of a set of epochs. The zero value is that of none.
type Sum struct {
	N      int64
	First  int64 // Σ x
	Second int64 // Σ (x² mod Prime)
}

// Add puts an epoch into the set, or with sign -1 takes it out.
func (s *Sum) Add(epoch, sign int64) {
	x := epoch % Prime
	s.N += sign
	s.First += sign * x
	s.Second += sign * (x * x % Prime)
}

// Plus is the sum of both sets.
func (s Sum) Plus(o Sum) Sum {
	return Sum{N: s.N + o.N, First: s.First + o.First, Second: s.Second + o.Second}
}
