package hostmem

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// PSI is how long tasks stalled for want of memory. The averages are in hundredths of
// a percent, so that 9.63 is 963 and the same on every machine.
type PSI struct {
	SomeAvg10 int64         // at least one task stalled, last 10 s
	FullAvg10 int64         // all of them did
	SomeTotal time.Duration // since boot
	FullTotal time.Duration
}

// ParsePSI reads /proc/pressure/memory or a cgroup's memory.pressure:
//
//	some avg10=9.63 avg60=2.04 avg300=0.46 total=1482135
//	full avg10=8.90 avg60=1.85 avg300=0.42 total=1370054
//
// total is in microseconds.
func ParsePSI(text []byte) (PSI, error) {
	var p PSI
	seen := false
	eachLine(text, func(key, rest []byte) {
		switch string(key) {
		case "some":
			p.SomeAvg10, p.SomeTotal = psiLine(rest)
			seen = true
		case "full":
			p.FullAvg10, p.FullTotal = psiLine(rest)
		}
	})
	if !seen {
		return PSI{}, errors.New(`pressure file holds no "some" line: is it the kernel's own?`)
	}
	return p, nil
}

func psiLine(line []byte) (avg10 int64, total time.Duration) {
	for len(line) > 0 {
		var word []byte
		word, line = cutWord(line)
		name, value, _ := bytes.Cut(word, []byte("="))
		switch string(name) {
		case "avg10":
			avg10 = hundredths(value)
		case "total":
			n, _ := number(value)
			total = time.Duration(min(n, math.MaxInt64/1000)) * time.Microsecond
		}
	}
	return avg10, total
}

// hundredths reads "9.63" as 963. The kernel always prints two decimals; one is read as
// tens and a third is dropped, should that change.
func hundredths(text []byte) int64 {
	whole, frac, _ := bytes.Cut(text, []byte("."))
	w, _ := number(whole)
	n := min(w, math.MaxInt64/1000) * 100
	for i, unit := 0, int64(10); i < len(frac) && unit > 0; i, unit = i+1, unit/10 {
		if frac[i] < '0' || frac[i] > '9' {
			break
		}
		n += int64(frac[i]-'0') * unit
	}
	return n
}

// Pressure returns the memory pressure of a cgroup in the unified hierarchy, or of the
// whole machine for "". It says false where the kernel keeps none: built without PSI,
// booted with psi=0, or no unified hierarchy to ask for a cgroup.
func (m *Machine) Pressure(cgroup string) (PSI, bool, error) {
	file := m.proc + "/pressure/memory"
	if cgroup != "" {
		if !m.unified.Mounted() {
			return PSI{}, false, nil
		}
		file = m.unified.Dir(cgroup) + "/memory.pressure"
	}
	p, err := reread(m, file, ParsePSI)
	switch {
	case err == nil:
		return p, true, nil
	case errors.Is(err, unix.EOPNOTSUPP):
		return PSI{}, false, nil
	case errors.Is(err, fs.ErrNotExist) && (cgroup == "" || exists(m.unified.Dir(cgroup))):
		return PSI{}, false, nil
	}
	return PSI{}, false, err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
