package pool

import "time"

// Time is an instant of the store's clock in milliseconds since 1970. Nobody else's
// clock ever enters a row. Zero means never.
type Time int64

// Add moves an instant.
func (t Time) Add(d time.Duration) Time { return t + Time(d/time.Millisecond) }

// Since returns how long before t the instant u was.
func (t Time) Since(u Time) time.Duration { return time.Duration(t-u) * time.Millisecond }

// State is where one admission is on its passage.
//
//	            ┌────────────── no room (queue) ───────────┐
//	            ▼                                          │
//	waiting_capacity ── a slot, its turn ──▶ placing ──────┴─ settled ─▶ admitted ─ Track ─▶ running
//	    │   │                                 ▲  │ no room (refuse)        │  │               │
//	    │   └ too old ─▶ timed_out            │  ▼                         │  └── DELETE ──┐  │
//	    └ DELETE ─▶ released                  │ (no row)                   │              ▼  ▼
//	                                          └─────── moved ──────────────┘          releasing
//	                                                                                     │
//	      admitted, running, releasing ── the host reports the end ──▶ released, expired, evicted
type State string

// The states. Placing, Admitted, Running and Releasing hold a slot and quota.
const (
	Waiting   State = "waiting_capacity"
	Placing   State = "placing"
	Admitted  State = "admitted"
	Running   State = "running"
	Releasing State = "releasing"
	Released  State = "released"
	TimedOut  State = "timed_out"
	Expired   State = "expired"
	Evicted   State = "evicted"
	Lost      State = "lost"
)

// States returns every state, those that hold a slot first.
func States() []State {
	return []State{Placing, Admitted, Running, Releasing, Waiting, Released, TimedOut, Expired, Evicted, Lost}
}

// HoldsSlot says whether an admission in this state counts against its pool and tenant.
func (s State) HoldsSlot() bool {
	return s == Placing || s == Admitted || s == Running || s == Releasing
}

// OnHost says whether a host, or an audience instead, answers for an admission in this state.
func (s State) OnHost() bool { return s == Admitted || s == Running || s == Releasing }

// Ended says whether the passage is over, so that its key may start anew.
func (s State) Ended() bool { return s != Waiting && !s.HoldsSlot() }

// Mode is what a caller wants when there is no capacity.
type Mode string

// The modes. The first call's mode stands until the admission ends.
const (
	Refuse Mode = "refuse" // answer no, and leave nothing behind
	Queue  Mode = "queue"  // take a place and wait
)

// What a waiter waits for.
const (
	ForSlot  = "slot"
	ForHost  = "host"
	ForQuota = "quota"
)

// Contents are what a key stands for. The same key with other contents is a conflict.
type Contents struct {
	Tenant   string
	Class    string
	Template string
	MemoryMB int64
	CPUMilli int64
	Labels   string // canonical: name=value, sorted, joined by commas
	Host     string // pinned host, empty for none
	Prefer   bool   // the pinned host is a wish, not a demand
	// Of its class, when it was claimed.
	Stateful   bool
	HoldOnExit bool  // its sandbox may be started anew under the same admission
	Priority   int64 // which share of the pool it is of
}

// Kind is what makes two waiters want the same hosts.
func (c Contents) Kind() string { return c.Class + "\x00" + c.Labels + "\x00" + c.Host }

// Row is one admission as the store holds it.
type Row struct {
	ID       string
	Consumer string
	Key      string
	Contents
	Pool        string
	Mode        Mode
	MaxQueueAge time.Duration

	State  State
	Reason string // why it ended

	Gen   int64  // of the placing in progress, and never lower than Epoch
	Epoch int64  // the generation under which it was last placed
	Host  string // that holds it, while State.OnHost
	// Audience is who demands its ticket instead, while State.OnHost in a pool without hosts.
	Audience string
	Instance string // what its ticket was redeemed for, in the words of who redeemed it

	Place        int64 // in its pool's line, kept until the admission ends; zero: none
	Waited       bool  // has been in the line, so that its place is never refused again
	Late         bool  // was passed over while absent; its next call clears it
	SparedAt     Time  // a grant first left a slot for it while it was absent; its next call clears it
	WaitingFor   string
	QueuedAt     Time // took its place
	PresentUntil Time // a long poll is held at least until then
	HostlessAt   Time // last had a slot but found no host
	// HostlessSince is when it first found none, of those that followed each other closely.
	HostlessSince Time
	StandAt       string // the host where memory is set aside for it

	PlacingAt     Time
	AdmittedAt    Time
	ReservedUntil Time // the host's reservation, or the ticket without one, has lapsed by then unless renewed
	LiveUntil     Time // a slot without a host is over by then unless it is heard of
	RunningAt     Time
	FreedAt       Time // last gave a slot back
	EndedAt       Time
}

// Passage tells the passages apart that a key's row goes through, and in one of them before a
// grant from after it. A release that comes late, by a replica that stood still or over a
// slow network, must not end what its key stands for by then. The zero value: any.
type Passage struct {
	Gen      int64
	QueuedAt Time
}

// Passage is the one that the row is in.
func (r *Row) Passage() Passage { return Passage{r.Gen, r.QueuedAt} }

// Holder is on whose account the row holds a slot.
func (r *Row) Holder() Holder { return Holder{r.Consumer, r.Priority} }

// Booted says whether the row knows of a boot.
func (r *Row) Booted() bool { return r.RunningAt != 0 }

// present says whether the waiter's long poll is held.
func (r *Row) present(now Time) bool { return r.PresentUntil != 0 && r.PresentUntil >= now }

// inLine says whether the row takes up one of its line's places: it waits and still has
// patience, or it came out of the line and is being placed, from where it may return.
func (r *Row) inLine(now Time) bool {
	return (r.State == Waiting && !r.TooOld(now)) || (r.State == Placing && r.Waited)
}

// freedLately says whether the slot that the row gave back is still kept for absent waiters.
func (r *Row) freedLately(now Time) bool { return r.FreedAt != 0 && now.Since(r.FreedAt) < Grace }

// graceSpent says whether an absent waiter has let a slot that was kept for it go by.
func (r *Row) graceSpent(now Time) bool {
	return r.Late || (r.SparedAt != 0 && now.Since(r.SparedAt) >= Grace)
}

// hostless says whether the waiter lately had a slot but found no host.
func (r *Row) hostless(now Time) bool {
	return r.HostlessAt != 0 && now.Since(r.HostlessAt) < HostlessFor
}

// Starves says whether the waiter is there, the first of its kind, and has found no host
// again and again for so long that memory is to be set aside for it.
func (r *Row) Starves(s Standing) bool {
	return r.State == Waiting && r.PresentUntil != 0 && s.SameHostless == 0 && r.HostlessSince != 0 &&
		r.HostlessAt.Since(r.HostlessSince) >= StandAfter
}

// TooOld says whether a waiter has waited as long as it was willing to.
func (r *Row) TooOld(now Time) bool {
	return r.State == Waiting && now.Since(r.QueuedAt) >= r.MaxQueueAge
}

// The windows of the line and of the sweep.
const (
	Grace       = 2 * time.Second  // an absent waiter's claim on a slot that was just freed
	PresentFor  = 5 * time.Second  // a held long poll says so this far ahead
	HostlessFor = 10 * time.Second // "lately without a host"
	PlacingFor  = 10 * time.Second // a placing older than this lost its replica
	KeepEnded   = 24 * time.Hour   // ended rows answer GET and attempt
	StandAfter  = 10 * time.Second // without a host at the head: memory is set aside for it
)
