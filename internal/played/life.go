package played

import "github.com/plimsoll-project/plimsoll/gate"

// Life is what a sandbox holds in each second of it: what a run held, drawn out over as many
// seconds as this one lives, and in proportion to its size.
type Life struct {
	Resident []gate.Bytes // of the run
	Seconds  int          // that this one lives
	Size, Of gate.Bytes   // it is configured with Size, the run was with Of; equal: as the run was
}

// AsItWas is the run's own life.
func AsItWas(resident []gate.Bytes) Life { return Life{Resident: resident, Seconds: len(resident)} }

// At is what is resident in a second of it.
func (l *Life) At(second int) gate.Bytes {
	if l.Seconds != len(l.Resident) {
		second = int(int64(second) * int64(len(l.Resident)) / int64(l.Seconds))
	}
	b := l.Resident[second]
	if l.Size != l.Of {
		b = b.Scale(int64(l.Size), int64(l.Of))
	}
	return b
}
