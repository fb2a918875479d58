package density

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
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

// occupant is a sandbox on the host.
type occupant struct {
	id      string
	run     *workload.Run
	age     int // seconds
	started bool
	tracked bool
}

// machine is the host, what lives on it, and whoever waits outside.
type machine struct {
	play
	rand *rand.Rand
	seen Figures

	host     *host.Host
	now      host.Instant
	need     gate.Bytes
	reserve  gate.Bytes
	lives    []occupant
	sample   host.Sample
	resident gate.Bytes
	placed   int64
	waiting  int  // of the cohort that is next
	full     bool // it has been, since it was empty
}

const incarnation = 1

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
	m.host, m.full = host.New(cfg, incarnation), false
	m.lives = m.lives[:0]
	m.waiting = m.Cohort
	m.sample.Limits = []gate.Limit{{Name: "machine", Size: m.Memory}}
	m.sample.Full = true
}

// second lets one pass: who is done goes, who was starting has, everybody is measured, and who
// fits comes.
func (m *machine) second() error {
	m.now += time.Second
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
	stay := m.lives[:0]
	for _, o := range m.lives {
		if o.age < len(o.run.Resident) {
			stay = append(stay, o)
			continue
		}
		m.seen.ended++
		if o.run.Peak > m.reserve {
			m.seen.above++
		}
		if err := m.step(host.Done{ID: o.id, Epoch: 1}); err != nil {
			return err
		}
		if err := m.step(host.Acked{ID: o.id, Epoch: 1}); err != nil {
			return err
		}
	}
	m.lives = stay
	return nil
}

// track gives the starts back that were begun before; whoever waits for one begins.
func (m *machine) track() error {
	begun := 0
	for begun < len(m.lives) && m.lives[begun].started {
		begun++
	}
	for i := range begun {
		if o := &m.lives[i]; !o.tracked {
			o.tracked = true
			if err := m.step(host.Track{ID: o.id, Epoch: 1}); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure is the agent's sample of this second.
func (m *machine) measure() error {
	m.resident = 0
	m.sample.Sandboxes = m.sample.Sandboxes[:0]
	for i := range m.lives {
		o := &m.lives[i]
		if !o.tracked {
			continue
		}
		now := o.run.Resident[o.age]
		o.age++
		m.resident += now
		m.sample.Sandboxes = append(m.sample.Sandboxes, host.Resident{ID: o.id, Bytes: now})
	}
	m.sample.Limits[0].Used = m.resident
	return m.step(m.sample)
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
		if !gate.Fits(m.host.Admittable(), m.need) {
			m.full = true
			return nil
		}
		if denial := m.reserveOne(); denial == host.StartsFull {
			return nil
		} else if denial != "" {
			return fmt.Errorf("the host has room for %s, and denies it: %s", m.need, denial)
		}
		m.waiting--
	}
	return nil
}

// reserveOne asks for the next sandbox, and redeems what it is given at once.
func (m *machine) reserveOne() host.Denial {
	m.placed++
	o := occupant{id: fmt.Sprintf("s%d", m.placed), run: &m.Runs[m.rand.IntN(len(m.Runs))]}
	reserve := host.Reserve{ID: o.id, Gen: 1, Ask: m.Ask, Until: m.now + time.Minute, Incarnation: incarnation}
	if denial := m.host.Step(m.now, reserve).Answer.Denial; denial != "" {
		return denial
	}
	redeemed := m.host.Step(m.now, host.Redeem{ID: o.id, Epoch: 1}).Answer
	o.started = !redeemed.InLine
	m.lives = append(m.lives, o)
	if redeemed.Denial == "" && !m.Boots {
		m.lives[len(m.lives)-1].tracked = true
		return m.host.Step(m.now, host.Track{ID: o.id, Epoch: 1}).Answer.Denial
	}
	return redeemed.Denial
}

// step steps the host. Whatever it denies here it had said before that it would not.
func (m *machine) step(ev host.Event) error {
	fx := m.host.Step(m.now, ev)
	if a := fx.Answer; a.Denial != "" {
		return fmt.Errorf("the host denies %T: %s %s", ev, a.Denial, a.Detail)
	}
	for _, ref := range fx.Starts {
		for i := range m.lives {
			if m.lives[i].id == ref.ID {
				m.lives[i].started = true
			}
		}
	}
	return nil
}

func (m *machine) count() {
	f := &m.seen
	f.HostSeconds++
	f.Most = max(f.Most, m.resident.CeilMiB())
	if m.resident > m.Memory {
		f.OverPhysical++
	}
	if m.host.Intake() == host.IntakePressure {
		f.Shut++
		if m.fitsButForTheDwell() {
			f.Dwelt++
		}
	}
	f.allSeconds += int64(len(m.lives))
	if m.full {
		f.fullSeconds++
		f.sandboxSeconds += int64(len(m.lives))
	}
}

// fitsButForTheDwell says whether the host has room for the next by its own books, and nothing
// keeps its intake shut any more but that the calm has not lasted long enough.
func (m *machine) fitsButForTheDwell() bool {
	v := m.host.View()
	return gate.Fits(gate.Admittable(v.Account), m.need) && v.Reading.Calm(v.Config.Marks)
}
