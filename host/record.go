package host

import (
	"cmp"
	"slices"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/ledger"
)

// RecordKind is what a record is about. An id has at most one record of each kind and,
// for ends, epoch; a later one replaces it.
type RecordKind string

// The kinds.
const (
	RecordReservation RecordKind = "reservation"
	RecordSandbox     RecordKind = "sandbox"
	RecordEnd         RecordKind = "end"
	RecordIntake      RecordKind = "intake"      // the operator's order; it has no id
	RecordEnforcement RecordKind = "enforcement" // likewise
	RecordBypass      RecordKind = "bypass"      // likewise
	RecordDeed        RecordKind = "deed"        // its epoch is its number
	RecordSeen        RecordKind = "seen"        // its id is class and template
	RecordKills       RecordKind = "kills"       // it has no id
)

// Record is what must survive the agent: a restarted one boots nothing twice, re-opens
// nothing, re-adopts what runs, and tells every end that nobody has written yet.
type Record struct {
	Kind  RecordKind `json:"kind"`
	ID    string     `json:"id"`
	Epoch int64      `json:"epoch"`
	Gone  bool       `json:"gone,omitempty"`

	State    ledger.State `json:"state,omitempty"` // of a reservation
	Need     gate.Bytes   `json:"need,omitempty"`
	Until    Instant      `json:"until,omitempty"`
	Reopened bool         `json:"reopened,omitempty"`
	Ask      gate.Ask     `json:"ask,omitzero"`

	Identity   Identity   `json:"identity,omitzero"` // of a sandbox, and of a reservation that no store knows
	Phase      Phase      `json:"phase,omitempty"`   // of a sandbox
	Process    Process    `json:"process,omitzero"`
	Redeemed   Instant    `json:"redeemed,omitempty"`
	Turn       int64      `json:"turn,omitempty"`
	Tracked    Instant    `json:"tracked,omitempty"`
	Stopping   bool       `json:"stopping,omitempty"`
	Superseded bool       `json:"superseded,omitempty"`
	Waiver     Waiver     `json:"waiver,omitempty"`
	Peak       gate.Bytes `json:"peak,omitempty"`
	Evicting   string     `json:"evicting,omitempty"`

	How      Outcome `json:"how,omitempty"` // of an end
	Reason   string  `json:"reason,omitempty"`
	Unbooted bool    `json:"unbooted,omitempty"`

	Intake      Intake      `json:"intake,omitempty"` // of an order
	Enforcement Enforcement `json:"enforcement,omitempty"`
	Bypass      Bypass      `json:"bypass,omitzero"`
	Deed        Deed        `json:"deed,omitzero"`
	Kills       Kills       `json:"kills,omitzero"`

	Seen *Noted `json:"seen,omitempty"` // of a template; nobody changes it any more
}

// Name is what a later record of the same thing has in common with this one.
type Name struct {
	Kind  RecordKind
	ID    string
	Epoch int64 // of ends and deeds only
}

// Name returns the record's name.
func (r Record) Name() Name {
	n := Name{Kind: r.Kind, ID: r.ID}
	if r.Kind == RecordEnd || r.Kind == RecordDeed {
		n.Epoch = r.Epoch
	}
	return n
}

// Expired says whether a record says nothing any more: a closed reservation that no
// frame can still want to open.
func (r Record) Expired(now Instant) bool {
	return r.Gone || (r.Kind == RecordReservation && r.State != ledger.Open && r.Until <= now)
}

func (h *Host) record(r Record) { h.fx.Records = append(h.fx.Records, r) }

func (h *Host) recordEntry(e ledger.Entry) { h.record(entryRecord(e)) }

func entryRecord(e ledger.Entry) Record {
	return Record{
		Kind: RecordReservation, ID: e.ID, Epoch: e.Gen, State: e.State,
		Need: e.Need, Until: e.Until, Reopened: e.Reopened, Ask: e.Ask, Identity: e.Whose,
	}
}

func (h *Host) recordSandbox(s *Sandbox) {
	s.peakWritten = s.Peak
	h.record(sandboxRecord(s))
}

func sandboxRecord(s *Sandbox) Record {
	return Record{
		Kind: RecordSandbox, ID: s.ID, Epoch: s.Epoch, Ask: s.Ask, Identity: s.Identity, Phase: s.Phase,
		Process: s.Process, Redeemed: s.Redeemed, Turn: s.Turn, Tracked: s.Tracked, Stopping: s.Stopping, Superseded: s.Superseded,
		Waiver: s.Waiver, Peak: s.peakWritten, Evicting: s.Evicting,
	}
}

func (h *Host) recordGone(s *Sandbox) {
	h.record(Record{Kind: RecordSandbox, ID: s.ID, Epoch: s.Epoch, Gone: true})
}

func endRecord(e End) Record {
	return Record{Kind: RecordEnd, ID: e.ID, Epoch: e.Epoch, How: e.How, Reason: e.Reason, Unbooted: e.Unbooted}
}

// Records returns everything that a restart needs, in a fixed order.
func (h *Host) Records() []Record {
	var out []Record
	h.ledger.Each(func(e ledger.Entry) { out = append(out, entryRecord(e)) })
	for _, s := range h.sandboxes {
		out = append(out, sandboxRecord(s))
	}
	for _, e := range h.ends {
		out = append(out, endRecord(e))
	}
	for _, t := range h.seen {
		if t.disk != nil {
			out = append(out, seenRecord(t.disk, false))
		}
	}
	out = append(out, h.orders()...)
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Epoch, b.Epoch))
	})
	return out
}

// orders are the records without an id, and the deeds.
func (h *Host) orders() (out []Record) {
	if h.intake != IntakeOpen {
		out = append(out, Record{Kind: RecordIntake, Intake: h.intake})
	}
	if h.ordered != Enforce {
		out = append(out, Record{Kind: RecordEnforcement, Enforcement: h.ordered})
	}
	if h.bypass.Until > 0 {
		out = append(out, Record{Kind: RecordBypass, Bypass: h.bypass})
	}
	if h.kills != (Kills{}) {
		out = append(out, Record{Kind: RecordKills, Kills: h.kills})
	}
	for _, d := range h.deeds {
		out = append(out, Record{Kind: RecordDeed, Epoch: d.N, Deed: d})
	}
	return out
}

// Restore returns the host that the records describe, under the same incarnation; a later
// record of the same name replaces an earlier one. The shell then says Done of every
// sandbox that is not there any more: one that had not been tracked lost its redeemer with
// the old agent. Until the first sample nothing is free, and every charge counts as not
// yet touched.
func Restore(cfg Config, incarnation int64, now Instant, records []Record) *Host {
	h := New(cfg, incarnation)
	h.now = now
	last := make(map[Name]Record, len(records)) // name -> what holds of it
	for _, r := range records {
		last[r.Name()] = r
	}
	for _, r := range last {
		h.adopt(r)
	}
	slices.SortFunc(h.line, func(a, b string) int {
		return cmp.Compare(h.sandboxes[a].Turn, h.sandboxes[b].Turn)
	})
	return h
}

// adopt takes one record over.
func (h *Host) adopt(r Record) {
	switch {
	case r.Expired(h.now):
	case r.Kind == RecordReservation:
		h.ledger.Restore(ledger.Entry{
			ID: r.ID, Gen: r.Epoch, State: r.State, Need: r.Need, Other: h.otherNeed(&r),
			Until: r.Until, Reopened: r.Reopened, Ask: r.Ask, Whose: r.Identity,
		})
	case r.Kind == RecordSandbox:
		h.adoptSandbox(r)
	case r.Kind == RecordEnd:
		h.ends[Ref{r.ID, r.Epoch}] = End{ID: r.ID, Epoch: r.Epoch, How: r.How, Reason: r.Reason, Unbooted: r.Unbooted}
	case r.Kind == RecordSeen:
		h.adoptSeen(r)
	case r.Kind == RecordIntake:
		h.intake = r.Intake
	case r.Kind == RecordEnforcement:
		h.ordered = r.Enforcement
	case r.Kind == RecordBypass:
		h.bypass = r.Bypass
	case r.Kind == RecordKills:
		h.adoptKills(r.Kills)
	case r.Kind == RecordDeed:
		// What was done before there was a registry has been told to nobody under no incarnation.
		r.Deed.Incarnation = cmp.Or(r.Deed.Incarnation, h.incarnation)
		h.deeds[r.Deed.N], h.lastDeed = r.Deed, max(h.lastDeed, r.Deed.N)
	}
}

func (h *Host) otherNeed(r *Record) gate.Bytes {
	if r.State != ledger.Open {
		return 0
	}
	return gate.Need(r.Ask, h.cfg.Mode.Other())
}

func (h *Host) adoptSandbox(r Record) {
	h.charge(&Sandbox{
		ID: r.ID, Epoch: r.Epoch, Identity: r.Identity, Ask: r.Ask, Phase: r.Phase, Process: r.Process,
		Redeemed: r.Redeemed, Turn: r.Turn, Tracked: r.Tracked, Stopping: r.Stopping, Superseded: r.Superseded,
		Waiver: r.Waiver, Peak: r.Peak, peakWritten: r.Peak, Evicting: r.Evicting, Active: r.Tracked,
	})
	h.turn = max(h.turn, r.Turn)
	if r.Phase == InLine {
		h.line = append(h.line, r.ID)
	}
}

func sortEnds(ends []End) {
	slices.SortFunc(ends, func(a, b End) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Epoch, b.Epoch))
	})
}
