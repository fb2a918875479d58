package control

import (
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/learned"
)

// ShowHost says a host's arithmetic in the units of the wire, for whoever asks an agent and
// no replica. What a host has is rounded down, what it must give up.
func ShowHost(v host.View, wall time.Time) api.Host {
	h, now := showHost(v, wall), int64(0)
	h.HeardMSAgo = &now
	return h
}

// ShowLessons says what one host has learned by itself as Classes says what a fleet has, for whoever
// asks an agent and no replica. A class is what an ask called itself: it has no rule of its own.
func ShowLessons(lessons []host.Lesson, room gate.Bytes) api.ClassList {
	out := api.ClassList{Hosts: 1, PromisableMB: room.FloorMiB(), Classes: []api.ClassStanding{}}
	rule := gate.DefaultReserveRule()
	for i := range lessons {
		l := &lessons[i]
		c := config.Class{
			Name: l.Class, Memory: l.Size, Reserve: config.Learned,
			ReserveFraction: config.Milli(rule.Permille), ReserveFloor: rule.Floor, SettleAfter: rule.SettleAfter,
		}
		k := learned.Known{
			Class: l.Class, Template: l.Template, Size: l.Size, Mean: l.Mean, Held: l.Held, Committed: l.Committed,
			Runs: l.Runs, Estimate: l.Estimate,
		}
		if n := len(out.Classes); n == 0 || out.Classes[n-1].Name != l.Class {
			out.Classes = append(out.Classes, api.ClassStanding{Name: l.Class, MemoryMB: l.Size.CeilMiB()})
		}
		last := &out.Classes[len(out.Classes)-1]
		last.MemoryMB = max(last.MemoryMB, l.Size.CeilMiB())
		last.Templates = append(last.Templates, templateStanding(&c, &k, []gate.Bytes{room}))
	}
	return out
}
