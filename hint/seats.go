package hint

import (
	"math/bits"
	"time"
)

// seats are the milliseconds for which callers were told to come, so that no two are told the same
// one, whoever asked first and however long the other was told to wait. A ring of bits: 80 KiB for the
// next eleven minutes. Not safe for concurrent use.
type seats struct {
	from  int64    // ms: the earliest that it speaks of
	taken []uint64 // ms / 64 modulo its length -> a bit each; nil before the first was told
}

const (
	seatWords = 10 * 1024
	seatSpan  = seatWords * 64 // ms
)

// take returns a wait in whole milliseconds, of at least least and at most most, for a moment that
// nobody else was told: the first free one from a wait on, else the last before. Where each of those
// is taken the wait is what it was, and somebody shares it.
func (s *seats) take(now, wait, least, most time.Duration) time.Duration {
	wait = time.Duration(Millis(wait)) * time.Millisecond
	now, least = max(now, 0), max(least, time.Millisecond)
	s.advance(ms(now))
	at := ms(now + wait)
	low, high := at-ms(wait-min(least, wait)), min(at+ms(max(most, wait)-wait), s.from+seatSpan-64)
	seat, ok := s.firstFree(at, high)
	if !ok {
		seat, ok = s.lastFree(low, min(at, high))
	}
	if !ok {
		return wait
	}
	s.taken[seat/64%seatWords] |= 1 << (seat % 64)
	return wait + time.Duration(seat-at)*time.Millisecond
}

func ms(d time.Duration) int64 { return int64(d / time.Millisecond) }

// advance forgets the moments before now.
func (s *seats) advance(now int64) {
	if s.taken == nil {
		s.from, s.taken = now, make([]uint64, seatWords)
	}
	if now <= s.from {
		return
	}
	first, last := s.from/64, now/64 // of which the last holds moments that are still to come
	if last-first >= seatWords {
		clear(s.taken)
	}
	for word := max(first, last-seatWords); word < last; word++ {
		s.taken[word%seatWords] = 0
	}
	s.from = now
}

// firstFree is the first moment from one to another that nobody was told.
func (s *seats) firstFree(from, to int64) (int64, bool) {
	for at := from; at <= to; at = (at | 63) + 1 {
		if free := ^s.taken[at/64%seatWords] >> (at % 64); free != 0 {
			at += int64(bits.TrailingZeros64(free))
			return at, at <= to
		}
	}
	return 0, false
}

// lastFree is the last of them.
func (s *seats) lastFree(from, to int64) (int64, bool) {
	for at := to; at >= from; at = (at &^ 63) - 1 {
		if free := ^s.taken[at/64%seatWords] << (63 - at%64); free != 0 {
			at -= int64(bits.LeadingZeros64(free))
			return at, at >= from
		}
	}
	return 0, false
}
