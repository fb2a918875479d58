// Package standin knows hosts that cannot run an agent by the heartbeats that they post, in the
// essay's JSON. For each there is a ledger in this process; this package says what a sample of
// it is.
//
// It decides whether a report is taken. Room is decided by the host's own arithmetic: the
// report's memory_mb_admittable is what is free, and from it the reservations are taken that
// this process made.
//
// Worked: a report of 25,600 MiB admittable takes 25 stateless sandboxes of 4 GiB, with a need of
// 1,024 MiB each, and not the 26th; or 6 stateful ones, of 24,576 MiB.
//
// What has booted is in the next report, and reserved here until it is released. It counts once
// where the report names its admission in sandbox_ids, and so says that memory_mb_admittable has
// the sandbox's charge in it: then 25 are running when the 26th is refused. Of a report that names
// nothing both count, and no more than 13 come to run.
//
// What it cannot do is stated in Limits. All methods may be called from any goroutine.
package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/table"
)

// Limits says what a stand-in cannot do, for help and documents.
const Limits = `Its limits: it cannot enforce at the boot (whoever boots there does so without it, and a ticket
is a promise of room and no lock); it sees no process, so an admission there stays admitted and
lives by its caller's heartbeat, and reclaims nothing; between two reports it does not see what
grows; what is reserved and has booted counts twice, in the report and here, until it is released,
so that such a host fills to about half, unless the report names it in sandbox_ids; a host that was
not reported for 30 s promises nothing.`

// Stale is the age of a report, by when it was received, from which its host promises nothing.
const Stale = 30 * time.Second

// Headroom is the host's: its report's admittable has the real one taken off already.
const Headroom = gate.MiB

// Why a report is refused.
const (
	Malformed = "malformed" // no heartbeat of the essay's form
	Untrue    = "untrue"    // negative, above the total, of another mode than configured
	Version   = "version"   // of a version that is not known
	Unknown   = "unknown"   // of a host that is not configured here
	Older     = "older"     // than one that was taken
)

// Refused is why a report was not taken.
type Refused struct {
	Why    string
	Detail string
}

// Error returns the reason and the detail.
func (r *Refused) Error() string { return r.Why + ": " + r.Detail }

// Host is what was last reported of one host.
type Host struct {
	ID   string
	Mode gate.Mode

	mu    sync.Mutex // guards what follows
	last  table.Verdict
	names []string  // admissions that the last one says it has in its figures
	at    time.Time // when it was received; zero: never
	taken int64
}

// Hosts are all that stand in here.
type Hosts struct {
	byID map[string]*Host

	mu      sync.Mutex       // guards what follows
	refused map[string]int64 // why -> times
}

// New returns hosts that nothing was reported of.
func New(mode gate.Mode, ids []string) *Hosts {
	h := &Hosts{byID: map[string]*Host{}, refused: map[string]int64{}}
	for _, id := range ids {
		h.byID[id] = &Host{ID: id, Mode: mode}
	}
	return h
}

// Host returns one of them, or nil.
func (h *Hosts) Host(id string) *Host { return h.byID[id] }

// Take takes a report in and returns its host. What is refused is counted.
func (h *Hosts) Take(now time.Time, data []byte) (*Host, error) {
	at, err := h.take(now, data)
	var refused *Refused
	if errors.As(err, &refused) {
		h.mu.Lock()
		h.refused[refused.Why]++
		h.mu.Unlock()
	}
	return at, err
}

func (h *Hosts) take(now time.Time, data []byte) (*Host, error) {
	var head struct {
		Version   json.RawMessage `json:"version"`
		ID        string          `json:"agent_id"`
		Sandboxes []string        `json:"sandbox_ids"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, &Refused{Malformed, err.Error()}
	}
	if v := string(head.Version); v != "" && v != "1" {
		return nil, &Refused{Version, fmt.Sprintf("version %.20s is not known; 1 is, and none", v)}
	}
	at := h.byID[head.ID]
	if at == nil {
		return nil, &Refused{Unknown, fmt.Sprintf("host %.128q is not among stand_in.hosts", head.ID)}
	}
	v, err := table.ParseHeartbeat(data)
	switch {
	case err != nil:
		at.doubt()
		return nil, &Refused{Untrue, err.Error()}
	case v.Mode != at.Mode:
		at.doubt()
		return nil, &Refused{Untrue, fmt.Sprintf("memory_admission %s, and host.mode here is %s: one of the two is wrong", v.Mode, at.Mode)}
	}
	return at, at.take(now, v, head.Sandboxes)
}

func (h *Host) take(now time.Time, v table.Verdict, names []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A clock that was set back must not shut its host out for longer than a silence would.
	young := !h.at.IsZero() && now.Sub(h.at) < Stale
	if young && v.Sequence < h.last.Sequence {
		return &Refused{Older, "heartbeat_at is before that of a report that was taken"}
	}
	if h.taken > 0 && v.Sequence == h.last.Sequence {
		return nil // the same again says nothing new, not even that it is young
	}
	h.last, h.at, h.names = v, now, names
	h.taken++
	return nil
}

// doubt lets a host promise nothing until it reports what can be true.
func (h *Host) doubt() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = time.Time{}
}

// ErrNotReported is why nothing is promised.
var ErrNotReported = errors.New("no report within the last 30 s")

// Sample is the host as it was last reported, while that is young enough. Age is by when it was
// received: the clocks of others are theirs.
func (h *Host) Sample(now time.Time) (host.Sample, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.at.IsZero() || now.Sub(h.at) >= Stale {
		return host.Sample{}, fmt.Errorf("host %s: %w", h.ID, ErrNotReported)
	}
	used := h.last.Limit.Sub(h.last.Admittable).Sub(Headroom).Positive()
	return host.Sample{Full: true, Counted: h.names, Limits: []gate.Limit{{Name: "reported", Size: h.last.Limit, Used: used}}}, nil
}

// Summary is what is shown of the reports.
type Summary struct {
	Hosts   []Reported       `json:"hosts"`
	Refused map[string]int64 `json:"refused"` // why -> reports
}

// Reported is one host's.
type Reported struct {
	ID           string `json:"id"`
	Taken        int64  `json:"taken"`
	AgeMS        *int64 `json:"age_ms,omitempty"` // of the last one; absent: there is none that counts
	Stale        bool   `json:"stale"`
	AdmittableMB int64  `json:"reported_admittable_mb"`
	Named        int64  `json:"named"` // of its sandboxes, which count once
}

// Summary says what was reported, in the order of ids.
func (h *Hosts) Summary(now time.Time, ids []string) Summary {
	out := Summary{Hosts: []Reported{}, Refused: map[string]int64{}}
	for _, id := range ids {
		out.Hosts = append(out.Hosts, h.byID[id].summary(now))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for why, n := range h.refused {
		out.Refused[why] = n
	}
	return out
}

func (h *Host) summary(now time.Time) Reported {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := Reported{ID: h.ID, Taken: h.taken, Stale: h.at.IsZero() || now.Sub(h.at) >= Stale, AdmittableMB: h.last.Admittable.FloorMiB(), Named: int64(len(h.names))}
	if !h.at.IsZero() {
		ms := now.Sub(h.at).Milliseconds()
		r.AgeMS = &ms
	}
	return r
}
