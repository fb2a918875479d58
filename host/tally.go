package host

import (
	"cmp"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Tally is what a host has counted in this life of its agent, in which it is in one mode: what
// hosts of one mode are compared by with those of the other, over the same time.
type Tally struct {
	For        time.Duration // how long this life has lasted
	Admitted   int64         // asks that were promised memory, each once
	Refused    []Refused
	Shut       time.Duration // that the valve was shut for
	Lost       int64         // how often the bet was lost
	Evicted    int64         // sandboxes that had to go because of that
	WouldEvict int64         // and that would have had to: in a dry run
	Killed     int64         // by the kernel, for want of the host's memory

	// What the other mode would do, of asks that came to this host: those for which there was
	// no room, and for which it would have had some; and those that it would have had none for.
	WouldAdmit, WouldRefuse int64
	Weighed                 time.Duration // that these are averages over
	Mean                    Load
}

// Refused counts a no.
type Refused struct {
	Denial Denial
	N      int64
}

// Load is what is on a host, on average.
type Load struct {
	SandboxesMilli int64      // in thousandths
	Promised       gate.Bytes // charged, and reserved
	Resident       gate.Bytes
	Committed      gate.Bytes
	Admittable     gate.Bytes
	WouldOffer     gate.Bytes
}

// tally is the same as it is counted.
type tally struct {
	lived      time.Duration
	admitted   int64
	refused    map[Denial]int64 // denial -> how often
	shut       time.Duration
	lost       int64
	evicted    int64
	wouldEvict int64
	killed     int64

	wouldAdmit, wouldRefuse int64

	weighed time.Duration // lived at the last weighing, from which on the next one counts
	since   time.Duration // lived at the first one
	begun   bool
	sum     [weights]int64 // Σ amount × ms; amounts in MiB, so that centuries of a PiB fit
}

// What is weighed.
const (
	sandboxesWeight = iota
	promisedWeight
	residentWeight
	committedWeight
	admittableWeight
	wouldOfferWeight
	weights
)

// tallyTime notes that time has passed in which nothing changed.
func (h *Host) tallyTime(passed time.Duration) {
	if h.now == 0 {
		return // the clock of a host that was made just now begins somewhere
	}
	h.tally.lived += passed
	if h.valve.Shut() != "" {
		h.tally.shut += passed
	}
}

// weigh adds what is on the host, for as long as it was since the last full sample.
func (h *Host) weigh() {
	t := &h.tally
	ms := (t.lived - t.weighed).Milliseconds()
	if !t.begun {
		t.begun, t.since, t.weighed, ms = true, t.lived, t.lived, 0
	}
	if ms <= 0 {
		return
	}
	t.weighed += time.Duration(ms) * time.Millisecond
	var committed gate.Bytes
	for _, s := range h.sandboxes {
		committed = committed.Add(s.Ask.Memory)
	}
	promised := h.unresident.Add(h.resident).Add(h.ledger.Total())
	t.sum[sandboxesWeight] += int64(len(h.sandboxes)) * ms
	for i, amount := range [weights]gate.Bytes{
		promisedWeight: promised, residentWeight: h.resident, committedWeight: committed,
		admittableWeight: h.Admittable(), wouldOfferWeight: h.wouldOffer(),
	} {
		t.sum[i] += amount.FloorMiB() * ms
	}
}

// otherAccount is the account as the other mode would have it, of what is on this host.
func (h *Host) otherAccount(id string) gate.Account {
	a := gate.Account{
		Free: h.meter.free, Headroom: h.meter.headroom,
		Unresident: h.other, Reserved: h.ledger.Other(),
	}
	if h.standing.ID != id {
		a.Reserved = a.Reserved.Add(min(gate.Need(h.standing.Ask, h.cfg.Mode.Other()), gate.Room(a).Positive()))
	}
	return a
}

// wouldOffer is what the other mode could still promise, behind the same valve.
func (h *Host) wouldOffer() gate.Bytes {
	if h.Intake() != IntakeOpen {
		return 0
	}
	return h.offers(h.otherAccount(anybody))
}

// compare notes where the other mode would have said otherwise. Everything but room is alike.
func (h *Host) compare(e *Reserve, denial Denial) {
	if denial != "" && denial != NoRoom {
		return
	}
	account := h.otherAccount(e.ID)
	if held, replaces := h.ledger.Open(e.ID); replaces {
		account.Reserved = account.Reserved.Sub(held.Other)
	}
	fits := gate.Fits(h.offers(account), gate.Need(e.Ask, h.cfg.Mode.Other()))
	switch {
	case denial == NoRoom && fits:
		h.tally.wouldAdmit++
	case denial == "" && !fits:
		h.tally.wouldRefuse++
	}
}

// tallied is what was counted, for people.
func (h *Host) tallied() Tally {
	t := &h.tally
	out := Tally{
		For: t.lived, Admitted: t.admitted, Shut: t.shut, Lost: t.lost, Evicted: t.evicted, WouldEvict: t.wouldEvict, Killed: t.killed,
		WouldAdmit: t.wouldAdmit, WouldRefuse: t.wouldRefuse, Weighed: t.weighed - t.since,
	}
	for d, n := range t.refused {
		out.Refused = append(out.Refused, Refused{d, n})
	}
	slices.SortFunc(out.Refused, func(a, b Refused) int { return cmp.Compare(a.Denial, b.Denial) })
	if ms := out.Weighed.Milliseconds(); ms > 0 {
		mean := func(i int) gate.Bytes { return gate.FromMiB(t.sum[i] / ms) }
		out.Mean = Load{
			SandboxesMilli: t.sum[sandboxesWeight] * 1000 / ms, Promised: mean(promisedWeight), Resident: mean(residentWeight),
			Committed: mean(committedWeight), Admittable: mean(admittableWeight), WouldOffer: mean(wouldOfferWeight),
		}
	}
	return out
}
