package hindsight

import (
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// Docket is what one step reads and writes. Whoever keeps cases gives it those that are told of,
// and of the hosts that are decided for the yeses within SetAside; more do no harm.
type Docket struct {
	Tally
	Cases   map[ID]*Case
	Changed map[ID]bool // by the last step: cases that are new, or other than they were

	promises map[string][]*Case // host -> the yeses there whose memory may count
}

// Answer is what became of one that was told.
type Answer struct {
	Judged bool  // there was a word to judge its decision by
	Err    error // why it was not taken
}

// Take takes what was told, in its order. The same again changes nothing.
func (d *Docket) Take(now pool.Time, o table.Options, told []Told) []Answer {
	if d.Since == 0 {
		d.Since = now
	}
	d.Changed, d.promises = map[ID]bool{}, map[string][]*Case{}
	for _, c := range d.Cases {
		d.promise(c)
	}
	o.Buckets = 2 // it looks at one host at a time
	out := make([]Answer, len(told))
	for i := range told {
		out[i] = d.take(now, o, &told[i])
	}
	return out
}

func (d *Docket) take(now pool.Time, o table.Options, t *Told) (a Answer) {
	if t.Decision != nil {
		if a = d.decide(now, o, t); a.Err != nil || !a.Judged {
			return a
		}
	}
	if t.Outcome != Unknown {
		a.Err = d.end(t.ID, t.Outcome)
	}
	return a
}

func (d *Docket) decide(now pool.Time, o table.Options, t *Told) Answer {
	if old := d.Cases[t.ID]; old != nil {
		if old.Yes != t.Decision.Yes || old.Memory != t.Decision.Ask.Memory || old.Class != t.Decision.Class {
			return Answer{Err: ErrTwice}
		}
		return Answer{Judged: !old.Unjudged}
	}
	c := &Case{ID: t.ID, Class: t.Decision.Class, Memory: t.Decision.Ask.Memory, At: now.Add(-t.Decision.Age), Yes: t.Decision.Yes}
	if c.Unjudged = t.Decision.Word == nil; c.Unjudged {
		d.Tally.Unjudged++
	} else {
		d.judge(c, o, t.Decision)
		d.cell(c)[Unknown]++
		d.promise(c)
	}
	d.Last++
	c.Number = d.Last
	d.Cases[t.ID], d.Changed[t.ID] = c, true
	return Answer{Judged: !c.Unjudged}
}

func (d *Docket) promise(c *Case) {
	if c.Yes && !c.Outcome.bad() {
		d.promises[c.Host] = append(d.promises[c.Host], c)
	}
}

// judge asks a table that knows this one host, by the one word.
func (d *Docket) judge(c *Case, o table.Options, q *Decision) {
	v := q.Word.Verdict
	c.Need, c.SetAside, c.Admittable, c.Intake = gate.Need(q.Ask, v.Mode), d.promised(c.Host, c.At), v.Admittable, v.Intake
	c.HeardBefore, c.Incarnation, c.Sequence = q.Word.Age, v.Incarnation, v.Sequence
	v.Admittable = v.Admittable.Sub(c.SetAside).Positive()
	t := table.New(o)
	t.Register(table.Registration{Host: v.Host, Mode: v.Mode, MaxAsk: v.MaxAsk, Labels: v.Labels, Limits: v.Limits})
	t.Observe(&v, 0) // a word that cannot be true makes it no candidate
	y := t.Explain(q.Word.Age, &q.Ask, &table.PickOptions{Require: v.Host}, 0)
	c.We = y.Counts[table.Candidate] > 0
	for r, n := range y.Counts {
		if n > 0 && !c.We {
			c.WhyNot = table.Reason(r).String()
		}
	}
}

// promised is what their earlier yeses at a host count for that are not over.
func (d *Docket) promised(host string, at pool.Time) (sum gate.Bytes) {
	for _, c := range d.promises[host] {
		if c.counts(at) {
			sum = sum.Add(c.Need)
		}
	}
	return sum
}

// end says what came of a decision.
func (d *Docket) end(id ID, o Outcome) error {
	c := d.Cases[id]
	switch {
	case c == nil:
		d.Late++
		return ErrNever
	case !c.Yes:
		return ErrNoYes
	case c.Unjudged:
		return ErrUnjudged
	case c.Outcome == o:
		return nil
	case c.Outcome == Fitted && o == OOM: // it had its memory, and lost it later
	case c.Outcome != Unknown:
		return ErrChanged
	}
	cell := d.cell(c)
	cell[c.Outcome]--
	cell[o]++
	c.Outcome = o
	d.Changed[id] = true
	d.note(c)
	return nil
}

// Forgotten is the highest number of a case that is no longer kept.
func (d *Docket) Forgotten() int64 { return d.Last - Decisions }

// Trim forgets what is too long ago, and is for who keeps all cases in one docket.
func (d *Docket) Trim() {
	for id, c := range d.Cases {
		if c.Number <= d.Forgotten() {
			delete(d.Cases, id)
		}
	}
}

// Written returns the changed cases in the order of their numbers.
func (d *Docket) Written() []*Case {
	var out []*Case
	for id := range d.Changed {
		out = append(out, d.Cases[id])
	}
	slices.SortFunc(out, func(a, b *Case) int { return int(a.Number - b.Number) })
	return out
}
