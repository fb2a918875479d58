package sqlcore

import (
	"encoding/json"
	"time"

	"github.com/plimsoll-project/plimsoll/pool"
)

// Record is a row on its way into the database: the columns of admissions, and as what it
// was loaded, for the guard of the statement that changes it.
type Record struct {
	ID            string     `json:"id"`
	Consumer      string     `json:"consumer"`
	Key           string     `json:"key"`
	Tenant        string     `json:"tenant"`
	Class         string     `json:"class"`
	Template      string     `json:"template"`
	MemoryMB      int64      `json:"memory_mb"`
	CPUMilli      int64      `json:"cpu_milli"`
	Labels        string     `json:"labels"`
	PinnedHost    string     `json:"pinned_host"`
	Prefer        bool       `json:"prefer"`
	Stateful      bool       `json:"stateful"`
	HoldOnExit    bool       `json:"hold_on_exit"`
	Priority      int64      `json:"priority"`
	Pool          string     `json:"pool"`
	Mode          pool.Mode  `json:"mode"`
	MaxQueueAgeMS int64      `json:"max_queue_age_ms"`
	State         pool.State `json:"state"`
	Reason        string     `json:"reason"`
	Gen           int64      `json:"gen"`
	Epoch         int64      `json:"epoch"`
	Host          string     `json:"host"`
	Audience      string     `json:"audience"`
	Instance      string     `json:"instance"`
	Place         int64      `json:"place"`
	Waited        bool       `json:"waited"`
	Late          bool       `json:"late"`
	SparedAt      pool.Time  `json:"spared_at"`
	WaitingFor    string     `json:"waiting_for"`
	QueuedAt      pool.Time  `json:"queued_at"`
	PresentUntil  pool.Time  `json:"present_until"`
	HostlessAt    pool.Time  `json:"hostless_at"`
	HostlessSince pool.Time  `json:"hostless_since"`
	StandAt       string     `json:"stand_at"`
	PlacingAt     pool.Time  `json:"placing_at"`
	AdmittedAt    pool.Time  `json:"admitted_at"`
	ReservedUntil pool.Time  `json:"reserved_until"`
	LiveUntil     pool.Time  `json:"live_until"`
	RunningAt     pool.Time  `json:"running_at"`
	FreedAt       pool.Time  `json:"freed_at"`
	EndedAt       pool.Time  `json:"ended_at"`

	WasState pool.State `json:"was_state,omitempty"`
	WasGen   int64      `json:"was_gen"`
	WasEpoch int64      `json:"was_epoch"`
}

func toRecord(r, was *pool.Row) Record {
	return Record{
		ID: r.ID, Consumer: r.Consumer, Key: r.Key, Tenant: r.Tenant, Class: r.Class, Template: r.Template,
		MemoryMB: r.MemoryMB, CPUMilli: r.CPUMilli, Labels: r.Labels, PinnedHost: r.Contents.Host, Prefer: r.Prefer,
		Stateful: r.Stateful, HoldOnExit: r.HoldOnExit, Priority: r.Priority, Pool: r.Pool, Mode: r.Mode,
		MaxQueueAgeMS: r.MaxQueueAge.Milliseconds(), State: r.State, Reason: r.Reason, Gen: r.Gen, Epoch: r.Epoch,
		Host: r.Host, Audience: r.Audience, Instance: r.Instance, Place: r.Place, Waited: r.Waited, Late: r.Late,
		SparedAt: r.SparedAt, WaitingFor: r.WaitingFor, QueuedAt: r.QueuedAt, PresentUntil: r.PresentUntil,
		HostlessAt: r.HostlessAt, HostlessSince: r.HostlessSince, StandAt: r.StandAt, PlacingAt: r.PlacingAt,
		AdmittedAt: r.AdmittedAt, ReservedUntil: r.ReservedUntil, LiveUntil: r.LiveUntil, RunningAt: r.RunningAt,
		FreedAt: r.FreedAt, EndedAt: r.EndedAt,
		WasState: was.State, WasGen: was.Gen, WasEpoch: was.Epoch,
	}
}

// Values are the fields in their order, as parameters of one row's statement.
func (r *Record) Values() []any {
	return []any{
		r.ID, r.Consumer, r.Key, r.Tenant, r.Class, r.Template, r.MemoryMB, r.CPUMilli, r.Labels, r.PinnedHost, r.Prefer,
		r.Stateful, r.HoldOnExit, r.Priority, r.Pool, string(r.Mode), r.MaxQueueAgeMS, string(r.State), r.Reason, r.Gen,
		r.Epoch, r.Host, r.Audience, r.Instance, r.Place, r.Waited, r.Late, int64(r.SparedAt), r.WaitingFor,
		int64(r.QueuedAt), int64(r.PresentUntil), int64(r.HostlessAt), int64(r.HostlessSince), r.StandAt,
		int64(r.PlacingAt), int64(r.AdmittedAt), int64(r.ReservedUntil), int64(r.LiveUntil), int64(r.RunningAt),
		int64(r.FreedAt), int64(r.EndedAt), string(r.WasState), r.WasGen, r.WasEpoch,
	}
}

// scanRow reads the columns of admissions in the order in which every statement lists them.
func scanRow(rows Rows) (*pool.Row, error) {
	r, age := &pool.Row{}, int64(0)
	err := rows.Scan(&r.ID, &r.Consumer, &r.Key, &r.Tenant, &r.Class, &r.Template, &r.MemoryMB, &r.CPUMilli,
		&r.Labels, &r.Contents.Host, &r.Prefer, &r.Stateful, &r.HoldOnExit, &r.Priority, &r.Pool, &r.Mode, &age,
		&r.State, &r.Reason, &r.Gen, &r.Epoch, &r.Host, &r.Audience, &r.Instance, &r.Place, &r.Waited, &r.Late,
		&r.SparedAt, &r.WaitingFor, &r.QueuedAt, &r.PresentUntil, &r.HostlessAt, &r.HostlessSince, &r.StandAt,
		&r.PlacingAt, &r.AdmittedAt, &r.ReservedUntil, &r.LiveUntil, &r.RunningAt, &r.FreedAt, &r.EndedAt)
	r.MaxQueueAge = time.Duration(age) * time.Millisecond
	if r.State != pool.Waiting && r.State != pool.Placing {
		r.StandAt = "" // kept by a program of schema 1, which does not know it
	}
	return r, err
}

// scanWaiter reads what line.sql selects.
func scanWaiter(rows Rows) (*pool.Row, error) {
	r, age := &pool.Row{State: pool.Waiting}, int64(0)
	err := rows.Scan(&r.ID, &r.Consumer, &r.Pool, &r.Tenant, &r.Class, &r.Labels, &r.Contents.Host, &r.Priority, &age,
		&r.Place, &r.Late, &r.SparedAt, &r.QueuedAt, &r.PresentUntil, &r.HostlessAt)
	r.MaxQueueAge = time.Duration(age) * time.Millisecond
	return r, err
}

// array encodes an argument for @rows.
func array[T any](items []T) (string, error) {
	text, err := json.Marshal(items)
	return string(text), err
}

// names encodes plain strings for @rows: [["a"],["b"]].
func names(items []string) (string, error) {
	rows := make([][1]string, len(items))
	for i, s := range items {
		rows[i][0] = s
	}
	return array(rows)
}
