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
// Everything is bounded: Words of each host, Decisions in all, Examples of each kind; counters
// stay. A Book reads no clock; it has one owner and is not safe for concurrent use.
package hindsight

import (
	"errors"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/table"
)

// The bounds.
const (
	Words     = 32      // of one host; a new one each Spacing at most
	Decisions = 8 << 10 // whose outcome may still be told
	Examples  = 20      // of each kind of wrong answer
	Spacing   = 250 * time.Millisecond
	SetAside  = 60 * time.Second // how long a yes of theirs counts as promised: boot_within

	mostPromised = 1 << 10 // their yeses at one host within SetAside that are counted
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

// ID names a decision.
type ID struct{ Consumer, Key, Host string }

// Decision is what another scheduler decided.
type Decision struct {
	ID    ID
	Class string
	Ask   gate.Ask
	Yes   bool
	At    time.Duration // when they decided, by the replica's clock
}

// Judged is a decision with what we would have said, and by what.
type Judged struct {
	Decision
	We       bool
	WhyNot   table.Reason
	Outcome  Outcome
	Need     gate.Bytes
	SetAside gate.Bytes
	Word     table.Verdict
	Heard    time.Duration // when that word was
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

// word is a host's, with when it was heard.
type word struct {
	v     table.Verdict
	heard time.Duration
}

// Book is what one replica was told.
type Book struct {
	Options table.Options

	words    map[string][]word // host -> its latest words, the oldest first
	byID     map[ID]*Judged
	order    []ID                 // of byID, the oldest first
	promised map[string][]*Judged // host -> their yeses there within SetAside, by time
	cells    [2][2]Cell           // they, we; 0 is no
	wrong    map[Kind][]*Judged   // the newest last
	unjudged int64
	late     int64
}

// Kind is a kind of answer that somebody should look at.
type Kind string

// The kinds.
const (
	WrongYes  Kind = "wrong_yes" // ours
	WrongNo   Kind = "wrong_no"  // ours
	Prevented Kind = "prevented" // theirs, which ours would not have been
)

// New returns a book that has heard nothing.
func New(o table.Options) *Book {
	o.Buckets = 2 // it looks at one host at a time
	return &Book{
		Options: o, words: map[string][]word{}, byID: map[ID]*Judged{},
		promised: map[string][]*Judged{}, wrong: map[Kind][]*Judged{},
	}
}

// Hear takes a host's word in. Of those within Spacing the first and the newest are kept, so
// that a chatty host does not drive out what was known a moment ago.
func (b *Book) Hear(now time.Duration, v table.Verdict) {
	all := b.words[v.Host]
	if n := len(all); n > 1 && now-all[n-2].heard < Spacing {
		all = all[:n-1]
	} else if n == Words {
		all = slices.Delete(all, 0, 1)
	}
	b.words[v.Host] = append(all, word{v, now})
}

// Forget drops a host that was buried.
func (b *Book) Forget(host string) {
	delete(b.words, host)
	delete(b.promised, host)
}

// What a decision or an outcome is refused for.
var (
	ErrTwice   = errors.New("this key and host were decided otherwise before; a key names one decision for one host")
	ErrNoYes   = errors.New("an outcome is of a yes, and this was a no")
	ErrNever   = errors.New("no decision of this key and host is known: it was never told here, or is too long ago")
	ErrChanged = errors.New("another outcome was told before")
)

// Decide judges a decision; judged is false where nothing had been heard of the host by then,
// which is counted. One that was told before stays as it was.
func (b *Book) Decide(d Decision) (judged bool, err error) {
	if old := b.byID[d.ID]; old != nil {
		if old.Yes != d.Yes || old.Ask.Memory != d.Ask.Memory || old.Class != d.Class {
			return false, ErrTwice
		}
		return true, nil
	}
	w, ok := b.wordAt(d.ID.Host, d.At)
	if !ok {
		b.unjudged++
		return false, nil
	}
	j := &Judged{Decision: d, Word: w.v, Heard: w.heard, Need: gate.Need(d.Ask, w.v.Mode), SetAside: b.setAside(d)}
	b.judge(j)
	b.keep(j)
	return true, nil
}

// wordAt is the newest word that had been heard at a time.
func (b *Book) wordAt(host string, at time.Duration) (word, bool) {
	all := b.words[host]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].heard <= at {
			return all[i], true
		}
	}
	return word{}, false
}

// setAside is what their earlier yeses count for that are not over.
func (b *Book) setAside(d Decision) (sum gate.Bytes) {
	live := b.promised[d.ID.Host][:0]
	for _, j := range b.promised[d.ID.Host] {
		if j.At > d.At-SetAside {
			live = append(live, j)
		}
		if j.At > d.At-SetAside && j.At <= d.At && j.Outcome != Failed && j.Outcome != OOM {
			sum = sum.Add(j.Need)
		}
	}
	b.promised[d.ID.Host] = live
	return sum
}

// judge asks a table that knows this one host, by this one word.
func (b *Book) judge(j *Judged) {
	v := j.Word
	v.Admittable = v.Admittable.Sub(j.SetAside).Positive()
	t := table.New(b.Options)
	t.Register(table.Registration{Host: v.Host, Mode: v.Mode, MaxAsk: v.MaxAsk, Labels: v.Labels, Limits: v.Limits})
	t.Observe(&v, j.Heard) // a word that cannot be true makes it no candidate
	y := t.Explain(j.At, &j.Ask, &table.PickOptions{Require: v.Host}, 0)
	j.We = y.Counts[table.Candidate] > 0
	for r, n := range y.Counts {
		if n > 0 {
			j.WhyNot = table.Reason(r)
		}
	}
}

func (b *Book) keep(j *Judged) {
	if len(b.order) >= Decisions {
		delete(b.byID, b.order[0])
		b.order = b.order[1:]
	}
	b.byID[j.ID], b.order = j, append(b.order, j.ID)
	b.cell(j)[j.Outcome]++
	if j.Yes {
		list := append(b.promised[j.ID.Host], j)
		b.promised[j.ID.Host] = list[max(len(list)-mostPromised, 0):]
	}
}

func (b *Book) cell(j *Judged) *Cell { return &b.cells[index(j.Yes)][index(j.We)] }

func index(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// End says what came of a decision.
func (b *Book) End(id ID, o Outcome) error {
	j := b.byID[id]
	switch {
	case j == nil:
		b.late++
		return ErrNever
	case !j.Yes:
		return ErrNoYes
	case j.Outcome == o:
		return nil
	case j.Outcome == Fitted && o == OOM: // it had its memory, and lost it later
	case j.Outcome != Unknown:
		return ErrChanged
	}
	c := b.cell(j)
	c[j.Outcome]--
	c[o]++
	j.Outcome = o
	b.note(j)
	return nil
}

// note keeps what somebody should look at.
func (b *Book) note(j *Judged) {
	for kind, list := range b.wrong { // an earlier outcome may have put it elsewhere
		b.wrong[kind] = slices.DeleteFunc(list, func(k *Judged) bool { return k == j })
	}
	var kind Kind
	switch bad := j.Outcome == Failed || j.Outcome == OOM; {
	case bad && j.We:
		kind = WrongYes
	case bad:
		kind = Prevented
	case !j.We:
		kind = WrongNo
	default:
		return
	}
	list := append(b.wrong[kind], j)
	b.wrong[kind] = list[max(len(list)-Examples, 0):]
}

// Comparison is the whole of it.
type Comparison struct {
	Cells          [2][2]Cell // they, we; 0 is no
	Unjudged, Late int64
	Wrong          map[Kind][]Judged // the newest first
}

// Compare returns a copy that stays valid.
func (b *Book) Compare() Comparison {
	c := Comparison{Cells: b.cells, Unjudged: b.unjudged, Late: b.late, Wrong: map[Kind][]Judged{}}
	for kind, list := range b.wrong {
		for _, j := range slices.Backward(list) {
			c.Wrong[kind] = append(c.Wrong[kind], *j)
		}
	}
	return c
}

// Count is how many answers of a kind there were.
func (c Comparison) Count(k Kind) int64 {
	switch yes := c.Cells[1]; k {
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
func (c Comparison) Decisions() (n int64) {
	for _, row := range c.Cells {
		n += row[0].Total() + row[1].Total()
	}
	return n
}
