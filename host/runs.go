package host

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/learn"
)

// Seen is what a host saw of the runs of one template, in this life of it: all of it, so that
// whoever is told twice counts once, and the later word replaces the earlier one.
type Seen struct {
	Class     string     `json:"class"`
	Template  string     `json:"template"`
	Sequence  int64      `json:"sequence"`  // of the step that changed it last
	Size      gate.Bytes `json:"size"`      // the largest configured size among them
	Held      int64      `json:"held"`      // Σ resident over seconds, in MiB-seconds: bytes would not last a month
	Committed int64      `json:"committed"` // Σ configured, likewise
	Runs      learn.Runs `json:"runs"`
}

// Lore is what a host tells of the runs that it saw: the life in which, and the templates that
// changed.
type Lore struct {
	Incarnation int64
	Seen        []Seen // by sequence
	More        bool   // there are later ones
}

// What is kept of templates is bounded, because a request may name any. A class that has its
// number gives the place of the template with the fewest runs, of these the one that changed
// longest ago, to one that ends a run; what is not among them and still runs is not noted.
const (
	templatesOfClass = 32
	templatesInAll   = 256
	toldAtOnce       = 32
)

// When what samples add is written down. An end is at once.
const (
	writeSamples = 30 * time.Second
	peakStep     = 16 * gate.MiB // a peak that rose by less, and by less than an eighth, is not
	gapMost      = 60            // seconds that one sample may speak for
)

// templateID names a template.
type templateID struct{ class, template string }

// Noted is a Seen as it is on disk.
type Noted struct {
	Seen
	Alone bool           `json:"alone,omitempty"` // this host admits some of it by itself; see learnAlone
	Own   learn.Template `json:"own,omitzero"`
}

// seen is a Seen, and how and when it was written down last.
type seen struct {
	Seen
	alone    bool
	own      learn.Template
	estimate learn.Estimate // of own
	disk     *Noted         // nil: not yet
	written  Instant
}

// clone is a copy that later steps do not change.
func (s *Seen) clone() Seen {
	out := *s
	out.Runs = learn.Runs{}
	out.Runs.Merge(&s.Runs)
	return out
}

// watch notes what a sample saw of a sandbox: the peak of its run, and for how long it held
// how much.
func (h *Host) watch(s *Sandbox, resident gate.Bytes) {
	s.Peak = max(s.Peak, resident)
	if rise := s.Peak.Sub(s.peakWritten); rise >= max(peakStep, s.peakWritten/8) {
		h.recordSandbox(s)
	}
	n := int64(1)
	if s.sampled > 0 {
		n = int64((h.now - s.sampled) / time.Second)
	}
	if n == 0 {
		return
	}
	if s.sampled == 0 || n > gapMost {
		s.sampled = h.now
	} else {
		s.sampled += Instant(n) * time.Second
	}
	t := h.seenOf(&s.Ask, false)
	if t == nil {
		return
	}
	n = min(n, gapMost)
	t.Runs.Sampled(resident, n)
	t.Size, t.Sequence = max(t.Size, s.Ask.Memory), h.sequence
	t.Held += resident.CeilMiB() * n
	t.Committed += s.Ask.Memory.CeilMiB() * n
	if h.now-t.written >= writeSamples {
		h.recordSeen(t)
	}
}

// ran notes a run that ended or was cut off, if it was ever seen to hold anything.
func (h *Host) ran(s *Sandbox) {
	if s.Phase != Running || s.Peak == 0 {
		return
	}
	t := h.seenOf(&s.Ask, true)
	t.Runs.Ended(s.Peak, h.learnedUnder(&s.Ask))
	t.Size, t.Sequence = max(t.Size, s.Ask.Memory), h.sequence
	if Local(s.ID) {
		h.learnAlone(t, s.Ask.Rule)
	}
	h.recordSeen(t)
}

// learnAlone takes the learned reserve of what this host admits by itself to now. Replicas learn
// from all hosts, and know nothing of what was asked here.
func (h *Host) learnAlone(t *seen, rule gate.ReserveRule) {
	t.alone, rule.Learned = true, 0
	prior := gate.Reserve(gate.Ask{Memory: t.Size, Rule: rule}, gate.WorkingSet)
	t.estimate = t.own.Step(h.now, t.Size, prior, &t.Runs)
}

// Learned is what this host itself has learned of an ask's template, for what it admits by
// itself; zero for nothing, and for a size that never ran here.
func (h *Host) Learned(a *gate.Ask) gate.Bytes {
	t := h.seen[templateID{a.Class, a.Template}]
	if t == nil || !t.estimate.Learned || a.Memory > t.Size {
		return 0
	}
	return min(t.estimate.Reserve, a.Memory)
}

// Lesson is what a host has learned by itself of one template.
type Lesson struct {
	Class, Template string
	Size            gate.Bytes // the largest configured size that ran
	Mean            gate.Bytes // resident on average
	Held, Committed int64      // Σ over seconds, in MiB-seconds
	Runs            int64
	Estimate        learn.Estimate
}

// Lessons are those of all templates that it admitted by itself, by class and template.
func (h *Host) Lessons() (out []Lesson) {
	for _, t := range h.seen {
		if t.alone {
			out = append(out, Lesson{
				Class: t.Class, Template: t.Template, Size: t.Size, Mean: t.Runs.Mean(),
				Held: t.Held, Committed: t.Committed, Runs: t.Runs.N(), Estimate: t.estimate,
			})
		}
	}
	slices.SortFunc(out, func(a, b Lesson) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Template, b.Template))
	})
	return out
}

// learnedUnder is the learned reserve that a sandbox stood under; zero where it was another: only
// what was predicted can be kept or broken.
func (h *Host) learnedUnder(a *gate.Ask) gate.Bytes {
	if a.Stateful || a.Rule.Learned <= 0 || h.cfg.Mode == gate.Committed {
		return 0
	}
	return a.ReserveOn(h.cfg.Mode)
}

// seenOf returns what is noted of an ask's template. Where there is no room for a new one it is
// nil, unless somebody has to give place.
func (h *Host) seenOf(a *gate.Ask, displace bool) *seen {
	id := templateID{a.Class, a.Template}
	if t := h.seen[id]; t != nil {
		return t
	}
	for {
		worst, full := h.fewest(a.Class)
		if !full {
			break
		}
		if !displace {
			return nil
		}
		delete(h.seen, worst)
		h.record(seenRecord(&Noted{Seen: Seen{Class: worst.class, Template: worst.template}}, true))
	}
	t := &seen{Seen: Seen{Class: a.Class, Template: a.Template}, written: h.now}
	h.seen[id] = t
	return t
}

// fewest says whether there is no room for one more template of a class, and who would give
// place: of that class, if it has its number.
func (h *Host) fewest(class string) (worst templateID, full bool) {
	ofClass := 0
	for id := range h.seen {
		if id.class == class {
			ofClass++
		}
	}
	if ofClass < templatesOfClass && len(h.seen) < templatesInAll {
		return worst, false
	}
	var least *seen
	for id, t := range h.seen {
		if ofClass >= templatesOfClass && id.class != class {
			continue
		}
		if least == nil || t.before(least) {
			worst, least = id, t
		}
	}
	return worst, true
}

// before says which of two gives place first.
func (s *seen) before(t *seen) bool {
	return cmp.Or(cmp.Compare(s.Runs.N(), t.Runs.N()), cmp.Compare(s.Sequence, t.Sequence),
		cmp.Compare(s.Class, t.Class), cmp.Compare(s.Template, t.Template)) < 0
}

// Lore returns what changed after a step, a bounded part of it at once: who asks again with the
// sequence of the last has it all in the end.
func (h *Host) Lore(after int64) Lore {
	out := Lore{Incarnation: h.incarnation}
	var changed []*seen
	for _, t := range h.seen {
		if t.Sequence > after {
			changed = append(changed, t)
		}
	}
	slices.SortFunc(changed, func(s, t *seen) int {
		return cmp.Or(cmp.Compare(s.Sequence, t.Sequence), cmp.Compare(s.Class, t.Class), cmp.Compare(s.Template, t.Template))
	})
	// Those that one step changed are told together: the next question begins after them.
	n := min(toldAtOnce, len(changed))
	for n > 0 && n < len(changed) && changed[n].Sequence == changed[n-1].Sequence {
		n++
	}
	for _, t := range changed[:n] {
		out.Seen = append(out.Seen, t.clone())
	}
	out.More = n < len(changed)
	return out
}

func (h *Host) recordSeen(t *seen) {
	t.disk, t.written = &Noted{Seen: t.clone(), Alone: t.alone, Own: t.own}, h.now
	h.record(seenRecord(t.disk, false))
}

// seenRecord has both names for its id, in a way in which no two pairs are alike.
func seenRecord(s *Noted, gone bool) Record {
	r := Record{Kind: RecordSeen, ID: strconv.Itoa(len(s.Class)) + ":" + s.Class + s.Template, Gone: gone}
	if !gone {
		r.Seen = s
	}
	return r
}

// adoptSeen takes over what an earlier agent noted.
func (h *Host) adoptSeen(r Record) {
	if r.Seen == nil {
		return
	}
	if _, full := h.fewest(r.Seen.Class); full {
		return // written by an agent that kept more
	}
	t := &seen{Seen: r.Seen.clone(), own: r.Seen.Own, disk: r.Seen, written: h.now}
	if r.Seen.Alone {
		h.learnAlone(t, gate.ReserveRule{})
	}
	h.seen[templateID{t.Class, t.Template}] = t
}
