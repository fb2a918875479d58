package backoff_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/backoff"
)

var noon = time.Date(2026, 9, 8, 12, 0, 0, 0, time.UTC)

// Trap 4 (design.md §13): the essay's SDK sleeps exactly Retry-After, so that fifty clients that
// were refused at one moment with one hint return as one wave. Here none is below the hint, none
// at it, and no small part of the window holds many of them. The same for a hint as a date.
func TestTrap4TheHerdDoesNotReturnTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for name, o := range map[string]backoff.Outcome{
		"seconds":      {Status: 503, RetryAfter: "2"},
		"date":         {Status: 503, RetryAfter: "Tue, 08 Sep 2026 12:00:02 GMT"},
		"milliseconds": {Status: 503, RetryMS: 2000},
		"no hint":      {Status: 503},
	} {
		for attempt := range 4 {
			least, _ := backoff.Hint(o, noon)
			slots := map[time.Duration]int{}
			for range 50 {
				b := backoff.New(backoff.Policy{}, noon)
				for range attempt {
					b.Next(noon, backoff.Outcome{Status: 503}, 0)
				}
				d, v := b.Next(noon, o, rng.Uint64())
				if v != backoff.Retry || d < least {
					t.Fatalf("%s: %v after a hint of %v, verdict %v", name, d, least, v)
				}
				slots[(d-least)/(25*time.Millisecond<<attempt)]++ // a tenth of the window each
			}
			for slot, n := range slots {
				if n > 15 {
					t.Errorf("%s, refusal %d: %d of 50 return in tenth %d of the window", name, attempt+1, n, slot)
				}
			}
		}
	}
}

// T74: a client ignored the hint and failed the customer's step. Here a refusal with a hint is
// tried again, at or after it, a bounded number of times, until it succeeds or patience ends.
func TestT74TheHintIsHonouredAndRetriesAreBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 4))
	now, b := noon, backoff.New(backoff.Policy{}, noon)
	for tries := 1; ; tries++ {
		d, v := b.Next(now, backoff.Outcome{Status: 503, RetryAfter: "1"}, rng.Uint64())
		if v == backoff.OutOfPatience {
			if now.Sub(noon) < 80*time.Second || tries < 10 || tries > 91 || b.Attempts() != tries-1 {
				t.Errorf("gave up after %v and %d tries", now.Sub(noon), tries)
			}
			return
		}
		if v != backoff.Retry || d < time.Second {
			t.Fatalf("try %d: %v, %v", tries, d, v)
		}
		now = now.Add(d)
	}
}

func TestWhatIsRetried(t *testing.T) {
	for status := range 600 {
		want := backoff.Stop
		if status == 0 || status == 502 || status == 503 || status == 504 {
			want = backoff.Retry
		}
		b := backoff.New(backoff.Policy{}, noon)
		if _, v := b.Next(noon, backoff.Outcome{Status: status, RetryAfter: "1"}, 1); v != want {
			t.Errorf("%d: %v", status, v)
		}
	}
}

func TestHints(t *testing.T) {
	for _, tc := range []struct {
		o    backoff.Outcome
		want time.Duration
		ok   bool
	}{
		{backoff.Outcome{}, 0, false},
		{backoff.Outcome{RetryAfter: "3"}, 3 * time.Second, true},
		{backoff.Outcome{RetryAfter: " 3 "}, 3 * time.Second, true},
		{backoff.Outcome{RetryAfter: "3", RetryMS: 1500}, 1500 * time.Millisecond, true},
		{backoff.Outcome{RetryAfter: "0"}, 0, false},
		{backoff.Outcome{RetryAfter: "-3"}, 0, false},
		{backoff.Outcome{RetryAfter: "1.5"}, 0, false},
		{backoff.Outcome{RetryAfter: "soon"}, 0, false},
		{backoff.Outcome{RetryMS: -1}, 0, false},
		{backoff.Outcome{RetryMS: math.MaxInt64}, 24 * time.Hour, true},
		{backoff.Outcome{RetryAfter: "98765432109876543210987"}, 24 * time.Hour, true},
		{backoff.Outcome{RetryAfter: "Tue, 08 Sep 2026 12:00:07 GMT"}, 7 * time.Second, true},
		{backoff.Outcome{RetryAfter: "Tuesday, 08-Sep-26 12:00:07 GMT"}, 7 * time.Second, true},
		{backoff.Outcome{RetryAfter: "Tue Sep  8 12:00:07 2026"}, 7 * time.Second, true},
		{backoff.Outcome{RetryAfter: "Tue, 08 Sep 2026 11:59:59 GMT"}, 0, false},
		{backoff.Outcome{RetryAfter: "Thu, 08 Sep 2050 12:00:00 GMT"}, 24 * time.Hour, true},
	} {
		got, ok := backoff.Hint(tc.o, noon)
		if got != tc.want || ok != tc.ok {
			t.Errorf("%+v: %v %v, want %v %v", tc.o, got, ok, tc.want, tc.ok)
		}
	}
}

// The window doubles from base to cap, whatever the count of attempts.
func TestWindow(t *testing.T) {
	b := backoff.New(backoff.Policy{Deadline: 1000 * time.Hour}, noon)
	for i, want := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 8000, 8000} {
		d, v := b.Next(noon, backoff.Outcome{}, math.MaxUint64)
		if d != want*time.Millisecond || v != backoff.Retry {
			t.Errorf("attempt %d: at most %v, want %d ms", i, d, want)
		}
	}
}

// Near the deadline the window shrinks; nobody is sent to wait exactly until it, nor beyond it,
// nor to come back before its hint.
func TestNextStaysWithinPatience(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := backoff.Policy{Base: time.Second, Cap: 8 * time.Second, Deadline: time.Minute}
		b := backoff.New(p, noon)
		now := noon
		for range rapid.IntRange(1, 60).Draw(t, "tries") {
			o := backoff.Outcome{Status: 503, RetryMS: rapid.Int64Range(0, 70_000).Draw(t, "hint")}
			now = now.Add(time.Duration(rapid.Int64Range(0, 3e9).Draw(t, "call")))
			d, v := b.Next(now, o, rapid.Uint64().Draw(t, "rand"))
			hinted := time.Duration(o.RetryMS) * time.Millisecond
			end := noon.Add(p.Deadline)
			if v == backoff.OutOfPatience {
				if now.Add(hinted + p.Base).Before(end) {
					t.Fatal("gave up with time left")
				}
				return
			}
			if d < hinted || d > hinted+p.Cap || now.Add(d).After(end) {
				t.Fatalf("%v for a hint of %v", d, hinted)
			}
			now = now.Add(d)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("1", int64(0))
	f.Add("Tue, 08 Sep 2026 12:00:07 GMT", int64(0))
	f.Add("", int64(-1))
	f.Fuzz(func(t *testing.T, header string, ms int64) {
		d, ok := backoff.Hint(backoff.Outcome{RetryAfter: header, RetryMS: ms}, noon)
		if d < 0 || d > 24*time.Hour || ok != (d > 0) {
			t.Fatalf("%q, %d: %v %v", header, ms, d, ok)
		}
	})
}

func TestNextAllocatesNothing(t *testing.T) {
	b := backoff.New(backoff.Policy{}, noon)
	o := backoff.Outcome{Status: 503, RetryAfter: "2"}
	if n := testing.AllocsPerRun(100, func() { b.Next(noon, o, 5) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Windows shrink with the patience that is left: without an end to that, ever more tries
// would crowd into its last moments.
func TestTriesDoNotCrowdAtTheEndOfPatience(t *testing.T) {
	for seed := range uint64(200) {
		start := time.Unix(0, 0)
		b, now, late := backoff.New(backoff.Policy{}, start), start, 0
		for n := uint64(1); ; n++ {
			delay, verdict := b.Next(now, backoff.Outcome{Status: 503}, (seed*1_000_003+n)*0x9e3779b97f4a7c15)
			if verdict != backoff.Retry {
				break
			}
			now = now.Add(delay)
			if now.Sub(start) > 88*time.Second {
				late++
			}
		}
		if late > 8 {
			t.Errorf("seed %d: %d tries in the last two seconds", seed, late)
		}
	}
}

func TestAway(t *testing.T) {
	for _, tc := range []struct{ pollAfter, left, want int64 }{
		{45, 180, 45}, {90, 100, 70}, {0, 180, 0}, {45, 20, 0}, {-5, 180, 0}, {45, 30, 0},
	} {
		s := time.Second
		if got := backoff.Away(time.Duration(tc.pollAfter)*s, time.Duration(tc.left)*s, 30*s); got != time.Duration(tc.want)*s {
			t.Errorf("%+v: away for %v", tc, got)
		}
	}
}
