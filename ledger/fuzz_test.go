package ledger_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ledger"
)

// book is the ledger as one would write it at first: a list of records, every sum taken
// anew, and no agenda.
type book []ledger.Entry

func (b *book) advance(now ledger.Instant) (lapsed []string) {
	var kept book
	for _, e := range *b {
		switch {
		case e.Until > now:
		case e.State == ledger.Open:
			lapsed = append(lapsed, e.ID)
			e = ledger.Entry{ID: e.ID, Gen: e.Gen, State: ledger.Lapsed, Until: now + 2*ttl}
		default:
			continue
		}
		kept = append(kept, e)
	}
	*b = kept
	return lapsed
}

func (b *book) find(id string) *ledger.Entry {
	for i := range *b {
		if (*b)[i].ID == id {
			return &(*b)[i]
		}
	}
	return nil
}

func (b *book) write(e ledger.Entry) {
	if old := b.find(e.ID); old != nil {
		*old = e
		return
	}
	*b = append(*b, e)
}

func (b *book) reserve(now ledger.Instant, e ledger.Entry) ledger.Verdict {
	old := b.find(e.ID)
	if old != nil && old.Gen > e.Gen {
		return ledger.Superseded
	}
	if old != nil && old.Gen == e.Gen {
		if old.State == ledger.Open {
			return ledger.Same
		}
		return ledger.Closed
	}
	if e.Until <= now {
		return ledger.Late
	}
	if e.Until > now+ttl {
		e.Until = now + ttl
	}
	b.write(e)
	return ledger.Fresh
}

func (b *book) renew(now ledger.Instant, id string, gen int64, until ledger.Instant) bool {
	e := b.find(id)
	if e == nil || e.Gen != gen || e.State != ledger.Open {
		return false
	}
	if until > now+ttl {
		until = now + ttl
	}
	if until > e.Until {
		e.Until = until
	}
	return true
}

func (b *book) close(now ledger.Instant, id string, gen int64, s ledger.State) {
	until := now + ttl
	if e := b.find(id); e != nil && e.Gen == gen && e.Until > until {
		until = e.Until
	}
	b.write(ledger.Entry{ID: id, Gen: gen, State: s, Until: until + ttl})
}

func (b *book) release(now ledger.Instant, id string, gen int64) bool {
	if e := b.find(id); e != nil && (e.Gen > gen || (e.Gen == gen && e.State != ledger.Open)) {
		return false
	}
	b.close(now, id, gen, ledger.Released)
	return true
}

func (b *book) redeem(now ledger.Instant, id string, gen int64) bool {
	e := b.find(id)
	if e == nil || e.Gen != gen || e.State != ledger.Open {
		return false
	}
	b.close(now, id, gen, ledger.Redeemed)
	return true
}

// reopen is the one way back to open, and only from redeemed.
func (b *book) reopen(now ledger.Instant, e ledger.Entry) bool {
	if old := b.find(e.ID); old != nil {
		if old.Gen > e.Gen {
			return false
		}
		if old.Gen == e.Gen && old.State != ledger.Redeemed {
			return false
		}
	}
	e.Until, e.Reopened = now+ttl, true
	b.write(e)
	return true
}

// Any sequence of frames, whatever their order and their delay, does to the ledger what
// it does to the book. T28, T29, T35: when all is over and a time to live has passed,
// nothing is promised; one more and nothing is remembered (design §12.4).
func FuzzLedger(f *testing.F) {
	f.Add([]byte{0, 1, 9, 1, 0, 1, 9, 1, 3, 1, 9, 1, 0, 1, 9, 1})
	f.Add([]byte{3, 1, 9, 1, 0, 1, 9, 1, 0, 2, 60, 1, 2, 2, 99, 30, 4, 2, 0, 30})
	f.Add([]byte{0, 1, 1, 200, 0, 1, 200, 0, 1, 1, 1, 1, 4, 1, 1, 120, 0, 1, 1, 255})
	f.Add([]byte{0, 1, 99, 0, 4, 1, 0, 0, 6, 1, 9, 8, 4, 1, 0, 0, 6, 1, 9, 255, 2, 1, 99, 99, 3, 1, 0, 0, 6, 1, 9, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		l, b := ledger.New(ttl, "gpu"), book{}
		var now ledger.Instant
		for len(data) >= 4 {
			verb, who, when, wait := data[0]%7, data[1], data[2], data[3]
			data = data[4:]
			now += time.Duration(wait) * time.Second / 4
			same(t, l, &b, now)
			id, gen := fmt.Sprint(who%4), int64(who>>2%4)
			until := now + time.Duration(when)*time.Second - 30*time.Second
			compare(t, l, &b, verb, now, ledger.Entry{
				ID: id, Gen: gen, Until: until, Need: gate.FromMiB(int64(when)),
				Ask: gate.Ask{CPUMilli: int64(when), Dims: []gate.Dim{{Name: "gpu", N: int64(who)}}},
			})
			same(t, l, &b, now)
		}
		if l.Advance(now+ttl, nil); l.Total() != 0 || l.Count() != 0 || l.CPUMilli() != 0 || l.Dim(0) != 0 {
			t.Fatalf("idle for a time to live, and %s are promised in %d", l.Total(), l.Count())
		}
		if l.Advance(now+4*ttl, nil); len(sorted(l)) != 0 {
			t.Fatalf("idle for long, and %v is remembered", sorted(l))
		}
	})
}

// compare does one thing to both.
func compare(t *testing.T, l *ledger.Ledger, b *book, verb byte, now ledger.Instant, e ledger.Entry) {
	t.Helper()
	var got, want any
	switch verb {
	case 0, 1:
		verdict := l.Judge(now, e.ID, e.Gen, e.Until)
		if verdict == ledger.Fresh {
			l.Reserve(now, e)
		}
		got, want = verdict, b.reserve(now, e)
	case 2:
		_, ok := l.Renew(now, e.ID, e.Gen, e.Until)
		got, want = ok, b.renew(now, e.ID, e.Gen, e.Until)
	case 3:
		_, ok := l.Release(now, e.ID, e.Gen)
		got, want = ok, b.release(now, e.ID, e.Gen)
	case 4:
		_, ok := l.Redeem(now, e.ID, e.Gen)
		got, want = ok, b.redeem(now, e.ID, e.Gen)
	case 6:
		_, ok := l.Reopen(now, e)
		got, want = ok, b.reopen(now, e)
	case 5:
		// The owner denies only what was fresh.
		if l.Judge(now, e.ID, e.Gen, e.Until) == ledger.Fresh {
			l.Deny(now, e.ID, e.Gen)
			b.close(now, e.ID, e.Gen, ledger.Denied)
		}
	}
	if got != want {
		t.Fatalf("verb %d of %s/%d at %v: ledger %v, book %v", verb, e.ID, e.Gen, now, got, want)
	}
}

// same lets time pass in both and compares everything there is to see.
func same(t *testing.T, l *ledger.Ledger, b *book, now ledger.Instant) {
	t.Helper()
	var lapsed []string
	for _, e := range l.Advance(now, nil) {
		lapsed = append(lapsed, e.ID)
	}
	slices.Sort(lapsed)
	want := b.advance(now)
	slices.Sort(want)
	if !slices.Equal(lapsed, want) {
		t.Fatalf("at %v lapsed %v, want %v", now, lapsed, want)
	}
	if err := l.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
	var total gate.Bytes
	var cpu, gpu int64
	open, again, due := 0, 0, ledger.Instant(1<<63-1)
	for _, e := range *b {
		got, known := l.Get(e.ID)
		if !known || got.Gen != e.Gen || got.State != e.State || got.Need != e.Need || got.Until != e.Until || got.Reopened != e.Reopened {
			t.Fatalf("at %v the ledger has %+v, the book %+v", now, got, e)
		}
		due = min(due, e.Until)
		if e.State == ledger.Open {
			total, cpu, open, gpu = total+e.Need, cpu+e.Ask.CPUMilli, open+1, gpu+e.Ask.Takes("gpu")
			if e.Reopened {
				again++
			}
		}
	}
	if len(sorted(l)) != len(*b) {
		t.Fatalf("at %v the ledger has %d records, the book %d", now, len(sorted(l)), len(*b))
	}
	if l.Total() != total || l.CPUMilli() != cpu || l.Count() != open || l.Reopened() != again || l.Dim(0) != gpu || l.Due() != due {
		t.Fatalf("at %v the ledger sums %s, %d, %d, %d again, %d, due %v; the book %s, %d, %d, %d again, %d, due %v",
			now, l.Total(), l.CPUMilli(), l.Count(), l.Reopened(), l.Dim(0), l.Due(), total, cpu, open, again, gpu, due)
	}
}
