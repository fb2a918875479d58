package regimes

import (
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/played"
)

// future is what those who live on a host now will hold in each second to come, as nobody but an
// oracle knows. What lies beyond the end of the play is nobody's.
type future []gate.Bytes

// add counts a life that begins in a second, from its given second on; sign -1 takes it out.
func (f future) add(life *played.Life, begins, from int, sign gate.Bytes) {
	for age := from; age < life.Seconds && begins+age < len(f); age++ {
		f[begins+age] += sign * life.At(age)
	}
}

// holds says whether a life that begins in a second stays within a line to its end, beside what
// lives there.
func (f future) holds(life *played.Life, begins int, line gate.Bytes) bool {
	for age := 0; age < life.Seconds && begins+age < len(f); age++ {
		if f[begins+age]+life.At(age) > line {
			return false
		}
	}
	return true
}
