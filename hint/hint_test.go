package hint_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/ticket"
)

func TestWorkedExample(t *testing.T) {
	b := hint.DefaultBounds()
	p := hint.Place{Ahead: 40, Own: 1}
	early, late := hint.Appointment(p, 10_000, b, 0), hint.Appointment(p, 10_000, b, math.MaxUint64)
	if early != 4050*time.Millisecond || late < 4099*time.Millisecond || late > 4100*time.Millisecond {
		t.Errorf("from %v to %v", early, late)
	}
	if next := hint.Appointment(hint.Place{Ahead: 41, Own: 1}, 10_000, b, 0); next != 4150*time.Millisecond {
		t.Errorf("the next one: %v", next)
	}
}

func TestAppointmentProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := hint.Bounds{Min: time.Duration(rapid.Int64Range(0, 5e9).Draw(t, "min")), Unknown: 2 * time.Second}
		b.Max = b.Min + time.Duration(rapid.Int64Range(0, 120e9).Draw(t, "max"))
		r := hint.Rate(rapid.Int64Range(0, 1e9).Draw(t, "rate"))
		p := hint.Place{Ahead: rapid.Int64().Draw(t, "ahead"), Own: rapid.Int64().Draw(t, "own")}
		d := hint.Appointment(p, r, b, rapid.Uint64().Draw(t, "rand"))
		if d < b.Min || d < time.Millisecond || d > max(b.Max, 2*b.Min, 2*time.Millisecond) {
			t.Fatalf("%v is outside %+v", d, b)
		}
		q := p
		q.Ahead = max(p.Ahead, 0) + rapid.Int64Range(0, 1e6).Draw(t, "further")
		q.Own = p.Own
		if p.Ahead < 1e12 && p.Own > 0 && q.Ahead-max(p.Ahead, 0) >= p.Own && hint.Appointment(q, r, b, 0) < d {
			t.Fatalf("the one behind is called before the one ahead")
		}
	})
}

// A thousand callers refused at one moment, in queue or by the book, with whatever randomness:
// a thousand moments in the order of their places, none below the least wait. Milliseconds too,
// as long as the rate is below one each.
func TestNoTwoCallersShareAMoment(t *testing.T) {
	b := hint.DefaultBounds()
	for _, rate := range []hint.Rate{0, 500, 10_000, 90_000} {
		var book hint.Book
		last, lastMS := time.Duration(0), int64(0)
		for i := range 1000 {
			p := book.Place(0, 1, rate)
			if p != hint.InQueue(int64(i+1)) {
				t.Fatalf("place %d: %+v", i, p)
			}
			d := hint.Appointment(p, rate, b, uint64(i)*0x9e3779b97f4a7c15)
			if d <= last || d < b.Min || d > b.Max {
				t.Fatalf("rate %d, place %d: %v after %v", rate, i, d, last)
			}
			if ms := hint.Millis(d); rate == 90_000 && i < 900 && i > 90 && ms == lastMS {
				t.Fatalf("place %d shares the millisecond %d", i, ms)
			}
			last, lastMS = d, hint.Millis(d)
		}
	}
}

// Targets.md row 12: the appointment is where the turn is, within a fifth, where it is not bent.
func TestAppointmentMeetsTheTurn(t *testing.T) {
	for position := int64(10); position <= 280; position += 10 {
		d := hint.Appointment(hint.InQueue(position), 10_000, hint.DefaultBounds(), 1<<63)
		turn := time.Duration(position) * 100 * time.Millisecond
		if d < turn*8/10 || d > turn*12/10 {
			t.Errorf("position %d: %v for %v", position, d, turn)
		}
	}
}

func TestBookServesAsItFrees(t *testing.T) {
	var k hint.Book
	for range 10 {
		k.Place(0, 1, 2000)
	}
	if p := k.Place(3*time.Second, 1, 2000); p.Ahead != 4 {
		t.Errorf("10 refused, 6 served: %d ahead", p.Ahead)
	}
	if p := k.Place(time.Hour, 4096, 2000); p.Ahead != 0 || p.Own != 4096 {
		t.Errorf("%+v", p)
	}
	if p := k.Place(time.Minute, 1, math.MaxInt64); p.Ahead != 4096 {
		t.Errorf("time went back: %+v", p)
	}
	if p := k.Place(math.MaxInt64, 1, math.MaxInt64); p.Ahead != 0 {
		t.Errorf("%+v", p)
	}
}

func TestRounding(t *testing.T) {
	for _, tc := range []struct {
		d       time.Duration
		sec, ms int64
	}{
		{0, 1, 1},
		{1, 1, 1},
		{time.Millisecond, 1, 1},
		{time.Millisecond + 1, 1, 2},
		{time.Second, 1, 1000},
		{time.Second + 1, 2, 1001},
		{-time.Second, 1, 1},
	} {
		if hint.Seconds(tc.d) != tc.sec || hint.Millis(tc.d) != tc.ms {
			t.Errorf("%v: %d s, %d ms", tc.d, hint.Seconds(tc.d), hint.Millis(tc.d))
		}
	}
}

// Who is far back in the line comes for the hold in which its turn is; who is near the head, where
// chance may bring it at any moment, stays.
func TestPollAfter(t *testing.T) {
	for _, tc := range []struct{ position, appointment, want int64 }{
		{1000, 0, 0},
		{1000, 15, 0},
		{1000, 40, 25},
		{1000, 120, 90},
		{1, 120, 0},
		{7, 120, 0},
		{8, 120, 30},
		{16, 120, 60},
		{63, 40, 20},
		{64, 40, 25},
		{64, 120, 90},
		{1000, 160, 105},
		{1000, 680, 118},
	} {
		if got := hint.PollAfter(tc.position, time.Duration(tc.appointment)*time.Second, 30*time.Second); got != time.Duration(tc.want)*time.Second {
			t.Errorf("%+v: poll after %v", tc, got)
		}
	}
}

// Nobody is sent away before enough was freed to say how fast it is, nor when that was long ago.
func TestNobodyIsSentAwayOnAGuess(t *testing.T) {
	d := hint.NewDesk(0)
	away := func(now time.Duration) time.Duration {
		return d.PollAfter(now, 200, d.Turn(now, 200, 0), 30*time.Second)
	}
	if got := away(0); got != 0 {
		t.Errorf("nothing was freed yet: away for %v", got)
	}
	d.Freed(5*time.Second, 15)
	if got := away(5 * time.Second); got != 0 {
		t.Errorf("15 were freed: away for %v", got)
	}
	d.Freed(10*time.Second, 15)
	if got := away(10 * time.Second); got < 30*time.Second || got > 90*time.Second {
		t.Errorf("30 were freed in 10 s: away for %v", got)
	}
	d.Freed(100*time.Second, 0)
	if got := away(100 * time.Second); got != 0 {
		t.Errorf("nothing was freed for long: away for %v", got)
	}
}

// Who asks just before the next look at what was freed is told the same as who asked just after the
// last one: nobody knows yet that nothing was freed meanwhile.
func TestNothingHeardIsNotNothingFreed(t *testing.T) {
	d := hint.NewDesk(0)
	for s := 5; s <= 100; s += 5 {
		d.Freed(time.Duration(s)*time.Second, 50)
	}
	if soon, late := d.Turn(100*time.Second, 600, 0), d.Turn(104900*time.Millisecond, 600, 0); soon != late {
		t.Errorf("%v just after a look, %v before the next", soon, late)
	}
	d.Freed(130*time.Second, 0)
	if told := d.Turn(130*time.Second, 600, 0); told < 100*time.Second {
		t.Errorf("%v after half a minute of nothing", told)
	}
}

// A place in the line is told its turn as it is for up to five minutes, within a fifth of it up
// to eight, and nobody more than ten minutes; without a place, nobody more than one.
func TestDesk(t *testing.T) {
	d := hint.NewDesk(0)
	for s := range 100 {
		d.Freed(time.Duration(s)*time.Second, 10)
	}
	now := 100 * time.Second
	for position := int64(20); position <= 4800; position += 20 {
		told, turn := d.Turn(now, position, 1<<63), time.Duration(position)*100*time.Millisecond
		if told < turn*8/10 || told > turn*11/10 {
			t.Errorf("position %d: %v for %v", position, told, turn)
		}
	}
	if told := d.Turn(now, 1<<40, 0); told < 599*time.Second || told > 10*time.Minute {
		t.Errorf("at the end of the world: %v", told)
	}
	for range 10_000 {
		if told, _ := d.Refused(now, 0, 0); told > 90*time.Second {
			t.Fatalf("without a place: %v", told)
		}
	}
}

// Who is told less than its place is worth keeps its turn, however often it comes before that: were it
// put behind all others each time, everybody would be told of waiters who are not there. Who comes
// when its turn is over is behind the others.
func TestWhoComesBeforeItsTurnIsInTheBookOnce(t *testing.T) {
	d := hint.NewDesk(0)
	for s := range 100 {
		d.Freed(time.Duration(s)*time.Second, 10)
	}
	now, mine := 100*time.Second, time.Duration(0)
	for range 1500 {
		_, mine = d.Refused(now, 0, 0)
	}
	if mine < 145*time.Second || mine > 155*time.Second {
		t.Fatalf("1500 at 10 a second: a turn in %v", mine)
	}
	for range 1000 {
		in, turn := d.Refused(now, mine, 0)
		if turn != mine || in > 90*time.Second {
			t.Fatalf("before its turn in %v: told %v, and a turn in %v", mine, in, turn)
		}
	}
	if _, next := d.Refused(now, 0, 0); next < mine || next > mine+time.Second {
		t.Errorf("the next one's turn is in %v", next)
	}
	if in, turn := d.Refused(now+mine-2*time.Second, 2*time.Second, 0); turn < 2*time.Second || in > 3*time.Second {
		t.Errorf("two seconds before its turn: told %v, and a turn in %v", in, turn)
	}
}

func TestRateIsRightFromTheStartAndForgets(t *testing.T) {
	e := hint.NewEstimator(0)
	if _, ok := e.Rate(0); ok {
		t.Error("a rate before anything was watched")
	}
	e.Observe(0, 0)
	for ms := 100; ms <= 300_000; ms += 100 {
		now := time.Duration(ms) * time.Millisecond
		e.Observe(now, 1)
		if r, ok := e.Rate(now); ms >= 3000 && (!ok || r < 8_000 || r > 13_000) {
			t.Fatalf("at %v: %d, %v", now, r, ok)
		}
	}
	r1, _ := e.Rate(330 * time.Second)
	if r1 < 4_700 || r1 > 5_300 {
		t.Errorf("a half-life without events: %d", r1)
	}
	if r, ok := e.Rate(10 * time.Hour); ok || r != 0 {
		t.Errorf("after hours without events: %d", r)
	}
	e.Observe(0, math.MaxInt64)
	e.Observe(0, -5)
	if _, ok := e.Rate(11 * time.Hour); ok {
		t.Error("time went back, or a giant stayed for ever")
	}
}

// The integers follow 2^(-age/half-life) closely.
func TestDecayAgainstFloats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := hint.NewEstimator(64 * time.Second)
		e.Observe(0, 0)
		var times []int64
		now := int64(0)
		for range rapid.IntRange(1, 50).Draw(t, "events") {
			now += rapid.Int64Range(1, 20).Draw(t, "gap")
			times = append(times, now)
			e.Observe(time.Duration(now)*time.Second, 1000)
		}
		sum := 0.0
		for _, at := range times {
			sum += 1000 * math.Exp2(-float64(now-at)/64)
		}
		want := 1000 * sum / (64 / math.Ln2 * (1 - math.Exp2(-float64(now)/64)))
		got, ok := e.Rate(time.Duration(now) * time.Second)
		if now >= 4 && (!ok || math.Abs(float64(got)-want) > want/1000+2) {
			t.Fatalf("got %d, want %.0f", got, want)
		}
	})
}

func keys(t testing.TB, fill byte) hint.ReceiptKeys {
	t.Helper()
	secret := make([]byte, 32)
	secret[0] = fill
	root, err := ticket.NewRoot("r1", ticket.Signing, secret)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := ticket.NewKeyring(root)
	if err != nil {
		t.Fatal(err)
	}
	k, err := hint.NewReceiptKeys(ring)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestReceiptsCrossReplicas(t *testing.T) {
	noon := time.Date(2026, 9, 8, 12, 0, 0, 0, time.UTC)
	one, other, stranger := keys(t, 1), keys(t, 1), keys(t, 2)
	r := hint.Receipt{}.Again(noon, noon.Add(3*time.Second), noon.Add(5*time.Second)).Again(noon.Add(4*time.Second), noon.Add(6*time.Second), noon.Add(8*time.Second))
	b, err := one.AppendMint(nil, r, "flare", "run-1")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	got, err := other.Parse(text, "flare", "run-1")
	if err != nil || got != r || got.Refusals != 2 || !got.First.Equal(noon) || got.Hint != 3*time.Second || !got.Turn.Equal(noon.Add(8*time.Second)) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, try := range map[string]func() (hint.Receipt, error){
		"another key":       func() (hint.Receipt, error) { return other.Parse(text, "flare", "run-2") },
		"another consumer":  func() (hint.Receipt, error) { return other.Parse(text, "bot", "run-1") },
		"a shifted border":  func() (hint.Receipt, error) { return other.Parse(text, "flarer", "un-1") },
		"other roots":       func() (hint.Receipt, error) { return stranger.Parse(text, "flare", "run-1") },
		"a ticket's prefix": func() (hint.Receipt, error) { return other.Parse("plm1."+text[5:], "flare", "run-1") },
		"a line end":        func() (hint.Receipt, error) { return other.Parse(text+"\n", "flare", "run-1") },
		"nothing":           func() (hint.Receipt, error) { return other.Parse("", "", "") },
		"long names":        func() (hint.Receipt, error) { return other.Parse(text, strings.Repeat("x", 300), "") },
	} {
		if got, err := try(); err == nil || got != (hint.Receipt{}) {
			t.Errorf("%s: taken", name)
		}
	}
	for i := range text {
		for bit := range 8 {
			c := []byte(text)
			c[i] ^= 1 << bit
			if _, err := other.Parse(string(c), "flare", "run-1"); err == nil {
				t.Fatalf("bit %d of character %d flipped, and taken", bit, i)
			}
		}
	}
}

// A hint longer than a receipt can say is the longest that it can.
func TestReceiptOfALongHint(t *testing.T) {
	k, now := keys(t, 1), time.UnixMilli(1000).UTC()
	b, err := k.AppendMint(nil, hint.Receipt{}.Again(now, now.Add(100*24*time.Hour), now.Add(200*24*time.Hour)), "c", "k")
	if got, readErr := k.Parse(string(b), "c", "k"); err != nil || readErr != nil || got.Hint != math.MaxUint32*time.Millisecond || got.Turn.Sub(got.Appointment) != math.MaxUint32*time.Millisecond {
		t.Errorf("%+v, %v, %v", got, err, readErr)
	}
}

func TestReceiptsThatCannotBeMinted(t *testing.T) {
	k, now := keys(t, 1), time.UnixMilli(1000)
	for name, r := range map[string]hint.Receipt{
		"no instant":         {},
		"appointment before": {First: now, Appointment: now.Add(-time.Second)},
		"a hint before":      {First: now, Appointment: now, Turn: now, Hint: -time.Second},
		"a turn before":      {First: now, Appointment: now, Turn: now.Add(-time.Second)},
	} {
		if _, err := k.AppendMint(nil, r, "c", "k"); err == nil {
			t.Errorf("%s: minted", name)
		}
	}
	if _, err := k.AppendMint(nil, hint.Receipt{First: now, Appointment: now, Turn: now}, "c", strings.Repeat("k", 256)); err == nil {
		t.Error("long names: minted")
	}
	if _, err := (hint.ReceiptKeys{}).AppendMint(nil, hint.Receipt{First: now, Appointment: now, Turn: now}, "c", "k"); err == nil {
		t.Error("minted without keys")
	}
}

func FuzzReceipt(f *testing.F) {
	k := keys(f, 1)
	good, err := k.AppendMint(nil, hint.Receipt{First: time.UnixMilli(5), Appointment: time.UnixMilli(9), Turn: time.UnixMilli(9)}, "c", "k")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Add("plr1.")
	f.Add("plr1.Af8")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := k.Parse(text, "c", "k"); (err == nil) != (text == string(good)) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

func TestHotPathsAllocateNothing(t *testing.T) {
	k, e, book := keys(t, 1), hint.NewEstimator(0), new(hint.Book)
	buf := make([]byte, 0, 128)
	now := time.UnixMilli(1000)
	n := testing.AllocsPerRun(100, func() {
		e.Observe(time.Second, 3)
		r, _ := e.Rate(time.Second)
		d := hint.Appointment(book.Place(time.Second, 1, r), r, hint.DefaultBounds(), 7)
		buf, _ = k.AppendMint(buf[:0], hint.Receipt{First: now, Appointment: now.Add(d), Turn: now.Add(d)}, "c", "k")
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
