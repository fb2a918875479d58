package control

import (
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
)

// ShowHost says a host's arithmetic in the units of the wire, for whoever asks an agent and
// no replica. What a host has is rounded down, what it must give up.
func ShowHost(v host.View, wall time.Time) api.Host {
	h, now := showHost(v, wall), int64(0)
	h.HeardMSAgo = &now
	return h
}
