package learn

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
)

// counts is a histogram of amounts: bucket -> how many. Buckets are exact in MiB up to 256
// MiB and 1/128 of an octave beyond, and an amount counts as the upper end of its bucket, so
// what is read off is never too small, nor by more than 0.8 % too large.
type counts map[int]int64

const (
	exactMiB  = 256 // one bucket a MiB up to here
	exactBits = 8
	perOctave = 128
	subBits   = 7
	mostMiB   = int64(gate.PiB / gate.MiB)
	mostBits  = 30

	lastBucket = exactMiB + (mostBits-exactBits)*perOctave

	mostCount = 1 << 50 // no sum of a few of them wraps
)

// bucketOf is the bucket of an amount.
func bucketOf(b gate.Bytes) int {
	mib := min(b.Positive().CeilMiB(), mostMiB)
	if mib <= exactMiB {
		return int(mib)
	}
	octave := bits.Len64(uint64(mib-1)) - 1 // 2^octave < mib ≤ 2^(octave+1)
	width := int64(1) << (octave - subBits)
	sub := (mib - int64(1)<<octave + width - 1) / width
	return exactMiB + (octave-exactBits)*perOctave + int(sub)
}

// upperOf is the largest amount of a bucket.
func upperOf(bucket int) gate.Bytes {
	if bucket <= exactMiB {
		return gate.FromMiB(int64(bucket))
	}
	i := bucket - exactMiB - 1
	octave, sub := exactBits+i/perOctave, int64(i%perOctave+1)
	return gate.FromMiB(int64(1)<<octave + sub<<(octave-subBits))
}

func (c *counts) add(bucket int, n int64) {
	if n <= 0 {
		return
	}
	if *c == nil {
		*c = counts{}
	}
	(*c)[bucket] = min((*c)[bucket]+min(n, mostCount), mostCount)
}

func (c *counts) merge(o counts) {
	if len(*c) == 0 {
		*c = maps.Clone(o) // a host copies all that it saw at each end of a run
		return
	}
	for bucket, n := range o {
		c.add(bucket, n)
	}
}

// replace takes out was, and adds is.
func (c *counts) replace(was, is counts) {
	for bucket, n := range is {
		c.move(bucket, n-was[bucket])
	}
	for bucket, n := range was {
		if _, still := is[bucket]; !still {
			c.move(bucket, -n)
		}
	}
}

// move adds to a bucket, or takes out of it.
func (c *counts) move(bucket int, by int64) {
	c.add(bucket, by)
	if by >= 0 {
		return
	}
	if left := (*c)[bucket] + by; left > 0 {
		(*c)[bucket] = left
	} else {
		delete(*c, bucket)
	}
}

// since is c without what o has of it already.
func (c counts) since(o counts) counts {
	var rest counts
	for bucket, n := range c {
		rest.add(bucket, n-o[bucket])
	}
	return rest
}

func (c counts) total() (n int64) {
	for _, of := range c {
		n = min(n+of, mostCount)
	}
	return n
}

// above is how many are larger than an amount.
func (c counts) above(b gate.Bytes) (n int64) {
	for bucket, of := range c {
		if upperOf(bucket) > b {
			n = min(n+of, mostCount)
		}
	}
	return n
}

// ranked is the rank-th smallest amount, from 1; of fewer, the largest; of none, zero.
func (c counts) ranked(rank int64) (b gate.Bytes) {
	for _, bucket := range slices.Sorted(maps.Keys(c)) {
		b = upperOf(bucket)
		if rank -= c[bucket]; rank <= 0 {
			break
		}
	}
	return b
}

// fault says what cannot be counts, or "".
func (c counts) fault() string {
	for bucket, n := range c {
		if bucket < 0 || bucket > lastBucket {
			return fmt.Sprintf("bucket %d: there are %d", bucket, lastBucket)
		}
		if n <= 0 || n > mostCount {
			return fmt.Sprintf("bucket %d: %d is no count", bucket, n)
		}
	}
	return ""
}
