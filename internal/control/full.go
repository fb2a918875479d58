package control

import (
	"strings"

	"github.com/plimsoll-project/plimsoll/pool"
)

// fullBecause is the one line that says why a pool gave no slot: who holds them, what is
// reserved for whom, and whose word it is when it is an operator's.
func fullBecause(name string, s pool.Standing) string {
	parts := []string{slotsOf(name, s)}
	if o := s.Override; o.Since != 0 {
		parts = append(parts, operatorsWord(o))
	}
	if s.Share.Share != (pool.Share{}) {
		parts = append(parts, shareOf(s))
	}
	if s.SetAside > 0 {
		parts = append(parts, itoa(s.SetAside)+" free reserved for others")
	}
	return strings.Join(append(parts, itoa(s.InLine)+" waiting"), ", ")
}

func slotsOf(name string, s pool.Standing) string {
	line := "pool " + name + " has " + itoa(s.Busy)
	if s.Cap != pool.Unlimited {
		line += " of " + itoa(s.Cap) + " slots taken"
	}
	return line
}

func operatorsWord(o pool.Override) string {
	line := "its cap is set to " + itoa(o.Cap)
	if o.Cap == 0 {
		line = "it is held"
	}
	line += " by " + o.By
	if o.Until != 0 {
		line += " until " + o.Until.Wall().Format(timeFormat)
	}
	return line + " (" + o.Reason + ")"
}

// shareOf says how the claimant's own share stands, and whether it is that which is full.
func shareOf(s pool.Standing) string {
	whose := "consumer " + s.Share.Consumer
	if s.Share.Consumer == "" {
		whose = "priority " + itoa(s.Share.Priority)
	}
	line := "the share of " + whose + " holds " + itoa(s.Share.Held)
	if s.ShareFull {
		line += ", its most"
	} else if s.Share.Max > 0 {
		line += " of at most " + itoa(s.Share.Max)
	}
	return line + " (" + itoa(s.Share.Reserved) + " reserved)"
}
