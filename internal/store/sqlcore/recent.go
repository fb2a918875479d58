package sqlcore

import (
	"slices"

	"github.com/plimsoll-project/plimsoll/pool"
)

// recent are the instants at which rows of a pool lately gave a slot back, in order: who
// releases often would otherwise have them counted anew for each claim.
type recent struct {
	at    []pool.Time
	n     []int64 // rows of each
	total int64
}

// add adds n rows of an instant, or takes them out again.
func (r *recent) add(at pool.Time, n int64) {
	i, found := slices.BinarySearch(r.at, at)
	if !found {
		r.at, r.n = slices.Insert(r.at, i, at), slices.Insert(r.n, i, 0)
	}
	r.n[i] += n
	r.total += n
}

// since is how many there are after an instant; what is older is forgotten.
func (r *recent) since(after pool.Time) int64 {
	old := 0
	for old < len(r.at) && r.at[old] <= after {
		r.total -= r.n[old]
		old++
	}
	r.at, r.n = r.at[old:], r.n[old:]
	return r.total
}
