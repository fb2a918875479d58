// Package hindsight judges what another scheduler decided by what was known of the host at that
// time, and keeps the table of two by two: they yes or no, we yes or no, and what came of it.
//
// It decides nothing that anybody waits for, and reserves nothing. The judgement is package
// table's own, over the newest word that had been heard of the host when the other scheduler
// decided. From its admittable are taken their earlier yeses there within SetAside: ours would
// have been reservations, which theirs are not.
//
// Worked: a host said 4,096 MiB admittable. They place five of 4 GiB there within a second, each
// with a need of 1,024 MiB: we say yes to four and no to the fifth. If the fifth then fails, it
// was prevented; if it fits, that was a wrong no of ours.
//
// Past remembers the words, in a replica's memory. What was judged by them is a Case, and a store
// keeps it beside the Tally of all replicas; Docket is the one step that both take in a
// transaction. Everything is bounded: Words of each host, Decisions in all, Examples of each
// kind; counters stay. Nothing here reads a clock, and nothing is safe for concurrent use.
package hindsight

import (
	"errors"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// The bounds.
const (
	Words     = 32      // of one host; a new one each Spacing at most
	Decisions = 8 << 10 // whose outcome may still be told
	Examples  = 20      // of each kind of wrong answer
	Spacing   = 250 * time.Millisecond
	SetAside  = 60 * time.Second // how long a yes of theirs counts as promised: boot_within
)

// Outcome is what came of a yes.
type Outcome uint8

// The outcomes.
const (
	Unknown Outcome = iota
	Fitted
	Failed
	OOM
	outcomes
)

// bad says that it was one to prevent.
func (o Outcome) bad() bool { return o == Failed || o == OOM }

// ID names a decision.
type ID struct {
	Consumer string `json:"consumer"`
	Key      string `json:"key"`
	Host     string `json:"host"`
}

// Word is what had been heard of a host when a decision was made, and how old it was then.
type Word struct {
	Verdict table.Verdict
	Age     time.Duration
}

// Told is a decision of another scheduler, or what came of one, or both.
type Told struct {
	ID       ID
	Decision *Decision // nil: it was told before
	Outcome  Outcome
}

// Decision is what another scheduler decided.
type Decision struct {
	Class string
	Ask   gate.Ask
	Yes   bool
	Age   time.Duration // since they decided
	Word  *Word         // nil: nothing had been heard of the host by then
}

// Case is a decision with what we would have said, and by what.
type Case struct {
	ID
	Number      int64         `json:"number"` // in the order in which they were told
	Class       string        `json:"class,omitempty"`
	Memory      gate.Bytes    `json:"memory"`
	At          pool.Time     `json:"at"`                 // when they decided, by the store's clock
	Unjudged    bool          `json:"unjudged,omitempty"` // nothing had been heard of its host by then
	Yes         bool          `json:"yes"`
	We          bool          `json:"we"`
	WhyNot      string        `json:"why_not,omitempty"`
	Outcome     Outcome       `json:"outcome"`
	Need        gate.Bytes    `json:"need"`
	SetAside    gate.Bytes    `json:"set_aside"`
	Admittable  gate.Bytes    `json:"admittable"`
	Intake      table.Intake  `json:"intake"`
	HeardBefore time.Duration `json:"heard_before"`
	Incarnation int64         `json:"incarnation"` // of the word
	Sequence    int64         `json:"sequence"`
}

// counts says that the memory of a yes was promised at a time, as far as anybody knows.
func (c *Case) counts(at pool.Time) bool {
	return !c.Outcome.bad() && c.At > at.Add(-SetAside) && c.At <= at
}

// Cell counts the decisions of one of the four kinds, by what came of them.
type Cell [outcomes]int64

// Total is how many there are.
func (c Cell) Total() (n int64) {
	for _, k := range c {
		n += k
	}
	return n
}

// Bad is how many of them failed.
func (c Cell) Bad() int64 { return c[Failed] + c[OOM] }

// Kind is a kind of answer that somebody should look at.
type Kind string

// The kinds.
const (
	WrongYes  Kind = "wrong_yes" // ours
	WrongNo   Kind = "wrong_no"  // ours
	Prevented Kind = "prevented" // theirs, which ours would not have been
)

// Tally is the whole comparison.
type Tally struct {
	Since    pool.Time       `json:"since"` // of the first that was told; 0: none was
	Last     int64           `json:"last"`  // the highest number of a case
	Cells    [2][2]Cell      `json:"cells"` // they, we; 0 is no
	Unjudged int64           `json:"unjudged"`
	Late     int64           `json:"late"`
	Wrong    map[Kind][]Case `json:"wrong,omitempty"` // the newest first
}

// Count is how many answers of a kind there were.
func (t *Tally) Count(k Kind) int64 {
	switch yes := t.Cells[1]; k {
	case WrongYes:
		return yes[1].Bad()
	case WrongNo:
		return yes[0][Fitted]
	case Prevented:
		return yes[0].Bad()
	}
	return 0
}

// Decisions is how many were judged.
func (t *Tally) Decisions() (n int64) {
	for _, row := range t.Cells {
		n += row[0].Total() + row[1].Total()
	}
	return n
}

func (t *Tally) cell(c *Case) *Cell { return &t.Cells[index(c.Yes)][index(c.We)] }

func index(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// note keeps what somebody should look at.
func (t *Tally) note(c *Case) {
	for kind, list := range t.Wrong { // an earlier outcome may have put it elsewhere
		t.Wrong[kind] = slices.DeleteFunc(list, func(k Case) bool { return k.ID == c.ID })
	}
	var kind Kind
	switch {
	case c.Outcome.bad() && c.We:
		kind = WrongYes
	case c.Outcome.bad():
		kind = Prevented
	case !c.We:
		kind = WrongNo
	default:
		return
	}
	if t.Wrong == nil {
		t.Wrong = map[Kind][]Case{}
	}
	list := append([]Case{*c}, t.Wrong[kind]...)
	t.Wrong[kind] = list[:min(len(list), Examples)]
}

// What a decision or an outcome is refused for.
var (
	ErrTwice    = errors.New("this key and host were decided otherwise before; a key names one decision for one host")
	ErrNoYes    = errors.New("an outcome is of a yes, and this was a no")
	ErrUnjudged = errors.New("its decision could not be judged: nothing had been heard of the host by then")
	ErrNever    = errors.New("no decision of this key and host is known: it was never told, or is too long ago")
	ErrChanged  = errors.New("another outcome was told before")
)
