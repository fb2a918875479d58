package table

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

// heartbeat is the essay's report. Pointers tell a missing field from a zero: a host that says
// nothing of its memory has none to offer, but it is not known to be full either.
type heartbeat struct {
	AgentID       string     `json:"agent_id"`
	Region        string     `json:"region"`
	HeartbeatAt   *time.Time `json:"heartbeat_at"`
	CPUTotal      *float64   `json:"cpu_total"`
	CPUUsed       *float64   `json:"cpu_used"`
	MemTotal      *int64     `json:"memory_mb_total"`
	MemUsed       *int64     `json:"memory_mb_used"`
	Admission     string     `json:"memory_admission"`
	Admittable    *int64     `json:"memory_mb_admittable"`
	StreamRestore bool       `json:"stream_restore_enabled"`
}

// ParseHeartbeat reads a heartbeat as the essay has it, for agents that are not Plimsoll's. Its
// admittable is the verdict. Its stamp is its own time, in milliseconds: only its order counts,
// age is judged by when it was received. Its region becomes a label. Its network slots never
// refuse, so they are no dimension. What cannot be true is an error.
func ParseHeartbeat(data []byte) (Verdict, error) {
	var b heartbeat
	if err := json.Unmarshal(data, &b); err != nil {
		return Verdict{}, fmt.Errorf("table: heartbeat: %w", err)
	}
	if err := b.check(); err != nil {
		return Verdict{}, fmt.Errorf("table: heartbeat of %q: %w", b.AgentID, err)
	}
	v := Verdict{
		Host: b.AgentID, Sequence: b.HeartbeatAt.UnixMilli(),
		Admittable: gate.FromMiB(*b.Admittable), Limit: gate.FromMiB(*b.MemTotal), MaxAsk: gate.FromMiB(*b.MemTotal),
		Free:          gate.FromMiB(*b.MemTotal - *b.MemUsed),
		CPUFreeMilli:  int64(math.Round((*b.CPUTotal - *b.CPUUsed) * 1000)),
		StreamRestore: b.StreamRestore,
	}
	if b.Admission == gate.Committed.String() {
		v.Mode = gate.Committed
	}
	if b.Region != "" {
		v.Labels = []gate.Label{{Name: "region", Value: b.Region}}
	}
	return v, v.check()
}

func (b *heartbeat) check() error {
	const mostCores = maxCPUMilli / 1000
	switch {
	case b.AgentID == "":
		return fmt.Errorf("agent_id is missing")
	case b.HeartbeatAt == nil || b.CPUTotal == nil || b.CPUUsed == nil || b.MemTotal == nil || b.MemUsed == nil || b.Admittable == nil:
		return fmt.Errorf("heartbeat_at, cpu_*, memory_mb_* must all be there")
	case b.Admission != gate.WorkingSet.String() && b.Admission != gate.Committed.String():
		return fmt.Errorf("memory_admission %q is neither working-set nor committed", b.Admission)
	case !(*b.CPUTotal > 0 && *b.CPUTotal <= mostCores && *b.CPUUsed >= 0 && *b.CPUUsed <= *b.CPUTotal):
		return fmt.Errorf("cpu_used %v of cpu_total %v", *b.CPUUsed, *b.CPUTotal)
	case *b.MemTotal <= 0 || *b.MemUsed < 0 || *b.MemUsed > *b.MemTotal:
		return fmt.Errorf("memory_mb_used %d of memory_mb_total %d", *b.MemUsed, *b.MemTotal)
	case *b.Admittable < 0 || *b.Admittable > *b.MemTotal:
		return fmt.Errorf("memory_mb_admittable %d of memory_mb_total %d", *b.Admittable, *b.MemTotal)
	}
	return nil
}
