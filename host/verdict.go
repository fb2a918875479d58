package host

import (
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Intake says whether a host takes anything, and if not, why.
type Intake uint8

// The intakes. Only an operator cordons, drains and opens; only the valve sets pressure.
const (
	IntakeOpen Intake = iota
	IntakePressure
	IntakeCordoned
	IntakeDraining
)

var intakeNames = [...]string{"open", "pressure", "cordoned", "draining"}

// String returns the word of the API.
func (i Intake) String() string {
	if int(i) < len(intakeNames) {
		return intakeNames[i]
	}
	return "unknown"
}

// Verdict is a host's whole word about itself: absolute values under a stamp, of which
// the highest wins, so that gaps and reordering need no repair.
type Verdict struct {
	Host        string
	Incarnation int64
	Sequence    int64
	At          Instant // this host's clock when it spoke

	Intake        Intake
	Mode          gate.Mode
	Enforcement   Enforcement
	Ordered       Enforcement // by an operator, beside what it is configured for
	Bypass        bool        // boots need no ticket here for a while
	Admittable    gate.Bytes  // to others than the waiter that memory is set aside for
	WouldOffer    gate.Bytes  // likewise, were the host in its other mode; nobody is placed by it
	Standing      bool        // it is set aside for one
	Free          gate.Bytes  // less what is promised: what the score looks at
	Limit         gate.Bytes  // the smallest limit
	MaxAsk        gate.Bytes  // the largest need that could ever fit here
	CPUTotalMilli int64
	CPUFreeMilli  int64
	StreamRestore bool
	Labels        []gate.Label
	Dims          []gate.Dim // what is left of each declared dimension, likewise
	Limits        []gate.Dim // and how much there is of it
	Holding       Holding
}

// Newer says whether v is the later word: incarnation first, then sequence.
func (v Verdict) Newer(than Verdict) bool {
	if v.Incarnation != than.Incarnation {
		return v.Incarnation > than.Incarnation
	}
	return v.Sequence > than.Sequence
}

// NewsEvery is how soon after another a verdict that moved is sent, unasked.
const NewsEvery = 20 * time.Millisecond

// When else one is.
const (
	heartbeat = 10 * time.Second
	movedBy   = 64 * gate.MiB

	tellHolding = time.Second // after the last one, when only what it holds is new
)

// Intake is the host's intake as it stands: an operator's order before the valve.
func (h *Host) Intake() Intake {
	if h.intake != IntakeOpen {
		return h.intake
	}
	if h.valve.Shut() != "" {
		return IntakePressure
	}
	return IntakeOpen
}

// setIntake takes an operator's order over. Pressure is the valve's word alone.
func (h *Host) setIntake(e SetIntake) {
	switch {
	case e.Intake == IntakePressure || int(e.Intake) >= len(intakeNames):
		h.answer(Answer{Denial: Invalid, Detail: "intake " + e.Intake.String()})
	case e.Intake != h.intake:
		h.intake = e.Intake
		if e.Intake != IntakeOpen {
			h.standing = Standing{} // its waiter looks for another host
		}
		h.record(Record{Kind: RecordIntake, Intake: e.Intake, Gone: e.Intake == IntakeOpen})
	}
}

// Admittable is what the host can still promise now to whoever asks.
func (h *Host) Admittable() gate.Bytes {
	if h.Intake() != IntakeOpen {
		return 0
	}
	return h.offers(h.accountFor(anybody))
}

// Verdict is the host's word after the last step. Its slices are never written again.
func (h *Host) Verdict() Verdict {
	return Verdict{
		Host: h.cfg.ID, Incarnation: h.incarnation, Sequence: h.sequence, At: h.now,
		Intake: h.Intake(), Mode: h.cfg.Mode,
		Enforcement: h.Enforcement(), Ordered: h.ordered, Bypass: h.bypass.Until > 0,
		Admittable: h.Admittable(), WouldOffer: h.wouldOffer(), Standing: h.standing.ID != "",
		Free: gate.Room(h.account()).Positive(), Limit: h.limit(), MaxAsk: h.maxAsk(),
		CPUTotalMilli: h.cfg.CPUMilli, CPUFreeMilli: h.cfg.CPUMilli - h.cpu - h.ledger.CPUMilli(),
		StreamRestore: h.cfg.StreamRestore, Labels: h.cfg.Labels,
		Dims: h.dimsLeft(), Limits: h.cfg.Dims, Holding: h.Holding(),
	}
}

// limit is the size of the smallest limit; zero before the first sample.
func (h *Host) limit() gate.Bytes {
	if len(h.meter.limits) == 0 {
		return 0
	}
	size := h.meter.limits[0].Size
	for _, l := range h.meter.limits {
		size = min(size, l.Size)
	}
	return size
}

// maxAsk is the largest need that fits when nothing else is here.
func (h *Host) maxAsk() gate.Bytes { return h.limit().Sub(h.meter.headroom).Positive() }

func (h *Host) dimsLeft() []gate.Dim {
	if len(h.cfg.Dims) == 0 {
		return nil
	}
	if h.left != nil && !h.dimsMoved(h.left) {
		return h.left
	}
	left := make([]gate.Dim, len(h.cfg.Dims))
	for i, d := range h.cfg.Dims {
		left[i] = gate.Dim{Name: d.Name, N: h.dimOffered(i)}
	}
	h.left = left
	return left
}

// dimsMoved says whether what is left of a dimension differs from what was said.
func (h *Host) dimsMoved(said []gate.Dim) bool {
	for i := range said {
		if said[i].N != h.dimOffered(i) {
			return true
		}
	}
	return false
}

// dimsTurned says whether a dimension was exhausted, or is free again, since it was
// published: a replica that missed it would pick this host for nothing, or not at all.
func (h *Host) dimsTurned() bool {
	for i, d := range h.published.Dims {
		if (d.N <= 0) != (h.dimOffered(i) <= 0) {
			return true
		}
	}
	return false
}

// publish says whether replicas must hear now: the verdict moved enough and the last word
// is not too fresh, or it is time to be heard at all. Up counts as much as down: an
// unseen release refuses more creates than an unseen start.
func (h *Host) publish() {
	v := h.Verdict()
	h.fx.Answer.Verdict = v
	if v.Holding != h.held {
		h.held, h.untold = v.Holding, true // whoever was answered meanwhile knows some other
	}
	h.strayed = h.strayed || h.moved()
	age := h.now - h.publishedAt
	if age < heartbeat && (age < NewsEvery || !h.strayed) && (age < tellHolding || !h.untold) {
		return
	}
	h.published, h.publishedAt, h.untold, h.strayed = v, h.now, false, false
	h.fx.Publish = true
}

// moved says whether the verdict differs from the published one by 64 MiB, by an eighth
// (which whatever crosses zero does), in its intake, in whether a dimension is exhausted, in
// whether something is set aside, or in what it enforces.
func (h *Host) moved() bool {
	now, was := h.Admittable(), h.published.Admittable
	by := max(now.Sub(was), was.Sub(now))
	return h.Intake() != h.published.Intake || h.dimsTurned() || (h.standing.ID != "") != h.published.Standing ||
		h.Enforcement() != h.published.Enforcement || (h.bypass.Until > 0) != h.published.Bypass ||
		by >= movedBy ||
		(by > 0 && by >= was/8)
}
