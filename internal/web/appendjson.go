package web

import (
	"strconv"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/internal/jsontext"
)

// This file writes what is answered the most as encoding/json would, byte for byte.

func appendBatch(b []byte, a *api.BatchAnswer) []byte {
	if a.Results == nil {
		return append(b, `{"results":null}`...)
	}
	b = append(b, `{"results":[`...)
	for i := range a.Results {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendResult(b, &a.Results[i])
	}
	return append(b, "]}"...)
}

func appendResult(b []byte, r *api.BatchResult) []byte {
	b = append(b, '{')
	if r.Admission != nil {
		b = append(appendAdmission(append(b, `"admission":`...), r.Admission), ',')
	}
	if r.Problem != nil {
		b = append(jsontext.Any(append(b, `"problem":`...), r.Problem), ',')
	}
	b = strconv.AppendInt(append(b, `"status":`...), r.Status, 10)
	if r.Waiting != nil {
		b = jsontext.Any(append(b, `,"waiting":`...), r.Waiting)
	}
	return append(b, '}')
}

func appendAdmission(b []byte, a *api.Admission) []byte {
	b = append(b, '{')
	if a.AdmittedAt != nil {
		b = append(jsontext.At(b, `"admitted_at":`, a.AdmittedAt), ',')
	}
	if a.Audience != "" {
		b = append(jsontext.Words(b, `"audience":`, a.Audience), ',')
	}
	if a.ChargeMB != 0 {
		b = append(jsontext.Number(b, `"charge_mb":`, a.ChargeMB), ',')
	}
	b = jsontext.String(append(b, `"class":`...), a.Class)
	b = jsontext.String(append(b, `,"consumer":`...), a.Consumer)
	if a.CPU != 0 {
		b = jsontext.Float(append(b, `,"cpu":`...), a.CPU)
	}
	b = jsontext.Time(append(b, `,"created_at":`...), a.CreatedAt)
	b = jsontext.Words(b, `,"decision_id":`, a.DecisionID)
	b = jsontext.At(b, `,"ended_at":`, a.EndedAt)
	b = jsontext.Words(b, `,"endpoint":`, a.Endpoint)
	b = jsontext.Words(b, `,"enforcement":`, string(a.Enforcement))
	b = strconv.AppendInt(append(b, `,"epoch":`...), a.Epoch, 10)
	b = jsontext.At(b, `,"expires_at":`, a.ExpiresAt)
	b = jsontext.Number(b, `,"heartbeat_ms":`, a.HeartbeatMS)
	b = jsontext.Words(b, `,"host":`, a.Host)
	b = jsontext.String(append(b, `,"id":`...), a.ID)
	b = jsontext.Words(b, `,"instance":`, a.Instance)
	b = jsontext.String(append(b, `,"key":`...), a.Key)
	if len(a.Labels) > 0 {
		b = jsontext.Any(append(b, `,"labels":`...), a.Labels)
	}
	b = jsontext.At(b, `,"live_until":`, a.LiveUntil)
	return appendRest(b, a)
}

// appendRest goes on from the memory.
func appendRest(b []byte, a *api.Admission) []byte {
	b = jsontext.Number(b, `,"memory_mb":`, a.MemoryMB)
	b = jsontext.Words(b, `,"mode":`, string(a.Mode))
	b = jsontext.Words(b, `,"pool":`, a.Pool)
	b = jsontext.Words(b, `,"reason":`, a.Reason)
	b = jsontext.At(b, `,"started_at":`, a.StartedAt)
	b = jsontext.String(append(b, `,"state":`...), string(a.State))
	b = jsontext.Yes(b, `,"stateful":`, a.Stateful)
	b = jsontext.Words(b, `,"template":`, a.Template)
	b = jsontext.Words(b, `,"tenant":`, a.Tenant)
	b = jsontext.Words(b, `,"ticket":`, a.Ticket)
	if a.Waiting != nil {
		b = jsontext.Any(append(b, `,"waiting":`...), a.Waiting)
	}
	if len(a.WouldRefuse) > 0 {
		b = jsontext.Any(append(b, `,"would_refuse":`...), a.WouldRefuse)
	}
	return append(b, '}')
}
