package hindsight_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/hindsight"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

func word(mb int64, seq int64) table.Verdict {
	return table.Verdict{
		Host: "h", Incarnation: 1, Sequence: seq, Admittable: gate.FromMiB(mb), Free: gate.FromMiB(mb),
		Limit: 32 * gate.GiB, MaxAsk: 30 * gate.GiB, Labels: []gate.Label{{Name: "zone", Value: "a"}},
	}
}

func ask() gate.Ask { return gate.Ask{Memory: 4 * gate.GiB, Rule: gate.DefaultReserveRule()} }

// book is one replica's past and a store's docket in one, with a clock that the test moves.
type book struct {
	*hindsight.Past
	*hindsight.Docket
	now time.Duration
}

func newBook() *book {
	return &book{Past: hindsight.NewPast(), Docket: &hindsight.Docket{Cases: map[hindsight.ID]*hindsight.Case{}}}
}

func id(key string) hindsight.ID { return hindsight.ID{Consumer: "c", Key: key, Host: "h"} }

func (b *book) tell(told hindsight.Told) hindsight.Answer {
	return b.Take(pool.Time(1_000_000).Add(b.now), table.Options{}, []hindsight.Told{told})[0]
}

func (b *book) decided(key string, yes bool, at time.Duration, a gate.Ask) hindsight.Answer {
	b.now = max(b.now, at)
	return b.tell(hindsight.Told{ID: id(key), Decision: &hindsight.Decision{Ask: a, Yes: yes, Age: b.now - at, Word: b.Past.At("h", at)}})
}

func decide(t *testing.T, b *book, key string, yes bool, at time.Duration, a gate.Ask) bool {
	t.Helper()
	got := b.decided(key, yes, at, a)
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	return got.Judged
}

func end(b *book, key string, o hindsight.Outcome) error {
	return b.tell(hindsight.Told{ID: id(key), Outcome: o}).Err
}

// The worked example: four of five fit by the one word that both had; the fifth is a wrong no
// if it fitted after all, and prevented if it did not.
func TestTwoByTwo(t *testing.T) {
	b := newBook()
	b.Hear(0, word(4096, 1))
	for i := range 5 {
		decide(t, b, fmt.Sprint("k", i), true, time.Second, ask())
	}
	decide(t, b, "refused", false, 2*time.Minute, ask()) // by then nothing is heard: we say no as well
	b.Hear(3*time.Minute, word(8192, 2))
	decide(t, b, "room", false, 3*time.Minute, ask())
	c := b.Tally
	if c.Cells[1][1].Total() != 4 || c.Cells[1][0].Total() != 1 || c.Cells[0][0].Total() != 1 || c.Cells[0][1].Total() != 1 || c.Decisions() != 7 {
		t.Fatalf("%+v", c.Cells)
	}
	for key, o := range map[string]hindsight.Outcome{"k0": hindsight.Fitted, "k1": hindsight.OOM, "k2": hindsight.Failed, "k4": hindsight.Fitted} {
		if err := end(b, key, o); err != nil {
			t.Error(key, err)
		}
	}
	if c = b.Tally; c.Count(hindsight.WrongYes) != 2 || c.Count(hindsight.WrongNo) != 1 || c.Count(hindsight.Prevented) != 0 {
		t.Errorf("%+v", c.Cells)
	}
	no := c.Wrong[hindsight.WrongNo][0]
	if no.WhyNot != table.NoRoom.String() || no.Need != gate.GiB || no.SetAside != 4*gate.GiB || no.Sequence != 1 || no.Key != "k4" {
		t.Errorf("%+v", no)
	}
	// It had its memory and lost it later: then it was no wrong no.
	if err := end(b, "k4", hindsight.OOM); err != nil {
		t.Error(err)
	}
	if c = b.Tally; c.Count(hindsight.WrongNo) != 0 || c.Count(hindsight.Prevented) != 1 || len(c.Wrong[hindsight.WrongNo]) != 0 || len(c.Wrong[hindsight.Prevented]) != 1 {
		t.Errorf("%+v", c)
	}
	words := strings.Join(c.Conclusions(), "\n")
	for _, want := range []string{"4 outcomes are few", "wrong to say yes 2 times (66.7 % of 3", "1 of the other scheduler's failures", "refused 1 where Plimsoll had room"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not said:\n%s", want, words)
		}
	}
}

// Judged by what was known when they decided, not by what is known now.
func TestByTheWordOfThatTime(t *testing.T) {
	b := newBook()
	b.Hear(time.Second, word(0, 1))
	b.Hear(2*time.Second, word(8192, 2))
	if decide(t, b, "before", true, time.Second/2, ask()) {
		t.Error("judged by a word that had not been heard")
	}
	if decide(t, b, "before", true, time.Second/2, ask()) || b.Tally.Unjudged != 1 {
		t.Error("told again, and counted again")
	}
	if err := end(b, "before", hindsight.Fitted); err != hindsight.ErrUnjudged || b.Late != 0 {
		t.Error(err)
	}
	decide(t, b, "full", true, 1500*time.Millisecond, ask())
	decide(t, b, "free", true, 2500*time.Millisecond, ask())
	if c := b.Tally; c.Cells[1][0].Total() != 1 || c.Cells[1][1].Total() != 1 || c.Unjudged != 1 {
		t.Errorf("%+v", c)
	}
}

// T52, F10: the last good word expires, at the time of the decision.
func TestAnOldWordIsANo(t *testing.T) {
	b := newBook()
	b.Hear(0, word(8192, 1))
	decide(t, b, "young", true, 29*time.Second, ask())
	decide(t, b, "old", true, 30*time.Second, ask())
	end(b, "old", hindsight.Fitted)
	c := b.Tally
	if c.Cells[1][1].Total() != 1 || c.Cells[1][0].Total() != 1 || c.Wrong[hindsight.WrongNo][0].WhyNot != table.Silent.String() {
		t.Errorf("%+v", c)
	}
}

// T17: a word that cannot be true makes no host a candidate, in hindsight either.
func TestAWordThatCannotBeTrueIsANo(t *testing.T) {
	b := newBook()
	v := word(8192, 1)
	v.Free = -gate.MiB
	b.Hear(0, v)
	decide(t, b, "k", true, 0, ask())
	other := ask()
	other.Labels = []gate.Label{{Name: "zone", Value: "b"}}
	b.Hear(time.Second, word(8192, 2))
	decide(t, b, "elsewhere", true, time.Second, other)
	if c := b.Tally; c.Cells[1][0].Total() != 2 {
		t.Errorf("%+v", c)
	}
}

func TestWhatIsRefused(t *testing.T) {
	b := newBook()
	b.Hear(0, word(8192, 1))
	decide(t, b, "k", true, 0, ask())
	decide(t, b, "k", true, time.Second, ask()) // the same again changes nothing
	if c := b.Tally; c.Decisions() != 1 {
		t.Errorf("%+v", c)
	}
	if got := b.decided("k", false, time.Second, ask()); got.Err != hindsight.ErrTwice {
		t.Error(got.Err)
	}
	decide(t, b, "no", false, 0, ask())
	for key, want := range map[string]error{"no": hindsight.ErrNoYes, "never": hindsight.ErrNever, "k": nil} {
		if err := end(b, key, hindsight.Failed); err != want {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := end(b, "k", hindsight.Failed); err != nil {
		t.Errorf("told twice: %v", err)
	}
	if err := end(b, "k", hindsight.Fitted); err != hindsight.ErrChanged {
		t.Error(err)
	}
	if got := b.Late; got != 1 {
		t.Errorf("%d late", got)
	}
}

// However much is told, what is kept is bounded, and the counters stay.
func TestBounds(t *testing.T) {
	b := newBook()
	for i := range 10 * hindsight.Words {
		b.Hear(time.Duration(i)*10*time.Millisecond, word(8192, int64(i)))
	}
	const most, each = 2 * hindsight.Decisions, 256
	for i := 0; i < most; i += each {
		var told []hindsight.Told
		for j := i; j < i+each; j++ {
			told = append(told, hindsight.Told{ID: id(fmt.Sprint(j)), Outcome: hindsight.Failed, Decision: &hindsight.Decision{
				Ask: ask(), Yes: true, Word: b.Past.At("h", 7*time.Second),
			}})
		}
		b.Take(pool.Time(i+1), table.Options{}, told)
		b.Trim()
	}
	c := b.Tally
	if c.Decisions() != most || len(c.Wrong[hindsight.WrongYes]) != hindsight.Examples {
		t.Errorf("%d decisions, %d examples", c.Decisions(), len(c.Wrong[hindsight.WrongYes]))
	}
	if err := end(b, "0", hindsight.Failed); err != hindsight.ErrNever {
		t.Errorf("the first is still known: %v", err)
	}
	if c.Wrong[hindsight.WrongYes][0].At < c.Wrong[hindsight.WrongYes][1].At {
		t.Error("the newest does not come first")
	}
}
