package hindsight

import "fmt"

// Enough is how many outcomes a conclusion should rest on.
const Enough = 100

// Conclusions says in words what the table shows, and what to do about it.
func (c *Tally) Conclusions() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	yes, told := c.Cells[1], int64(0)
	for _, cell := range yes {
		told += cell.Total() - cell[Unknown]
	}
	switch {
	case c.Decisions() == 0:
		return []string{"nothing was judged yet: post decisions to /v1/observations, and later their outcomes"}
	case told == 0:
		say("no outcome was told yet: without one nobody was wrong; post it under the decision's key and host")
	case told < Enough:
		say("%d outcomes are few: conclude nothing from less than %d", told, Enough)
	}
	if c.Unjudged > 0 {
		say("%d decisions could not be judged: nothing had been heard of their host by then", c.Unjudged)
	}
	if told == 0 {
		return out
	}
	if n := c.Count(WrongYes); n > 0 {
		say("Plimsoll would have been wrong to say yes %d times (%s of %d it would have admitted): raise reserve_fraction, reserve_floor or the headroom, or use committed", n, share(n, yes[1].Total()-yes[1][Unknown]), yes[1].Total()-yes[1][Unknown])
	} else if yes[1].Total() > yes[1][Unknown] {
		say("none of what Plimsoll would have admitted failed for memory")
	}
	if n := c.Count(WrongNo); n > 0 {
		say("Plimsoll would have refused %d that fitted (%s of the outcomes): look at their reasons; lower the reserves or the headroom if they are no_room", n, share(n, told))
	}
	if n := c.Count(Prevented); n > 0 {
		say("%d of the other scheduler's failures would have been refused by Plimsoll", n)
	}
	if n := c.Cells[0][1].Total(); n > 0 {
		say("the other scheduler refused %d where Plimsoll had room: capacity that was paid for and not used, if nothing else stood against it", n)
	}
	return out
}

// share writes a part of a whole in percent.
func share(n, of int64) string {
	if of == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}
