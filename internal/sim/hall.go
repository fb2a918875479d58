package sim

import "github.com/plimsoll-project/plimsoll/pool"

// hall is a pool as an onlooker sees it at one moment: how many of its slots are held, and by
// which share. He lets waiters in one after the other, and knows a single rule.
type hall struct {
	shares []pool.Share
	most   int64   // the cap in force
	total  int64   // slots held
	held   []int64 // by share
}

func (f *Fleet) hall(name string) hall {
	l := &f.store.loads
	h := hall{shares: l.caps.settings.Pools[name].Shares, most: l.caps.most(name, f.model().Now())}
	h.held = make([]int64, len(h.shares))
	for who, n := range l.held[name] {
		h.total += n
		if i := h.shareOf(who); i >= 0 {
			h.held[i] += n
		}
	}
	return h
}

// shareOf is a holder's share, -1 for none: one that names its consumer, before one that
// names its priority.
func (h *hall) shareOf(who holder) int {
	for i, s := range h.shares {
		if s.Consumer != "" && s.Consumer == who.consumer {
			return i
		}
	}
	for i, s := range h.shares {
		if s.Consumer == "" && s.Priority == who.priority {
			return i
		}
	}
	return -1
}

// fits says whether one more slot may be held: below the cap and the share's max, and either
// out of the share's own reserve, or so that every share can still fill its reserve afterwards.
func (h *hall) fits(who holder) bool {
	i := h.shareOf(who)
	switch {
	case h.total >= h.most:
		return false
	case i >= 0 && h.shares[i].Max > 0 && h.held[i] >= h.shares[i].Max:
		return false
	case i >= 0 && h.held[i] < h.shares[i].Reserved:
		return true
	}
	unfilled := int64(0)
	for j, s := range h.shares {
		unfilled += max(s.Reserved-h.held[j], 0)
	}
	return h.total+unfilled < h.most
}

// enter lets one in, if it fits.
func (h *hall) enter(who holder) bool {
	if !h.fits(who) {
		return false
	}
	h.total++
	if i := h.shareOf(who); i >= 0 {
		h.held[i]++
	}
	return true
}
