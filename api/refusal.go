package api

import (
	"errors"
	"fmt"
	"time"
)

// Refusal is a no, as a value that becomes an error at the edge. It is the one typed
// error of the system: errors.Is(err, api.NoCapacity) asks for its code.
type Refusal struct {
	Code       Code
	Scope      Scope         // empty: the code's own
	Detail     string        // which field, which figure, for people
	Remedy     string        // empty: the code's own
	DecisionID string        // names this decision in logs and in explain
	RetryAfter time.Duration // an appointment for this caller; zero: none
	Receipt    string        // handed back by the caller with its next try
	Reason     string        // of TicketRejected: a word of package ticket's reasons
	Figures    Figures       // where the caller stands
}

// Figures say where a caller stands: the numbers behind a no.
type Figures struct {
	WaitingFor string              `json:"waiting_for,omitempty"` // slot, host, quota
	Pool       string              `json:"pool,omitempty"`
	PoolBusy   int64               `json:"pool_busy,omitempty"`
	Cap        *int64              `json:"cap,omitempty"`      // nil: the pool has none, or is not what this is about
	Position   int64               `json:"position,omitempty"` // 1 is next
	QueuedFor  time.Duration       `json:"-"`
	TimedOut   bool                `json:"timed_out,omitempty"`
	Limit      int64               `json:"limit,omitempty"` // of the quota
	Use        int64               `json:"use,omitempty"`
	Hosts      map[string][]string `json:"hosts,omitempty"` // reason -> ids of the hosts refused for it
	// ElsewhereFits says of a host that was demanded and refused whether another had room.
	ElsewhereFits *bool          `json:"elsewhere_fits,omitempty"`
	Share         *ShareStanding `json:"share,omitempty"` // the caller's, where its pool has one for it
	Override      *PoolOverride  `json:"override,omitempty"`
}

// Refuse makes a refusal with a detail for people.
func Refuse(code Code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Error prints the code and the detail.
func (r *Refusal) Error() string {
	if r.Detail == "" {
		return string(r.Code)
	}
	return string(r.Code) + ": " + r.Detail
}

// Is makes errors.Is(err, api.NoCapacity) work.
func (r *Refusal) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == r.Code
}

// Error makes a code usable as a target of errors.Is.
func (c Code) Error() string { return string(c) }

// WhoseNo returns the refusal's scope, or its code's own.
func (r *Refusal) WhoseNo() Scope {
	if r.Scope != "" {
		return r.Scope
	}
	return r.Code.Meaning().Scope
}

// AsRefusal finds the refusal in an error's chain.
func AsRefusal(err error) (*Refusal, bool) {
	var r *Refusal
	ok := errors.As(err, &r)
	return r, ok
}
