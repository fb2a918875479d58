package storetest

import (
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/plimsoll-project/plimsoll/pool"
)

// bank is a small model of one pool, in refuse mode and with a clock that stands still: what
// a history of concurrent calls must be explained by. It shares no line with package pool.
type bank struct {
	cap      int
	audience bool // the pool's slots are held by no host
	last     int64
	slots    [bankKeys]slot
}

const bankKeys = 3

// slot is what a bank knows of one key; state is empty as long as there is no admission.
type slot struct {
	state      pool.State
	gen, epoch int64
	instance   string
}

// unseen is a generation that nobody was told: it is newer than all that anybody was.
const unseen = 1 << 60

// call is one call's input.
type call struct {
	pool     int
	key      int
	do       string
	gen      int64 // or the epoch
	instance string
}

// outcome is what a call answered; an unknown one may have happened, or happen later.
type outcome struct {
	unknown    bool
	word       string // a verdict, or what the call says of itself
	state      pool.State
	gen, epoch int64 // of the row that was told; zero for none
}

// bankModel explains histories of several banks.
func bankModel(banks []bank) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{bank{}} },
		Step: func(state, in, out any) []any {
			b, c, o := state.(bank), in.(call), out.(outcome)
			if b.cap == 0 {
				b = banks[c.pool]
			}
			return b.explain(c, o)
		},
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, len(banks))
			for _, op := range history {
				i := op.Input.(call).pool
				parts[i] = append(parts[i], op)
			}
			return parts
		},
	}
	return m.ToModel()
}

// explain returns the banks that this one may be after the call had this outcome.
func (b bank) explain(c call, o outcome) (after []any) {
	if o.unknown {
		happened, _ := b.after(c, unseen)
		return []any{b, happened}
	}
	for _, known := range b.recognize(c, o) {
		if next, out := known.after(c, o.gen); out == o && (o.word != string(pool.Granted) || o.gen > b.last) {
			next.last = max(next.last, o.gen)
			after = append(after, next)
		}
	}
	return after
}

// recognize gives a generation that nobody was told yet each name that it may have here.
func (b bank) recognize(c call, o outcome) []bank {
	all := []bank{b}
	s := b.slots[c.key]
	if s.gen != unseen {
		return all
	}
	for _, gen := range []int64{c.gen, o.gen} {
		if named := s; gen > 0 {
			named.gen = gen
			if named.epoch == unseen {
				named.epoch = gen
			}
			other := b
			other.slots[c.key] = named
			all = append(all, other)
		}
	}
	return slices.Compact(all)
}

// after is the one rule for each call: the bank afterwards, and what the call answers. gen is
// the generation that a grant takes.
func (b bank) after(c call, gen int64) (bank, outcome) {
	s := &b.slots[c.key]
	var word string
	switch c.do {
	case "claim":
		word = b.claim(s, gen)
		if word == string(pool.PoolFull) {
			return b, outcome{word: word}
		}
	case "settle":
		if word = "no"; s.state == pool.Placing && s.gen == c.gen {
			s.state, s.epoch, word = pool.Admitted, s.gen, "ok"
		}
	case "renew":
		word = yes(s.state == pool.Admitted && s.epoch == c.gen)
	case "hear":
		word = yes(s.held() && s.epoch == c.gen)
	case "redeem":
		word = s.redeem(c)
		if word == string(pool.RedeemUnknown) && s.state == "" {
			return b, outcome{word: word}
		}
	case "leave":
		word = yes(s.state != "")
		switch {
		case s.state == pool.Placing, b.audience && s.held():
			s.state = pool.Released
		case s.held():
			s.state = pool.Releasing
		}
	case "end":
		return b, outcome{word: s.end(c)}
	}
	return b, outcome{word: word, state: s.state, gen: s.gen, epoch: s.epoch}
}

func yes(ok bool) string {
	if ok {
		return "ok"
	}
	return "no"
}

func (s *slot) held() bool { return s.state == pool.Admitted || s.state == pool.Running }

func (b *bank) claim(s *slot, gen int64) string {
	switch s.state {
	case pool.Placing:
		return string(pool.BusyPlacing)
	case pool.Admitted, pool.Running:
		return string(pool.Existing)
	case pool.Releasing:
		return string(pool.BusyLeaving)
	}
	busy := 0
	for _, other := range b.slots {
		if other.state != "" && other.state != pool.Released {
			busy++
		}
	}
	if busy >= b.cap {
		return string(pool.PoolFull)
	}
	s.state, s.gen, s.instance = pool.Placing, gen, ""
	if b.audience {
		s.state, s.epoch = pool.Admitted, gen
	}
	return string(pool.Granted)
}

func (s *slot) redeem(c call) string {
	switch {
	case s.state == "" || s.epoch < c.gen:
		return string(pool.RedeemUnknown)
	case s.epoch > c.gen:
		return string(pool.RedeemSuperseded)
	case s.state == pool.Running && s.instance == c.instance:
		return string(pool.Redeemed)
	case s.state == pool.Running:
		return string(pool.RedeemReplayed)
	case s.state == pool.Released:
		return string(pool.RedeemReleased)
	}
	s.state, s.instance = pool.Running, c.instance
	return string(pool.Redeemed)
}

func (s *slot) end(c call) string {
	switch {
	case s.state == pool.Placing && s.gen == c.gen:
		return "again"
	case (s.held() || s.state == pool.Releasing) && s.epoch == c.gen:
		s.state = pool.Released
		return "ok"
	}
	return "no"
}
