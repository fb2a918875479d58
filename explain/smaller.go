package explain

import (
	"fmt"
	"sort"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/table"
)

// smaller is the most that the same request can ask for and be admitted, by the arithmetic of the
// host that has most for it.
func smaller(f *Facts) Change {
	best, at := int64(0), ""
	for i := range f.Near {
		r := &f.Near[i]
		if !memoryAlone(f, r) {
			continue
		}
		if n := mostThatFits(f, r.Mode, offers(f, r)); n > best {
			best, at = n, r.Host
		}
	}
	if best == 0 {
		return Change{}
	}
	return Change{
		Kind: Smaller, Who: Caller, Target: "memory_mb", From: f.Ask.Memory.CeilMiB(), To: best, Patch: patch("memory_mb", best),
		Why: fmt.Sprintf("%s can take %s MiB", at, grouped(best)),
	}
}

// memoryAlone says whether memory is all that a host lacks.
func memoryAlone(f *Facts, r *table.Room) bool {
	if r.Why != table.NoRoom && !(f.Code == api.Infeasible && r.Why == table.Candidate) {
		return false
	}
	for _, d := range r.Dims {
		if d.Have < d.Need {
			return false
		}
	}
	return true
}

// mostThatFits is the largest size within the class's bounds, and below what was asked, whose
// need a host has; 0: there is none. The need rises with the size.
func mostThatFits(f *Facts, m gate.Mode, has gate.Bytes) int64 {
	if f.Bounds.MostMemoryMB == 0 { // the class is not sized by memory
		return 0
	}
	least, asked := max(f.Bounds.LeastMemoryMB, 1), f.Ask.Memory.CeilMiB()
	if asked <= least {
		return 0
	}
	n := sort.Search(int(asked-least), func(i int) bool {
		ask := f.Ask
		ask.Memory = gate.FromMiB(least + int64(i))
		return ask.NeedOn(m) > has
	})
	if n == 0 {
		return 0
	}
	return least + int64(n) - 1
}

// infeasible is for what no host of the fleet could hold, were it empty.
func infeasible(f *Facts) []Change {
	if id := f.pinned(); id != "" && len(f.Near) == 0 {
		return []Change{{Kind: Elsewhere, Who: Caller, Target: "host", Patch: patch("host", nil), Why: "no host " + id + " is registered; without it any host may take it"}}
	}
	return []Change{smaller(f), unlabeled(f), elsewhere(f), addHost(f)}
}
