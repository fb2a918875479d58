// Package learned is what a fleet keeps of the runs of each template: what every host saw, and
// the reserve that follows. It is one table of rules for every store: which word counts, what is
// added up, what is forgotten. What a reserve is, package learn decides.
//
//	hosts' words, one for each (host, incarnation, template)
//	     │ a later one takes the place of an earlier one in the sum; of a life that is over the
//	     ▼ sum keeps the last one, and the word is forgotten
//	all of a template, added up → learn.Template.Step → the estimate that replicas hand out
//
// So a step reads no more words than it is told: those that they replace.
//
// A class has at most MostOfClass templates, because a request may name any: a new one takes the
// place of the one with the fewest runs, of these the one that ran longest ago. What did not run
// for thirty days is forgotten.
//
// It does no I/O and reads no clock. A Book has one owner.
package learned

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/learn"
	"github.com/plimsoll-project/plimsoll/pool"
)

// What is kept, and how often it is looked at.
const (
	MostOfClass = 64
	Forgotten   = 30 * 24 * time.Hour // after the last run
	StepEvery   = time.Minute         // where nothing new was seen: reserves sink with time
)

// ID names a template of a class.
type ID struct{ Class, Template string }

func (a ID) compare(b ID) int {
	return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Template, b.Template))
}

// Word is all that one host saw of a template's runs in one life.
type Word struct {
	Host        string
	Incarnation int64
	host.Seen
}

// ID is the template that it is about.
func (w *Word) ID() ID { return ID{w.Class, w.Template} }

// Life is a host in one incarnation.
type Life struct {
	Host        string
	Incarnation int64
}

// Compare orders words in the order in which they are taken.
func (w Word) Compare(o Word) int { return w.Place().compare(o.Place()) }

// Place is what a later word has in common with the one that it replaces.
type Place struct {
	ID
	Life
}

func (p Place) compare(o Place) int {
	return cmp.Or(p.ID.compare(o.ID), cmp.Compare(p.Host, o.Host), cmp.Compare(p.Incarnation, o.Incarnation))
}

// Place is that of a word.
func (w *Word) Place() Place { return Place{w.ID(), Life{w.Host, w.Incarnation}} }

// Sum is what was seen of a template's runs by many.
type Sum struct {
	Size      gate.Bytes `json:"size"`      // the largest configured size
	Held      int64      `json:"held"`      // Σ resident over seconds, in MiB-seconds
	Committed int64      `json:"committed"` // Σ configured, likewise
	Runs      learn.Runs `json:"runs"`
}

// replace takes a word in, in place of an earlier one.
func (s *Sum) replace(was, is *Word) {
	s.Size = max(s.Size, is.Size)
	s.Held += is.Held - was.Held
	s.Committed += is.Committed - was.Committed
	s.Runs.Replace(&was.Runs, &is.Runs)
}

// Known is what replicas need to know of a template.
type Known struct {
	Class     string         `json:"class"`
	Template  string         `json:"template"`
	Size      gate.Bytes     `json:"size"`  // the largest configured size that ran
	Prior     gate.Bytes     `json:"prior"` // what the class's own rule reserves of it
	Mean      gate.Bytes     `json:"mean"`  // resident on average
	Held      int64          `json:"held"`  // Σ resident over seconds, in MiB-seconds
	Committed int64          `json:"committed"`
	Runs      int64          `json:"runs"` // that ended, ever
	Estimate  learn.Estimate `json:"estimate"`
	SteppedAt pool.Time      `json:"stepped_at"`
	RanAt     pool.Time      `json:"ran_at"` // when something new was seen of it
	BrokeAt   pool.Time      `json:"broke_at,omitempty"`
}

// ID is the template's name.
func (k *Known) ID() ID { return ID{k.Class, k.Template} }

// Template is all that is kept of one.
type Template struct {
	Known Known          `json:"-"`
	All   Sum            `json:"all"` // all words, those of lives that are over too
	State learn.Template `json:"state"`
}

// Rules are the classes in force: of each what its reserve is until it is learned.
type Rules map[string]gate.ReserveRule

// Book is the part of a store that one step needs, and what the step changed.
type Book struct {
	Templates map[ID]*Template
	words     map[Place]*Word

	Written map[ID]bool // templates to be written
	Dropped map[ID]bool // templates that are gone with all words of them, before others are written
	Said    []*Word     // words to be written
	Over    []*Word     // words that are gone
}

// NewBook returns one with nothing in it.
func NewBook() *Book {
	return &Book{
		Templates: map[ID]*Template{}, words: map[Place]*Word{},
		Written: map[ID]bool{}, Dropped: map[ID]bool{},
	}
}

// Settle forgets what the last step changed: it is written.
func (b *Book) Settle() {
	clear(b.Written)
	clear(b.Dropped)
	b.Said, b.Over = nil, nil
}

// Load adds a word that the store has.
func (b *Book) Load(w *Word) { b.words[w.Place()] = w }

// Due are the templates of which Take needs all that is kept: those that are told of, and those
// that a step is due of.
func (b *Book) Due(now pool.Time, told []Word) []ID {
	out := map[ID]bool{}
	for i := range told {
		out[told[i].ID()] = b.Templates[told[i].ID()] != nil
	}
	for id, t := range b.Templates {
		out[id] = out[id] || t.Known.due(now)
	}
	maps.DeleteFunc(out, func(_ ID, wanted bool) bool { return !wanted })
	return sorted(out)
}

// Take takes what hosts said, adds it up, and takes every template that is due to now. It needs
// what is known of every template, all that is kept of those that are due, and of the hosts that
// are told of every word that the store has. lives are the incarnations that those hosts are
// registered under.
func (b *Book) Take(now pool.Time, lives map[string]int64, rules Rules, told []Word) {
	b.endLives(lives)
	fresh := map[ID]bool{}
	for i := range told {
		w := &told[i]
		_, class := rules[w.Class]
		if life, registered := lives[w.Host]; !class || !registered || life != w.Incarnation {
			continue
		}
		was := b.words[w.Place()]
		if was != nil && was.Sequence >= w.Sequence {
			continue
		}
		if was == nil {
			was = &Word{}
		}
		t := b.template(w.ID())
		t.All.replace(was, w)
		t.Known.RanAt = now
		b.words[w.Place()] = w
		b.Said = append(b.Said, w)
		fresh[w.ID()] = true
	}
	b.Said = slices.DeleteFunc(b.Said, func(w *Word) bool { return b.words[w.Place()] != w })
	b.step(now, rules, fresh)
}

// endLives forgets the words of hosts that have another life now: the sums keep them.
func (b *Book) endLives(lives map[string]int64) {
	for _, at := range slices.SortedFunc(maps.Keys(b.words), Place.compare) {
		life, registered := lives[at.Host]
		if !registered || at.Incarnation == life {
			continue
		}
		b.Over = append(b.Over, b.words[at])
		delete(b.words, at)
	}
}

// template returns what is kept of one, making room for one that is new.
func (b *Book) template(id ID) *Template {
	if t := b.Templates[id]; t != nil {
		return t
	}
	var of []*Template
	for other, t := range b.Templates {
		if other.Class == id.Class {
			of = append(of, t)
		}
	}
	if len(of) >= MostOfClass {
		b.drop(slices.MinFunc(of, gives).Known.ID())
	}
	t := &Template{Known: Known{Class: id.Class, Template: id.Template}}
	b.Templates[id] = t
	return t
}

// gives says which of two gives place first.
func gives(a, b *Template) int {
	return cmp.Or(cmp.Compare(a.Known.Runs, b.Known.Runs), cmp.Compare(a.Known.RanAt, b.Known.RanAt), a.Known.ID().compare(b.Known.ID()))
}

func (b *Book) drop(id ID) {
	delete(b.Templates, id)
	delete(b.Written, id)
	b.Dropped[id] = true
	for at := range b.words {
		if at.ID == id {
			delete(b.words, at)
		}
	}
}

// Due are the templates that a step is due of, though nothing new was seen.
func Due(now pool.Time, known []Known) bool {
	return slices.ContainsFunc(known, func(k Known) bool { return k.due(now) })
}

func (k *Known) due(now pool.Time) bool { return now >= k.SteppedAt.Add(StepEvery) }

// step takes what is fresh, and what is due, to now, and forgets what has not run for long. The
// class of one may have left the configuration: it waits to be forgotten.
func (b *Book) step(now pool.Time, rules Rules, fresh map[ID]bool) {
	all := map[ID]bool{}
	for id := range b.Templates {
		all[id] = true
	}
	for _, id := range sorted(all) {
		t := b.Templates[id]
		rule, ok := rules[id.Class]
		switch {
		case now >= t.Known.RanAt.Add(Forgotten):
			b.drop(id)
		case ok && (fresh[id] || t.Known.due(now)):
			t.step(now, rule)
			b.Written[id] = true
		}
	}
}

// step takes one template to now.
func (t *Template) step(now pool.Time, rule gate.ReserveRule) {
	k := &t.Known
	rule.Learned = 0
	prior := gate.Reserve(gate.Ask{Memory: t.All.Size, Rule: rule}, gate.WorkingSet)
	was := k.Estimate
	k.Estimate = t.State.Step(time.Duration(now)*time.Millisecond, t.All.Size, prior, &t.All.Runs)
	k.Size, k.Prior, k.Held, k.Committed = t.All.Size, prior, t.All.Held, t.All.Committed
	k.Mean, k.Runs, k.SteppedAt = t.All.Runs.Mean(), t.All.Runs.N(), now
	if k.Estimate.Broken && !was.Broken {
		k.BrokeAt = now
	}
}

func sorted(ids map[ID]bool) []ID {
	out := make([]ID, 0, len(ids))
	for id := range ids {
		out = append(out, id)
	}
	slices.SortFunc(out, ID.compare)
	return out
}

// List returns what is known of each, by class and template.
func (b *Book) List() []Known {
	out := make([]Known, 0, len(b.Templates))
	for _, t := range b.Templates {
		out = append(out, t.Known)
	}
	slices.SortFunc(out, func(x, y Known) int { return x.ID().compare(y.ID()) })
	return out
}
