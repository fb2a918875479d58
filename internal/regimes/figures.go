package regimes

import (
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// Figures are what was seen of one fleet under one regime.
type Figures struct {
	PerHost      float64 `json:"per_host"`      // on average over the seconds in which somebody was refused or waited, not for a quota; if there was none, over the second half
	MostPerHost  int     `json:"most_per_host"` // in any second, on any host
	HostSeconds  int64   `json:"host_s"`
	Pressed      int64   `json:"pressed_s"` // seconds in which somebody was refused or waited, not for a quota
	OverPhysical int64   `json:"over_physical_s"`
	InHeadroom   int64   `json:"in_headroom_s"`    // host-seconds with less left than the headroom, those over physical among them
	Shut         int64   `json:"shut_s"`           // host-seconds with the valve shut
	MostResident int64   `json:"most_resident_mb"` // on one host in one second, before anybody was killed

	Kills    int64 `json:"oom_kills"` // by the kernel, the largest first
	Evicted  int64 `json:"evicted"`   // by the host, before the kernel had to
	LostWork int64 `json:"lost_work_s"`

	Asked   int64   `json:"asked"`
	Refused int64   `json:"refused"` // creates that were at least once
	Excess  float64 `json:"excess"`  // the part that was refused, less that of hindsight

	WrongRefusals  int64 `json:"wrong_refusals"`   // for want of memory at first, and some host would have held it over its whole life
	AgainstOwnWord int64 `json:"against_own_word"` // while a host's own newest word said that it fits
	OverAdmissions int64 `json:"over_admissions"`  // that a host promised beyond what it had
	OverQuota      int64 `json:"over_quota"`       // refused by quota, and a host had room
	GaveUp         int64 `json:"gave_up"`          // patience ended first
	StillWaiting   int64 `json:"still_waiting"`    // at the end of the play

	Refusals Refusals `json:"refusals"` // every no, by its reason

	Waited        int64   `json:"admitted_after_refusal"`
	P50           float64 `json:"first_refusal_to_success_s_p50"`
	P99           float64 `json:"first_refusal_to_success_s_p99"`
	LargestTenant float64 `json:"largest_tenant_share"` // of the sandboxes that lived, over the same seconds as per_host
}

// Refusals are counted by reason, never in one sum: each calls for something else.
type Refusals struct {
	NoRoom     int64 `json:"no_room"`
	Pressure   int64 `json:"pressure"` // some host's intake was shut
	StartsFull int64 `json:"starts_full"`
	Quota      int64 `json:"tenant_over_quota"`
}

// RefusedPart is the part of what was asked for that was refused at least once.
func (f *Figures) RefusedPart() float64 { return part(f.Refused, f.Asked) }

// LostPart is the part of what was asked for that never came, or was ended before its time.
func (f *Figures) LostPart() float64 {
	return part(f.GaveUp+f.Refusals.Quota+f.Kills+f.Evicted, f.Asked)
}

func part(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// seen is counted as it happens.
type seen struct {
	asked, refused, wrong, againstWord, overAdmitted, quotaOnly, gaveUp, stopped int64

	killed, evicted, lost, over, low, shut int64

	refusals     [reasons]int64
	mostResident gate.Bytes
	most         int
	waited       []time.Duration

	refusedNow, freedNow int64 // in this second

	late, pressed average // the second half; the seconds in which somebody was refused or waited
}

// average is what is averaged over a number of seconds.
type average struct {
	seconds, lives, largest int64
}

func (o *average) add(lives, largest int64) {
	o.seconds++
	o.lives += lives
	o.largest += largest
}

// count notes what there is at the end of a second.
func (f *fleet) count() {
	var lives int64
	for _, m := range f.hosts {
		lives += int64(len(m.Lives))
		f.seen.most = max(f.seen.most, len(m.Lives))
	}
	largest := slices.Max(f.lives)
	if 2*f.second >= f.seconds {
		f.seen.late.add(lives, largest)
	}
	if f.seen.refusedNow > 0 || f.line.Len() > 0 {
		f.seen.pressed.add(lives, largest)
	}
	f.seen.refusedNow = 0
}

func (f *fleet) figures() Figures {
	s := &f.seen
	mean := s.pressed
	if mean.seconds == 0 {
		mean = s.late
	}
	slices.Sort(s.waited)
	return Figures{
		PerHost: part(mean.lives, mean.seconds*int64(len(f.hosts))), MostPerHost: s.most,
		HostSeconds: int64(f.seconds) * int64(len(f.hosts)), Pressed: s.pressed.seconds,
		OverPhysical: s.over, InHeadroom: s.low, Shut: s.shut, MostResident: s.mostResident.CeilMiB(),
		Kills: s.killed, Evicted: s.evicted, LostWork: s.lost,
		Asked: s.asked, Refused: s.refused, WrongRefusals: s.wrong, AgainstOwnWord: s.againstWord,
		OverAdmissions: s.overAdmitted, OverQuota: s.quotaOnly, GaveUp: s.gaveUp, StillWaiting: int64(f.line.Len()),
		Refusals: Refusals{s.refusals[noRoom], s.refusals[pressed], s.refusals[startsFull], s.refusals[overQuota]},
		Waited:   int64(len(s.waited)), P50: quantile(s.waited, 0.50), P99: quantile(s.waited, 0.99),
		LargestTenant: part(mean.largest, mean.lives),
	}
}

// quantile of sorted times, in seconds to the millisecond; zero of none.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := min(int(q*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[at].Round(time.Millisecond).Milliseconds()) / 1000
}
