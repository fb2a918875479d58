package backoff_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/backoff"
	"github.com/plimsoll-project/plimsoll/internal/transcript"
)

// vectors is a file that every SDK is tested against. Times are milliseconds since 1970.
type vectors[T any] struct {
	About string `json:"about"`
	Cases []T    `json:"cases"`
}

type vectorPolicy struct {
	BaseMS     int64 `json:"base_ms"`
	CapMS      int64 `json:"cap_ms"`
	DeadlineMS int64 `json:"deadline_ms"`
}

type vectorStep struct {
	NowMS      int64  `json:"now_ms"`
	Status     int    `json:"status"`
	RetryMS    int64  `json:"retry_ms"`
	RetryAfter string `json:"retry_after"`
	Rand       string `json:"rand"`
	DelayNS    string `json:"delay_ns"`
	Verdict    string `json:"verdict"`
}

type vectorBackoff struct {
	Name    string       `json:"name"`
	StartMS int64        `json:"start_ms"`
	Policy  vectorPolicy `json:"policy"`
	Steps   []vectorStep `json:"steps"`
}

// next runs a step and fills in what came of it.
func (s *vectorStep) next(b *backoff.Backoff) {
	random, err := strconv.ParseUint(s.Rand, 10, 64)
	if err != nil {
		panic(err)
	}
	delay, verdict := b.Next(time.UnixMilli(s.NowMS), backoff.Outcome{Status: s.Status, RetryMS: s.RetryMS, RetryAfter: s.RetryAfter}, random)
	s.DelayNS = strconv.FormatInt(int64(delay), 10)
	s.Verdict = map[backoff.Verdict]string{backoff.Retry: "retry", backoff.Stop: "stop", backoff.OutOfPatience: "out_of_patience"}[verdict]
}

func (c *vectorBackoff) run() {
	p := backoff.Policy{
		Base: time.Duration(c.Policy.BaseMS) * time.Millisecond, Cap: time.Duration(c.Policy.CapMS) * time.Millisecond,
		Deadline: time.Duration(c.Policy.DeadlineMS) * time.Millisecond,
	}
	b := backoff.New(p, time.UnixMilli(c.StartMS))
	for i := range c.Steps {
		c.Steps[i].next(b)
	}
}

// walk is one request that is answered as outcome says until it gives up, each try taking 20 ms.
func walk(name string, p vectorPolicy, seed uint64, outcome func(try int) backoff.Outcome) vectorBackoff {
	rng := rand.New(rand.NewPCG(seed, 8))
	c := vectorBackoff{Name: name, StartMS: noon.UnixMilli(), Policy: p}
	b := backoff.New(backoff.Policy{
		Base: time.Duration(p.BaseMS) * time.Millisecond, Cap: time.Duration(p.CapMS) * time.Millisecond,
		Deadline: time.Duration(p.DeadlineMS) * time.Millisecond,
	}, noon)
	now := noon.Add(20 * time.Millisecond)
	for try := range 400 {
		o := outcome(try)
		s := vectorStep{
			NowMS: now.UnixMilli(), Status: o.Status, RetryMS: o.RetryMS, RetryAfter: o.RetryAfter,
			Rand: strconv.FormatUint(rng.Uint64(), 10),
		}
		s.next(b)
		c.Steps = append(c.Steps, s)
		if s.Verdict != "retry" {
			break
		}
		delay, _ := strconv.ParseInt(s.DelayNS, 10, 64)
		now = now.Add(time.Duration(delay)).Truncate(time.Millisecond).Add(20 * time.Millisecond)
	}
	return c
}

func TestBackoffVectors(t *testing.T) {
	always := func(o backoff.Outcome) func(int) backoff.Outcome { return func(int) backoff.Outcome { return o } }
	short := vectorPolicy{BaseMS: 50, CapMS: 400, DeadlineMS: 3000}
	v := vectors[vectorBackoff]{
		About: "A request's tries, one after the other: what came at now_ms, a random number of 64 bits, and what to do then. A policy of zeros takes the defaults: 250 ms, 8 s, 90 s. Status 0 is a lost connection. delay = hint + high 64 bits of (window + 1) × rand, in nanoseconds.",
		Cases: []vectorBackoff{
			walk("the defaults, no hint", vectorPolicy{}, 1, always(backoff.Outcome{Status: 503})),
			walk("lost connections", vectorPolicy{}, 2, always(backoff.Outcome{})),
			walk("a hint of 2 s in the body", vectorPolicy{}, 3, always(backoff.Outcome{Status: 503, RetryMS: 2000})),
			walk("a hint of 1 s in the header", short, 4, always(backoff.Outcome{Status: 502, RetryAfter: "1"})),
			walk("the body goes before the header", short, 5, always(backoff.Outcome{Status: 504, RetryMS: 700, RetryAfter: "9"})),
			walk("a date", vectorPolicy{}, 6, always(backoff.Outcome{Status: 503, RetryAfter: "Tue, 08 Sep 2026 12:00:07 GMT"})),
			walk("a short policy without hints", short, 7, always(backoff.Outcome{Status: 503})),
			walk("a hint beyond the patience", short, 8, always(backoff.Outcome{Status: 503, RetryMS: 3000})),
			walk("a hint beyond what is left of it", short, 9, func(try int) backoff.Outcome {
				return backoff.Outcome{Status: 503, RetryMS: int64(try) * 900}
			}),
			walk("a 429 is no capacity", vectorPolicy{}, 10, func(try int) backoff.Outcome {
				return backoff.Outcome{Status: []int{503, 429}[min(try, 1)], RetryAfter: "1"}
			}),
			walk("a cap below the base", vectorPolicy{BaseMS: 1000, CapMS: 300, DeadlineMS: 5000}, 11, always(backoff.Outcome{Status: 503})),
			extremes(),
		},
	}
	for _, status := range []int{200, 202, 301, 400, 401, 403, 404, 409, 422, 429, 500, 501, 505} {
		c := walk("status "+strconv.Itoa(status), vectorPolicy{}, uint64(status), always(backoff.Outcome{Status: status, RetryAfter: "1"}))
		v.Cases = append(v.Cases, c)
	}
	transcript.Current(t, "../sdk/vectors/backoff.json", v)
}

// extremes are random numbers at their ends, where arithmetic that is not in 64 bits goes wrong.
func extremes() vectorBackoff {
	c := vectorBackoff{Name: "random numbers at their ends", StartMS: noon.UnixMilli()}
	for _, random := range []uint64{0, math.MaxUint64, 1, 1 << 63, 1<<53 + 1, math.MaxUint64 - 1<<11} {
		c.Steps = append(c.Steps, vectorStep{NowMS: noon.UnixMilli(), Status: 503, RetryMS: 1, Rand: strconv.FormatUint(random, 10)})
	}
	c.run()
	return c
}

func TestRetryAfterVectors(t *testing.T) {
	type hint struct {
		Name       string `json:"name"`
		NowMS      int64  `json:"now_ms"`
		RetryMS    int64  `json:"retry_ms"`
		RetryAfter string `json:"retry_after"`
		HintMS     int64  `json:"hint_ms"` // 0: none
	}
	v := vectors[hint]{
		About: "What retry_after_ms of the body and the header Retry-After ask for, judged at now_ms; hint_ms 0 is no hint, and 24 h are the most.",
		Cases: []hint{
			{Name: "nothing"},
			{Name: "seconds", RetryAfter: "3"},
			{Name: "blanks around", RetryAfter: " \t3\t "},
			{Name: "the body goes before", RetryMS: 1500, RetryAfter: "3"},
			{Name: "zero", RetryAfter: "0"},
			{Name: "zeros before", RetryAfter: "007"},
			{Name: "below zero", RetryAfter: "-3"},
			{Name: "a plus", RetryAfter: "+3"},
			{Name: "a fraction", RetryAfter: "1.5"},
			{Name: "a word", RetryAfter: "soon"},
			{Name: "an exponent", RetryAfter: "1e3"},
			{Name: "hexadecimal", RetryAfter: "0x10"},
			{Name: "digits that are not ASCII", RetryAfter: "٣"},
			{Name: "a body below zero", RetryMS: -1, RetryAfter: "2"},
			{Name: "a body of a year", RetryMS: 365 * 24 * 3_600_000},
			{Name: "a day", RetryAfter: "86400"},
			{Name: "more than a day", RetryAfter: "86401"},
			{Name: "more digits than 64 bits have", RetryAfter: "98765432109876543210987"},
			{Name: "a date (RFC 1123)", RetryAfter: "Tue, 08 Sep 2026 12:00:07 GMT"},
			{Name: "a date (RFC 850)", RetryAfter: "Tuesday, 08-Sep-26 12:00:07 GMT"},
			{Name: "a date (asctime)", RetryAfter: "Tue Sep  8 12:00:07 2026"},
			{Name: "a date that has passed", RetryAfter: "Tue, 08 Sep 2026 11:59:59 GMT"},
			{Name: "a date that is now", RetryAfter: "Tue, 08 Sep 2026 12:00:00 GMT"},
			{Name: "a date in years", RetryAfter: "Thu, 08 Sep 2050 12:00:00 GMT"},
			{Name: "a date in another zone", RetryAfter: "Tue, 08 Sep 2026 12:00:07 CET"},
			{Name: "a date of no calendar", RetryAfter: "Tue, 31 Feb 2027 12:00:07 GMT"},
			{Name: "a date within a second", NowMS: noon.UnixMilli() + 6_400, RetryAfter: "Tue, 08 Sep 2026 12:00:07 GMT"},
		},
	}
	for i := range v.Cases {
		c := &v.Cases[i]
		if c.NowMS == 0 {
			c.NowMS = noon.UnixMilli()
		}
		got, _ := backoff.Hint(backoff.Outcome{RetryMS: c.RetryMS, RetryAfter: c.RetryAfter}, time.UnixMilli(c.NowMS))
		c.HintMS = got.Milliseconds()
	}
	transcript.Current(t, "../sdk/vectors/retry_after.json", v)
}

func TestAwayVectors(t *testing.T) {
	type away struct {
		PollAfterMS int64 `json:"poll_after_ms"`
		LeftMS      int64 `json:"left_ms"`
		HoldMS      int64 `json:"hold_ms"`
		AwayMS      int64 `json:"away_ms"`
	}
	v := vectors[away]{
		About: "How long a waiter in a line stays away before its next long poll, which is held for hold_ms: until the server wants it back, but not into the last hold of the patience that is left.",
	}
	for _, pollAfter := range []int64{-5000, 0, 1, 45_000, 90_000, 600_000} {
		for _, left := range []int64{-1, 0, 20_000, 30_000, 50_000, 100_000, 180_000} {
			got := backoff.Away(time.Duration(pollAfter)*time.Millisecond, time.Duration(left)*time.Millisecond, 30*time.Second)
			v.Cases = append(v.Cases, away{pollAfter, left, 30_000, got.Milliseconds()})
		}
	}
	transcript.Current(t, "../sdk/vectors/away.json", v)
}

type budgetStep struct {
	NowMS int64  `json:"now_ms"`
	Do    string `json:"do"` // take, answered
	OK    bool   `json:"ok"` // of a take
}

type budgetCase struct {
	Name    string       `json:"name"`
	StartMS int64        `json:"start_ms"`
	Steps   []budgetStep `json:"steps"`
}

func (c budgetCase) run() budgetCase {
	b := backoff.NewBudget(time.UnixMilli(c.StartMS))
	for i := range c.Steps {
		s := &c.Steps[i]
		if s.Do == "answered" {
			b.Answered(time.UnixMilli(s.NowMS))
		} else {
			s.OK = b.Take(time.UnixMilli(s.NowMS))
		}
	}
	return c
}

func TestBudgetVectors(t *testing.T) {
	type putOff struct {
		Rand    string `json:"rand"`
		DelayNS string `json:"delay_ns"`
	}
	v := struct {
		About  string       `json:"about"`
		Cases  []budgetCase `json:"cases"`
		PutOff []putOff     `json:"put_off"`
	}{
		About: "A client's budget for retries that follow no answer: what is asked of it at now_ms, and whether a take was granted (ok). In put_off: how long a retry waits that was granted none, 0.5 s + the high 64 bits of (0.5 s + 1 ns) × rand.",
		Cases: []budgetCase{
			{Name: "ten, then one a second", Steps: takes(0, 250, 80)},
			{Name: "an answer brings two", Steps: sequence(takes(0, 0, 11), answers(5, 1), takes(6, 0, 3), answers(7, 2), takes(8, 1, 6))},
			{Name: "never more than ten", Steps: sequence(answers(0, 9), takes(3_600_000, 0, 12))},
			{Name: "a clock that goes back", Steps: sequence(takes(1000, 0, 11), takes(200, 0, 1), takes(1999, 0, 1), takes(2000, 0, 2))},
			{Name: "thousandths add up", Steps: sequence(takes(0, 0, 11), takes(333, 333, 4), takes(2000, 1, 3))},
			random(1), random(2), random(3),
		},
	}
	for i := range v.Cases {
		v.Cases[i] = v.Cases[i].run()
	}
	for _, r := range []uint64{0, 1, 1 << 63, math.MaxUint64, 1<<53 + 1, 12345678901234567890} {
		v.PutOff = append(v.PutOff, putOff{strconv.FormatUint(r, 10), strconv.FormatInt(int64(backoff.PutOff(r)), 10)})
	}
	transcript.Current(t, "../sdk/vectors/budget.json", v)
}

func takes(from, every int64, n int) (all []budgetStep) {
	for i := range n {
		all = append(all, budgetStep{NowMS: from + every*int64(i), Do: "take"})
	}
	return all
}

func answers(at int64, n int) (all []budgetStep) {
	for range n {
		all = append(all, budgetStep{NowMS: at, Do: "answered"})
	}
	return all
}

func sequence(parts ...[]budgetStep) (all []budgetStep) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func random(seed uint64) budgetCase {
	rng := rand.New(rand.NewPCG(seed, 22))
	c := budgetCase{Name: "random " + strconv.FormatUint(seed, 10), StartMS: noon.UnixMilli()}
	for now := c.StartMS; len(c.Steps) < 120; now += rng.Int64N(700) {
		c.Steps = append(c.Steps, budgetStep{NowMS: now, Do: []string{"take", "take", "take", "answered"}[rng.IntN(4)]})
	}
	return c
}
