package pool

import (
	"cmp"
	"time"
)

// This file is about slots that no host answers for (placement: none). They live by what
// is heard of them: their caller's heartbeat, or whoever can list what runs.

// What a pool without hosts takes when nobody says otherwise.
const (
	DefaultSlotTTL   = 10 * time.Minute
	DefaultTicketTTL = 10 * time.Minute
)

// Skew is by how much the clock of whoever mints may differ from that of whoever verifies.
const Skew = 30 * time.Second

// Admit turns a grant into an admission that only a ticket stands for.
func (r *Row) Admit(now Time, l *Limits) {
	r.State, r.Epoch, r.Audience = Admitted, r.Gen, l.Audience
	r.AdmittedAt, r.ReservedUntil, r.LiveUntil = now, now.Add(l.TicketTTL), now.Add(l.SlotTTL)
	r.RunningAt, r.Instance, r.HostlessAt, r.HostlessSince, r.StandAt = 0, "", 0, 0, ""
}

// live says whether the row holds a slot that lives by being heard of.
func (r *Row) live() bool { return r.Audience != "" && r.State.OnHost() }

// Hear lengthens the life of a slot without a host, and of its ticket while that is not
// redeemed. A slot whose life is over and that nobody took yet is kept: its generation is
// the same.
func (r *Row) Hear(now Time, epoch int64, l *Limits) bool {
	if !r.live() || r.Epoch != epoch {
		return false
	}
	r.LiveUntil = max(r.LiveUntil, now.Add(l.SlotTTL))
	if r.State == Admitted {
		r.ReservedUntil = max(r.ReservedUntil, now.Add(l.TicketTTL))
	}
	return true
}

// Hear takes a caller's heartbeat for a slot without a host.
func (k Clerk) Hear(id string, epoch int64) (Row, bool) {
	return k.change(id, func(r *Row) bool {
		l := k.lives(r)
		return r.Hear(k.books.Now(), epoch, &l)
	})
}

// lives are the limits that a slot without a host lives by; its pool may have left the
// configuration, or may be placed on hosts by now.
func (k Clerk) lives(r *Row) Limits {
	l, _ := k.books.Limits(r.Pool)
	l.fill()
	return l
}

// fill puts defaults in for what a pool that is placed on hosts does not say.
func (l *Limits) fill() {
	l.SlotTTL = cmp.Or(l.SlotTTL, DefaultSlotTTL)
	l.TicketTTL = cmp.Or(l.TicketTTL, DefaultTicketTTL)
}

// Redemption is a substrate's wish to boot what a ticket stands for.
type Redemption struct {
	ID       string
	Epoch    int64
	Audience string
	Expires  Time   // of the ticket
	Instance string // the substrate's own name for what it boots; its repetition is the same redemption
}

// RedeemVerdict is what became of a redemption.
type RedeemVerdict string

// The verdicts.
const (
	Redeemed         RedeemVerdict = "redeemed"
	RedeemExpired    RedeemVerdict = "expired"
	RedeemReplayed   RedeemVerdict = "replayed"
	RedeemReleased   RedeemVerdict = "released"
	RedeemSuperseded RedeemVerdict = "superseded"
	RedeemUnknown    RedeemVerdict = "unknown"
)

// Redeem closes a ticket without a host: what it admitted runs from now on.
func (k Clerk) Redeem(d Redemption) (RedeemVerdict, Row) {
	r := k.books.ByID(d.ID)
	if r == nil {
		return RedeemUnknown, Row{}
	}
	v := r.Redeemable(k.books.Now(), d)
	if v == Redeemed && r.State == Admitted {
		l := k.lives(r)
		r.State, r.RunningAt, r.Instance = Running, k.books.Now(), d.Instance
		r.Hear(k.books.Now(), d.Epoch, &l)
		k.books.Put(r)
	}
	return v, *r
}

// Redeemable says what would become of a redemption now.
func (r *Row) Redeemable(now Time, d Redemption) RedeemVerdict {
	switch {
	case r.Epoch > d.Epoch:
		return RedeemSuperseded
	case r.Epoch < d.Epoch || (r.live() && r.Audience != d.Audience):
		return RedeemUnknown
	case r.State == Running && r.live() && d.Instance != "" && r.Instance == d.Instance:
		return Redeemed
	case r.State == Running && r.live():
		return RedeemReplayed
	case r.State == Expired:
		return RedeemExpired
	case !r.live():
		return RedeemReleased
	case now > d.Expires.Add(Skew):
		return RedeemExpired
	}
	return Redeemed
}

// Ref is one placement of an admission.
type Ref struct {
	ID    string
	Epoch int64
}

// Seen takes the word of somebody who lists what runs, and says which of it has a slot. What
// was never redeemed here runs as well then: its substrate verifies by itself.
func (k Clerk) Seen(running []Ref) []bool {
	have := make([]bool, len(running))
	for i, ref := range running {
		have[i] = k.seen(ref.ID, ref.Epoch)
	}
	return have
}

func (k Clerk) seen(id string, epoch int64) bool {
	_, ok := k.change(id, func(r *Row) bool {
		l := k.lives(r)
		if !r.Hear(k.books.Now(), epoch, &l) {
			return false
		}
		if r.State == Admitted {
			r.State, r.RunningAt = Running, k.books.Now()
		}
		return true
	})
	return ok
}
