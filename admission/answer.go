package admission

import (
	"maps"
	"slices"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Kind is the kind of an answer.
type Kind uint8

// The kinds.
const (
	Yes   Kind = iota // admitted, or running
	Wait              // it has a place
	No                // Code says why
	Gone              // released
	Going             // its release is under way
)

// Answer is what a passage comes to. It carries its reasons: the API's body, the log, the
// metric and explain all read this one value.
type Answer struct {
	Would    []string // noted by the shell: what enforce would have said on the way
	Kind     Kind
	New      bool // Yes: by this call
	Row      pool.Row
	Code     api.Code
	Detail   string
	Standing pool.Standing
	Tally    Tally
}

// inProgress is told when another call places the same key for longer than one may take.
const inProgress = api.Unavailable

// Tally is the hosts that were refused, by reason.
type Tally map[string][]string // reason -> host ids

func (t Tally) add(reason, id string) {
	if !slices.Contains(t[reason], id) {
		t[reason] = append(t[reason], id)
	}
}

func (t Tally) merge(o Tally) {
	for reason, ids := range o {
		for _, id := range ids {
			t.add(reason, id)
		}
	}
}

// Reasons returns the reasons in a fixed order.
func (t Tally) Reasons() []string { return slices.Sorted(maps.Keys(t)) }

// Reasons that the table gives beside the hosts' own denials.
const (
	Silent      = "silent"
	Quarantined = "quarantined" // it did not do what it promised, and said nothing when it was asked again
	Excluded    = "excluded"    // asked already: its own denial stands in the tally

	unanswered = "unanswered"
)

// Code says which no it is. Pressure, starts and draining are said only when that alone
// refused everywhere; when nobody could be asked at all, a person should know.
func (t Tally) Code() api.Code {
	reasons := slices.DeleteFunc(t.Reasons(), func(r string) bool { return r == Excluded })
	if len(reasons) == 0 {
		return api.NoHealthyAgents
	}
	if len(reasons) > 1 {
		reasons = slices.DeleteFunc(reasons, func(r string) bool { return r == Silent })
	}
	if len(reasons) != 1 {
		return api.NoCapacity
	}
	switch reasons[0] {
	case Silent, Quarantined:
		return api.NoHealthyAgents
	case unanswered: // nobody said that there is no room
		return api.Unavailable
	case string(host.Pressure):
		return api.HostPressure
	case string(host.StartsFull):
		return api.HostStartsFull
	case string(host.Draining):
		return api.HostDraining
	}
	return api.NoCapacity
}

// FromVerdict turns the pool's verdict into an answer.
func FromVerdict(c pool.Claimed) Answer {
	a := Answer{Kind: No, Row: c.Row, Standing: c.Standing}
	switch c.Verdict {
	case pool.Queued:
		a.Kind = Wait
	case pool.PoolFull:
		a.Code = api.PoolFull
	case pool.QueueFull:
		a.Code = api.QueueFull
	case pool.OverQuota:
		a.Code = api.TenantOverQuota
	case pool.PatienceOut:
		a.Code = api.QueueTimeout
	case pool.Conflict:
		a.Code, a.Detail = api.KeyConflict, "key "+c.Row.Key+" is in use with other contents, state "+string(c.Row.State)
	case pool.BusyLeaving:
		a.Code = api.Releasing
	case pool.NoSuchKey:
		a.Code, a.Detail = api.NotFound, "no admission has this key"
	case pool.HasEnded:
		return fromState(c.Row)
	case pool.NoSuchPool, pool.NotLoaded:
		a.Code, a.Detail = api.Unavailable, "the limits are not loaded"
	}
	return a
}

// Standing answers for a row as it is, without trying anything.
func Standing(r pool.Row) Answer {
	switch {
	case r.State == pool.Admitted || r.State == pool.Running:
		return Answer{Kind: Yes, Row: r}
	case r.State == pool.Waiting || r.State == pool.Placing:
		return Answer{Kind: Wait, Row: r}
	}
	return fromState(r)
}

// fromState answers for a row whose passage is over.
func fromState(r pool.Row) Answer {
	a := Answer{Kind: No, Row: r, Code: api.NotFound, Detail: "the admission has ended: " + string(r.State) + ", " + r.Reason}
	switch r.State {
	case pool.TimedOut:
		a.Code, a.Detail = api.QueueTimeout, ""
	case pool.Releasing:
		a.Code, a.Detail = api.Releasing, ""
	}
	return a
}

func gone(r pool.Row) Answer {
	return Answer{Kind: No, Row: r, Code: api.NotFound, Detail: "the admission was released meanwhile"}
}

func (p *Passage) unavailable() Step {
	return p.reply(Answer{Kind: No, Code: api.Unavailable, Row: p.row, Detail: "the store did not answer"})
}

func (p *Passage) fail(what string) Step {
	return p.reply(Answer{Kind: No, Code: api.Internal, Row: p.row, Detail: what})
}
