package table

import (
	"cmp"
	"slices"
	"time"
)

// A host that does not do what it promises is no candidate for a while, however good its word
// sounds: a frozen one may go on heartbeating, and where no boot succeeds a host looks ever
// emptier. A denial is never held against a host.
//
//	candidate ─ 2 reserves in a row unanswered, or 8 boots in a row failed ─▶ quarantined
//	quarantined ─ 10 s, then 20, 40, … up to 5 min ─▶ on trial: one ask at a time
//	on trial ─ unanswered, or its boot failed ─▶ quarantined, for twice as long
//	         ─ answered; booted, where boots had failed ─▶ candidate
//
// The last pick before a refusal (PickOptions.Gross) asks a quarantined host all the same, one
// ask at a time, if it was heard since the sweep began: no fleet is refused for ever because
// its last hosts are out.

// Cause is why a host is quarantined.
type Cause uint8

// The causes.
const (
	Trusted   Cause = iota // it is not quarantined
	Mute                   // its reserves went unanswered
	BootsFail              // its boots failed
)

// String returns the word of the API and of metrics.
func (c Cause) String() string {
	return [...]string{"", "unanswered", "boots_failed"}[min(c, BootsFail)]
}

const (
	muteAfter       = 2 // reserves
	failsAfter      = 8 // boots: a few bad templates in a row say nothing of the host
	firstQuarantine = 10 * time.Second
	longQuarantine  = 5 * time.Minute
)

// record is what is held against one host.
type record struct {
	mute, fails int // in a row; fails while it is trusted
	cause       Cause
	times       uint          // quarantined in a row, without a success between
	until       time.Duration // of the quarantine; then it is on trial
	asked       bool          // the one ask of a trial is under way
	placed      bool          // and was promised: whether it boots is not known yet
}

// out says whether the host may not be asked, not even on trial.
func (k *record) out(now time.Duration) bool {
	return k.cause != Trusted && (k.asked || now < k.until)
}

func (k *record) quarantine(c Cause, now time.Duration) {
	*k = record{mute: k.mute, cause: c, times: k.times + 1, until: now + min(firstQuarantine<<min(k.times, 10), longQuarantine)}
}

// Unanswered says that a host was asked to reserve and did not answer in time.
func (t *Table) Unanswered(r Ref, now time.Duration) {
	t.hold(r, now, true, func(k *record) {
		switch {
		case k.cause == Trusted:
			if k.mute++; k.mute >= muteAfter {
				k.quarantine(Mute, t.now)
			}
		case k.asked:
			k.mute++
			k.quarantine(Mute, t.now)
		}
	})
}

// Answered says that a host answered such a question, whatever it said.
func (t *Table) Answered(r Ref, now time.Duration) {
	t.hold(r, now, false, func(k *record) {
		k.mute = 0
		switch {
		case k.cause != BootsFail:
			*k = record{fails: k.fails}
		case k.asked: // whether it boots is seen later; until then it gets no second one
			k.asked, k.placed, k.until = false, true, t.now+firstQuarantine
		}
	})
}

// BootFailed says that a sandbox was redeemed on a host, got its start, and never came up.
func (t *Table) BootFailed(r Ref, now time.Duration) {
	t.hold(r, now, true, func(k *record) {
		switch {
		case k.cause == Trusted:
			if k.fails++; k.fails >= failsAfter {
				k.quarantine(BootsFail, t.now)
			}
		case k.placed: // others that were promised before say nothing new
			k.quarantine(BootsFail, t.now)
		}
	})
}

// Booted says that a sandbox came up on a host.
func (t *Table) Booted(r Ref, now time.Duration) {
	t.hold(r, now, false, func(k *record) {
		if k.fails = 0; k.cause == BootsFail {
			*k = record{}
		}
	})
}

// Quarantined says why a host is no candidate, and until when it is not tried again.
func (t *Table) Quarantined(id string, now time.Duration) (Cause, time.Duration) {
	t.advance(now)
	if i, ok := t.byID[id]; ok {
		if k := t.records[i]; k != nil && k.out(t.now) {
			return k.cause, k.until
		}
	}
	return Trusted, 0
}

// UnansweredBy is how many reserves in a row a host has left unanswered. It is not 0 on trial
// either: until it answers, it gets one ask at a time.
func (t *Table) UnansweredBy(id string) int {
	if i, ok := t.byID[id]; ok && t.records[i] != nil {
		return t.records[i].mute
	}
	return 0
}

// hold changes what is held against a host; where nothing is and nothing will be, there is
// nothing to change.
func (t *Table) hold(r Ref, now time.Duration, begin bool, change func(*record)) {
	t.advance(now)
	if t.at(r) == nil || !begin && len(t.records) == 0 {
		return
	}
	k := t.records[r.index]
	if k == nil {
		if !begin {
			return
		}
		k = &record{}
		t.records[r.index] = k
	}
	change(k)
	if *k == (record{}) {
		delete(t.records, r.index)
	}
	t.restand(r.index)
}

// ask begins the one ask of a trial, if the host is on trial.
func (t *Table) ask(i int32) bool {
	k := t.records[i]
	if k == nil || k.cause == Trusted || k.asked {
		return false
	}
	k.asked, k.placed = true, false
	t.restand(i)
	return true
}

// unask ends it, if nobody has said what came of it.
func (t *Table) unask(i int32) {
	if k := t.records[i]; k != nil && k.asked {
		k.asked = false
		t.restand(i)
	}
}

// askable says whether a quarantined host may be asked before a refusal: nobody else does, and
// its word is new enough.
func (t *Table) askable(i int32, q *query) bool {
	k := t.records[i]
	return q.lenient && k != nil && !k.asked && t.rests[i].spokeAt >= q.opts.HeardSince
}

// restand gives a host the standing that its word and what is held against it make.
func (t *Table) restand(i int32) {
	h := &t.hosts[i]
	standing := t.rests[i].word
	if k := t.records[i]; standing == Candidate && k != nil && k.out(t.now) {
		standing = Quarantined
		t.await(i, k)
	}
	if standing != h.standing {
		t.counts[h.standing]--
		h.standing = standing
		t.counts[standing]++
		t.reindex(i)
	}
}

// await has a quarantine end in its time. One that is being asked ends otherwise.
func (t *Table) await(i int32, k *record) {
	if k.asked || slices.Contains(t.waiting, i) {
		return
	}
	t.waiting = append(t.waiting, i)
	t.wake = min(cmp.Or(t.wake, k.until), k.until)
}

// trials puts hosts on trial whose quarantine is over.
func (t *Table) trials() {
	if len(t.waiting) == 0 || t.now < t.wake {
		return
	}
	var next time.Duration
	left := t.waiting[:0]
	for _, i := range t.waiting {
		switch k := t.records[i]; {
		case k == nil || !k.out(t.now) || k.asked:
			t.restand(i)
		default:
			left = append(left, i)
			next = min(cmp.Or(next, k.until), k.until)
		}
	}
	t.waiting, t.wake = left, next
}
