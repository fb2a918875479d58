package pressure_test

import (
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/pressure"
)

// diary is the valve as one would write it at first: it keeps every reading and looks back
// through all of them.
type diary struct {
	at    []pressure.Instant
	seen  []pressure.Reading
	shut  bool
	shuts []pressure.Instant // each time it shut
	opens []pressure.Instant // each time it opened
	dwell time.Duration
}

func (d *diary) step(now pressure.Instant, r pressure.Reading) {
	d.at, d.seen = append(d.at, now), append(d.seen, r)
	switch {
	case shuts(r) && !d.shut:
		d.dwell = d.nextDwell(now)
		d.shut, d.shuts = true, append(d.shuts, now)
	case d.shut && d.calmFor(now):
		d.shut, d.opens = false, append(d.opens, now)
	}
}

func (d *diary) nextDwell(now pressure.Instant) time.Duration {
	if n := len(d.opens); n > 0 && now < d.opens[n-1]+15*time.Second {
		return min(2*d.dwell, 5*time.Minute)
	}
	return 15 * time.Second
}

// calmFor says whether the calm that ends with the last reading began a dwell ago.
func (d *diary) calmFor(now pressure.Instant) bool {
	since := now + 1
	for i := len(d.seen) - 1; i >= 0 && calm(d.seen[i]) && !shuts(d.seen[i]); i-- {
		since = d.at[i]
	}
	if last := d.shuts[len(d.shuts)-1]; since < last {
		since = last
	}
	return since <= now-d.dwell
}

// The design's sentences, one by one, in MiB that no product can wrap.
func shuts(r pressure.Reading) bool {
	free, headroom, spare, growth := mib(r)
	return 2*free < headroom ||
		(r.PSI && r.Some >= 1000 && free < 2*headroom) ||
		(growth > 0 && 5*growth > spare) || lost(r)
}

func calm(r pressure.Reading) bool {
	free, headroom, spare, growth := mib(r)
	quiet := !r.PSI || r.Some < 500 || 2*free > 5*headroom
	return quiet && free >= headroom && (growth <= 0 || 10*growth <= spare)
}

func lost(r pressure.Reading) bool {
	free, headroom, _, _ := mib(r)
	return 4*free < headroom || (r.PSI && r.Full >= 500 && free < headroom)
}

func mib(r pressure.Reading) (free, headroom, spare, growth int64) {
	return int64(r.Free), int64(r.Headroom), int64(r.Spare), int64(r.Growth)
}

// Any readings at any times move the valve as they do the diary.
func FuzzValve(f *testing.F) {
	f.Add([]byte{1, 9, 9, 0, 0, 0, 200, 200, 200, 0, 0, 0, 200, 200, 200, 0, 0, 0, 200, 200, 200, 0, 0, 0})
	f.Add([]byte{1, 3, 200, 0, 0, 1, 60, 200, 200, 0, 0, 0, 60, 200, 200, 0, 0, 0, 1, 8, 200, 0, 200, 1, 255, 40, 40, 0, 9, 1, 255, 40, 40, 0, 9, 1})
	f.Add([]byte{4, 100, 20, 5, 0, 0, 4, 100, 90, 5, 0, 0, 61, 100, 90, 9, 0, 0, 61, 100, 90, 9, 0, 0, 61, 100, 90, 10, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		v, d := pressure.NewValve(pressure.DefaultMarks()), diary{}
		now := pressure.Instant(0)
		for len(data) >= 6 {
			now += time.Duration(data[0]) * time.Second / 4
			r := pressure.Reading{
				Headroom: 16 * gate.MiB,
				Free:     gate.Bytes(data[1]) * gate.MiB / 4, Spare: gate.Bytes(int8(data[2])) * gate.MiB,
				Growth: gate.Bytes(int8(data[3])) * gate.MiB,
				PSI:    data[5]&1 != 0, Some: int64(data[4]) * 10, Full: int64(data[5]) * 10,
			}
			data = data[6:]
			was := v.Shut() != pressure.None
			moved := v.Step(now, r)
			d.step(now, r)
			isShut := v.Shut() != pressure.None
			if isShut != d.shut || moved != (was != isShut) || (isShut && v.Dwell() != d.dwell) {
				t.Fatalf("at %v after %+v: valve %q (moved %v, dwell %v), diary shut %v (dwell %v)",
					now, r, v.Shut(), moved, v.Dwell(), d.shut, d.dwell)
			}
			if r.Lost(pressure.DefaultMarks()) != lost(r) {
				t.Fatalf("%+v: lost %v", r, !lost(r))
			}
		}
	})
}
