package regimes

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/backoff"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/played"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/table"
)

// waiter is a create that is asked for, again where it was refused.
type waiter struct {
	of       int // of the creates
	at       time.Duration
	attempt  int64
	refused  time.Duration // when it was, first
	patience *backoff.Backoff
	turn     time.Duration // that its receipt has, once it was refused
}

// hear lets everybody ask who does before an instant, in the order of time.
func (f *fleet) hear(before time.Duration) error {
	for {
		w := f.nextAsker(before)
		if w == nil {
			return nil
		}
		f.now = w.at
		if err := f.attempt(w); err != nil {
			return fmt.Errorf("create %d, attempt %d: %w", w.of, w.attempt, err)
		}
	}
}

func (f *fleet) nextAsker(before time.Duration) *waiter {
	fresh := f.next < len(f.creates) && f.creates[f.next].at < before
	again := f.line.Len() > 0 && f.line.Next() < before
	switch {
	case fresh && (!again || f.creates[f.next].at <= f.line.Next()):
		w := &waiter{of: f.next, at: f.creates[f.next].at}
		f.next++
		f.seen.asked++
		return w
	case again:
		_, w := f.line.Take()
		return w
	}
	return nil
}

// why is the reason of a refusal.
type why int

const (
	noRoom why = iota
	pressed
	startsFull
	overQuota
	reasons
)

// attempt is one try of a create.
func (f *fleet) attempt(w *waiter) error {
	w.attempt++
	c := &f.creates[w.of]
	ask := f.asks.ask(c)
	if f.atQuota(c.tenant) {
		if f.hasRoom(&ask, c) {
			f.seen.quotaOnly++
		}
		f.refuse(w, overQuota)
		return nil
	}
	m, reason, err := f.place(w, &ask)
	switch {
	case err != nil:
		return err
	case m == nil:
		if w.attempt == 1 && f.wouldHaveHeld(c) {
			f.seen.wrong++
		}
		f.refuse(w, reason)
		return nil
	}
	f.begins[w.of] = f.second + 1
	m.future.add(&c.life, f.second+1, 0, +1)
	f.lives[c.tenant]++
	if w.attempt > 1 {
		f.seen.waited = append(f.seen.waited, f.now-w.refused)
	}
	return nil
}

// atQuota asks the pool's rule, of a pool without a cap.
func (f *fleet) atQuota(tenant int) bool {
	if f.quota == 0 {
		return false
	}
	s := pool.Standing{Cap: pool.Unlimited, Left: 1, QuotaLimit: f.quota, QuotaUse: f.lives[tenant]}
	return pool.Decide(s, pool.Refuse, false) == pool.OverQuota
}

// place asks the emptiest host that takes it by the table, and the next where that denies.
func (f *fleet) place(w *waiter, ask *gate.Ask) (*machine, why, error) {
	c := &f.creates[w.of]
	options := table.PickOptions{Cohort: c.cohort}
	for {
		options.Rand = f.rand.Uint64()
		choice, ok := f.table.Pick(f.now, ask, &options)
		if !ok {
			reason, err := f.reason(ask, options.Exclude)
			return nil, reason, err
		}
		m := f.byName[choice.Host]
		if f.regime.oracle && !m.future.holds(&c.life, f.second+1, m.line) {
			options.Exclude = append(options.Exclude, m.name)
			continue
		}
		denial, err := f.admit(m, w, ask, choice.Ref)
		switch {
		case err != nil:
			return nil, 0, err
		case denial == "":
			return m, 0, nil
		case denial != host.StartsFull:
			return nil, 0, fmt.Errorf("%s has room for %s by its own word, and denies it: %s", m.name, ask.NeedOn(f.regime.mode), denial)
		}
		options.Exclude = append(options.Exclude, m.name)
	}
}

// admit asks one host, and looks whether it admits no more than it had.
func (f *fleet) admit(m *machine, w *waiter, ask *gate.Ask, ref table.Ref) (host.Denial, error) {
	c := &f.creates[w.of]
	m.Now = f.now
	m.Step(f.now, host.Tick{})
	fits := gate.Fits(m.Admittable(), ask.NeedOn(f.regime.mode))
	charge := f.table.Charge(ref, ask, c.cohort)
	denial, err := m.Admit(played.Sandbox{ID: c.id, Epoch: w.attempt, Of: w.of, Life: c.life}, *ask)
	if err == nil {
		err = f.tell(m)
	}
	if denial == "" {
		f.table.Place(charge, f.now)
		if !fits && f.regime.hosts {
			f.seen.overAdmitted++
		}
	}
	f.table.Uncharge(charge)
	return denial, err
}

// reason says why nobody took it. That some host had room by its own word must not be.
func (f *fleet) reason(ask *gate.Ask, denied []string) (why, error) {
	reason := noRoom
	for _, m := range f.hosts {
		switch {
		case f.regime.oracle:
		case slices.Contains(denied, m.name):
			return startsFull, nil
		case gate.Fits(m.Admittable(), ask.NeedOn(f.regime.mode)):
			f.seen.againstWord++
		case m.Intake() == host.IntakePressure:
			reason = pressed
		}
	}
	return reason, nil
}

// hasRoom says whether some host would take it now.
func (f *fleet) hasRoom(ask *gate.Ask, c *create) bool {
	if f.regime.oracle {
		return f.wouldHaveHeld(c)
	}
	return !f.regime.hosts || slices.ContainsFunc(f.hosts, func(m *machine) bool { return gate.Fits(m.Admittable(), ask.NeedOn(f.regime.mode)) })
}

// wouldHaveHeld says whether some host would have held it over its whole life, beside what runs
// there, within its memory less the headroom.
func (f *fleet) wouldHaveHeld(c *create) bool {
	return slices.ContainsFunc(f.hosts, func(m *machine) bool { return m.future.holds(&c.life, f.second+1, m.line) })
}

// refuse sends a caller away until its appointment, or for good.
func (f *fleet) refuse(w *waiter, reason why) {
	if f.seen.refusals[reason]++; reason != overQuota {
		f.seen.refusedNow++
	}
	if w.attempt == 1 {
		f.seen.refused++
		w.refused = f.now
		w.patience = backoff.New(backoff.Policy{Deadline: f.patient}, wall(w.at))
	}
	delay, verdict := w.patience.Next(wall(f.now), f.no(w, reason), f.rand.Uint64())
	switch verdict {
	case backoff.Retry:
		w.at = f.now + delay
		f.line.Note(w.at, w)
	case backoff.Stop:
		f.seen.stopped++
	case backoff.OutOfPatience:
		f.seen.gaveUp++
	}
}

// no is what the caller hears: over its quota it is told not to come back, else when to.
func (f *fleet) no(w *waiter, reason why) backoff.Outcome {
	if reason == overQuota {
		return backoff.Outcome{Status: api.TenantOverQuota.Meaning().Status}
	}
	wait, turn := f.desk.Refused(f.now, w.turn-f.now, f.rand.Uint64())
	w.turn = f.now + turn
	return backoff.Outcome{Status: api.NoCapacity.Meaning().Status, RetryMS: hint.Millis(wait)}
}

// wall is an instant of the play as package backoff takes it.
func wall(at time.Duration) time.Time { return time.Unix(0, 0).Add(at) }
