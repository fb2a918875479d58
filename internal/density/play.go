package density

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/played"
	"github.com/plimsoll-project/plimsoll/internal/workload"
)

// play is one host under one policy.
type play struct {
	Runs    []workload.Run // the sandboxes to come are drawn from these
	Ask     gate.Ask
	Mode    gate.Mode
	Memory  gate.Bytes // of the machine
	Cohort  int        // so many sandboxes are asked for together, and start together as far as they fit
	Seconds int64
	Renewed int64 // seconds after which the host is empty again, so that cohorts start as one
	Boots   bool  // a start takes a second, and the host lets only so many start at a time
	Seed    uint64
}

// Figures are what was seen in a number of host-seconds.
type Figures struct {
	PerHost      float64 `json:"per_host"`
	OverPhysical int64   `json:"over_physical_s"`
	HostSeconds  int64   `json:"host_s"`
	Most         int64   `json:"most_resident_mb"` // on one host in one second
	Shut         int64   `json:"shut_s"`           // seconds in which the valve was shut
	Dwelt        int64   `json:"dwelt_s"`          // of them, those in which only its dwell kept out who would have fitted

	sandboxSeconds, fullSeconds int64 // from when a host was full on
	allSeconds                  int64 // of sandboxes, full or not
	above, ended                int64 // runs that peaked above their reserve, and all that ended
}

func (f *Figures) add(o Figures) {
	f.OverPhysical += o.OverPhysical
	f.HostSeconds += o.HostSeconds
	f.Most = max(f.Most, o.Most)
	f.Shut += o.Shut
	f.Dwelt += o.Dwelt
	f.sandboxSeconds += o.sandboxSeconds
	f.fullSeconds += o.fullSeconds
	f.above += o.above
	f.ended += o.ended
	switch f.allSeconds += o.allSeconds; {
	case f.fullSeconds > 0:
		f.PerHost = float64(f.sandboxSeconds) / float64(f.fullSeconds)
	case f.HostSeconds > 0: // it never was
		f.PerHost = float64(f.allSeconds) / float64(f.HostSeconds)
	}
}

// machine is the host, and whoever waits outside.
type machine struct {
	play
	*played.Host
	rand *rand.Rand
	seen Figures

	need    gate.Bytes
	reserve gate.Bytes
	placed  int64
	waiting int  // of the cohort that is next
	full    bool // it has been, since it was empty
}

// run plays to the end, or until ctx is done; told hears how many seconds have passed.
func (p play) run(ctx context.Context, told func(seconds int64)) (Figures, error) {
	m := &machine{play: p, rand: rand.New(rand.NewPCG(p.Seed, 0x64656e73697479))}
	m.need, m.reserve = p.Ask.NeedOn(p.Mode), p.Ask.ReserveOn(p.Mode)
	const lap = 1000
	for s := range p.Seconds {
		if s%p.Renewed == 0 {
			m.renew()
		}
		if err := m.second(); err != nil {
			return Figures{}, fmt.Errorf("second %d: %w", s, err)
		}
		if (s+1)%lap == 0 {
			told(lap)
			if ctx.Err() != nil {
				return Figures{}, ctx.Err()
			}
		}
	}
	told(p.Seconds % lap)
	var f Figures
	f.add(m.seen)
	return f, nil
}

// renew puts an empty host in the place of the last one.
func (m *machine) renew() {
	cfg := host.DefaultConfig("h1", 8)
	cfg.Mode = m.Mode
	h := played.New(cfg, m.play.Memory, m.play.Boots)
	if m.Host != nil {
		h.Now = m.Now
	}
	m.Host, m.full = h, false
	m.waiting = m.Cohort
}

// second lets one pass: who is done goes, who was starting has, everybody is measured, and who
// fits comes.
func (m *machine) second() error {
	m.Now += time.Second
	for _, part := range []func() error{m.leave, m.track, m.measure, m.admit} {
		if err := part(); err != nil {
			return err
		}
	}
	m.count()
	return nil
}

// leave ends the sandboxes whose runs are over.
func (m *machine) leave() error {
	return m.Leave(func(s *played.Sandbox) {
		m.seen.ended++
		if m.Runs[s.Of].Peak > m.reserve {
			m.seen.above++
		}
	})
}

func (m *machine) track() error { return m.Track(func(*played.Sandbox) {}) }

// measure is the agent's sample of this second.
func (m *machine) measure() error {
	m.Touch()
	_, err := m.Measure()
	return err
}

// aSecond is how many sandboxes are asked for in a second at least, in whole cohorts: more than
// end in one, so that the host is full.
const aSecond = 4

// admit lets in whoever fits. Of a cohort that does not fit whole, the rest stays at the head of
// the line.
func (m *machine) admit() error {
	for range (aSecond + m.Cohort - 1) / m.Cohort {
		if err := m.admitCohort(); err != nil || m.waiting > 0 {
			return err
		}
		m.waiting = m.Cohort
	}
	return nil
}

func (m *machine) admitCohort() error {
	for m.waiting > 0 {
		if !gate.Fits(m.Admittable(), m.need) {
			m.full = true
			return nil
		}
		switch denial, err := m.reserveOne(); {
		case err != nil:
			return err
		case denial == host.StartsFull:
			return nil
		case denial != "":
			return fmt.Errorf("the host has room for %s, and denies it: %s", m.need, denial)
		}
		m.waiting--
	}
	return nil
}

// reserveOne asks for the next sandbox.
func (m *machine) reserveOne() (host.Denial, error) {
	m.placed++
	of := m.rand.IntN(len(m.Runs))
	return m.Admit(played.Sandbox{ID: fmt.Sprintf("s%d", m.placed), Epoch: 1, Of: of, Life: played.AsItWas(m.Runs[of].Resident)}, m.Ask)
}

func (m *machine) count() {
	f := &m.seen
	f.HostSeconds++
	f.Most = max(f.Most, m.Resident.CeilMiB())
	if m.Resident > m.play.Memory {
		f.OverPhysical++
	}
	if m.Intake() == host.IntakePressure {
		f.Shut++
		if m.fitsButForTheDwell() {
			f.Dwelt++
		}
	}
	f.allSeconds += int64(len(m.Lives))
	if m.full {
		f.fullSeconds++
		f.sandboxSeconds += int64(len(m.Lives))
	}
}

// fitsButForTheDwell says whether the host has room for the next by its own books, and nothing
// keeps its intake shut any more but that the calm has not lasted long enough.
func (m *machine) fitsButForTheDwell() bool {
	v := m.View()
	return gate.Fits(gate.Admittable(v.Account), m.need) && v.Reading.Calm(v.Config.Marks)
}
