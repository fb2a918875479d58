package pool

// Holder is on whose account a slot of a pool is held: shares are per consumer or per
// priority of the class.
type Holder struct {
	Consumer string
	Priority int64
}

// Share is a part of a pool that is for one consumer, or for the classes of one priority.
// What is reserved is never lent: when nobody of the share holds it, it stays free.
type Share struct {
	Consumer string // whose; empty: of a priority
	Priority int64
	Reserved int64 // slots that nobody else gets
	Max      int64 // most slots that the share may hold at once, reserved ones included; zero for no bound
}

func (s Share) covers(h Holder) bool {
	if s.Consumer != "" {
		return s.Consumer == h.Consumer
	}
	return s.Priority == h.Priority
}

// most is how many slots it may hold.
func (s Share) most() int64 {
	if s.Max == 0 {
		return endless
	}
	return s.Max
}

// shareOf returns the index of a holder's share: its consumer's before its priority's, and
// -1 when it has none.
func (l *Limits) shareOf(h Holder) int {
	of := -1
	for i, s := range l.Shares {
		switch {
		case !s.covers(h):
		case s.Consumer != "":
			return i
		case of < 0:
			of = i
		}
	}
	return of
}

// ShareStanding is how a share stands at one moment.
type ShareStanding struct {
	Share
	Held int64
}

// Stand says how each share stands, given what is held of the pool.
func (l *Limits) Stand(held map[Holder]int64) []ShareStanding {
	out := make([]ShareStanding, len(l.Shares))
	for i, s := range l.Shares {
		out[i].Share = s
	}
	for h, n := range held {
		if i := l.shareOf(h); i >= 0 {
			out[i].Held += n
		}
	}
	return out
}

const endless = 1 << 40 // slots of a pool without a cap

// slots are what nobody holds of a pool, parted by who may take it:
//
//	common = cap − Σ reserved − Σ max(held − reserved, 0), over shares; own = max(reserved − held, 0)
//
// After a cap was lowered they may not all be there: free bounds them.
type slots struct {
	limits *Limits
	free   int64   // in all
	common int64   // of no share; below zero when a cap was lowered
	own    []int64 // by share: what is left of its reserve
	room   []int64 // by share: what is left below its max
}

// freeSlots parts what is free, given what is held.
func freeSlots(l *Limits, held map[Holder]int64) slots {
	s := slots{limits: l, free: l.Cap, common: l.Cap}
	if l.Cap == Unlimited {
		s.free, s.common = endless, endless
	}
	for _, share := range l.Shares {
		s.common -= share.Reserved
		s.own = append(s.own, share.Reserved)
		s.room = append(s.room, share.most())
	}
	for h, n := range held {
		s.hold(h, n)
	}
	return s
}

// hold takes n slots whether they are free or not: they are held.
func (s *slots) hold(h Holder, n int64) {
	s.free -= n
	i := s.limits.shareOf(h)
	if i < 0 {
		s.common -= n
		return
	}
	own := min(n, s.own[i])
	s.own[i] -= own
	s.common -= n - own
	s.room[i] -= n
}

// open is how many slots the holder could take now.
func (s *slots) open(h Holder) int64 {
	n := max(s.common, 0)
	if i := s.limits.shareOf(h); i >= 0 {
		n = min(n+s.own[i], s.room[i])
	}
	return max(min(n, s.free), 0)
}

// short is by how many slots the cap would have to rise, and what the holder's share may hold at
// most, for it to find one open after n others took one each, of whom so many are of its share.
func (s *slots) short(h Holder, n, ofShare int64) (slots, share int64) {
	var own int64
	if i := s.limits.shareOf(h); i >= 0 {
		own, share = s.own[i], max(1+ofShare-s.room[i], 0)
	}
	slots = max(1+n-s.free, 0)
	if own <= ofShare {
		slots = max(slots, 1+n-own-s.common)
	}
	return slots, share
}

// full says whether the holder's share holds all that it may, whatever else is free.
func (s *slots) full(h Holder) bool {
	i := s.limits.shareOf(h)
	return i >= 0 && s.room[i] <= 0
}

// standing says how the holder's share stands, and how many free slots are kept for others'.
func (s *slots) standing(h Holder) (mine ShareStanding, setAside int64) {
	i := s.limits.shareOf(h)
	for j, share := range s.limits.Shares {
		if j != i {
			setAside += s.own[j]
			continue
		}
		mine.Share, mine.Held = share, share.most()-s.room[j]
	}
	return mine, max(min(setAside, s.free), 0)
}
