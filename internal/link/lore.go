package link

import (
	"encoding/json"
	"fmt"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	agentv1 "github.com/plimsoll-project/plimsoll/proto/plimsoll/agent/v1"
)

// What was seen of runs is JSON here too: package learn alone knows what it is made of.

func loreOf(l *host.Lore) *agentv1.Lore {
	out := &agentv1.Lore{Incarnation: l.Incarnation, More: l.More}
	for i := range l.Seen {
		s := &l.Seen[i]
		runs, err := json.Marshal(&s.Runs)
		if err != nil {
			continue // there is no such state of them
		}
		out.Seen = append(out.Seen, &agentv1.Seen{
			Class: s.Class, Template: s.Template, Sequence: s.Sequence, SizeBytes: int64(s.Size),
			HeldMibS: s.Held, CommittedMibS: s.Committed, Runs: runs,
		})
	}
	return out
}

func loreFrom(l *agentv1.Lore) (host.Lore, error) {
	out := host.Lore{Incarnation: l.GetIncarnation(), More: l.GetMore()}
	for _, s := range l.GetSeen() {
		in := host.Seen{
			Class: s.GetClass(), Template: s.GetTemplate(), Sequence: s.GetSequence(), Size: gate.Bytes(s.GetSizeBytes()),
			Held: s.GetHeldMibS(), Committed: s.GetCommittedMibS(),
		}
		if err := json.Unmarshal(s.GetRuns(), &in.Runs); err != nil {
			return host.Lore{}, fmt.Errorf("what host says of the runs of template %q: %w", short(in.Template), err)
		}
		out.Seen = append(out.Seen, in)
	}
	return out, nil
}
