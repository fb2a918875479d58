package control

import (
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
)

// showReclaim adds what a host does, and did, about a lost bet.
func showReclaim(h *api.Host, v *host.View, wall time.Time) {
	h.Reclaim, h.Lost = v.Reclaim.String(), v.Lost
	for i := range v.Evictions {
		h.Evictions = append(h.Evictions, showEviction(&v.Evictions[i], v.Verdict.At, wall))
	}
	if v.RampNext > 0 {
		h.Ramp = &api.Ramp{LeftMB: v.RampLeft.FloorMiB(), NextMS: max(v.RampNext-v.Verdict.At, 0).Milliseconds()}
	}
}

func showEviction(e *host.Eviction, now host.Instant, wall time.Time) api.Eviction {
	out := api.Eviction{
		ID: e.ID, Epoch: e.Epoch, Key: e.Identity.Key, Consumer: e.Identity.Consumer, Class: e.Identity.Class,
		At: wall.Add(e.At - now).UTC().Truncate(time.Millisecond), By: string(e.By),
		Priority: int64(e.Priority), IdleMS: e.Idle.Milliseconds(),
		ResidentMB: e.Resident.CeilMiB(), OvershootMB: e.Overshoot.CeilMiB(),
		FreeMB: e.Free.FloorMiB(), HeadroomMB: e.Headroom.CeilMiB(), DeficitMB: e.Deficit.CeilMiB(),
	}
	if e.Gone > 0 {
		out.GoneMS = (e.Gone - e.At).Milliseconds()
	}
	return out
}
