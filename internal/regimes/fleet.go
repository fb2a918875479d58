package regimes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/hint"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agenda"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/played"
	"github.com/plimsoll-project/plimsoll/table"
)

// play is one fleet under one regime.
type play struct {
	regime  regime
	quota   int64 // of each tenant, in sandboxes; 0: none
	asks    asks
	creates []create
	size    int // in hosts
	memory  gate.Bytes
	seconds int
	tenants int
	patient time.Duration
	seed    uint64
}

// machine is one host of it.
type machine struct {
	*played.Host
	name   string
	future future
	line   gate.Bytes // what may ever be resident: its memory less the headroom
}

// fleet is a play under way.
type fleet struct {
	play
	rand   *rand.Rand
	hosts  []*machine
	byName map[string]*machine
	table  *table.Table
	desk   *hint.Desk
	now    time.Duration
	second int
	next   int                    // of the creates
	line   agenda.Agenda[*waiter] // refused ones, by when they come back
	begins []int                  // create -> the second in which its life begins, of those that live
	lives  []int64                // tenant -> sandboxes
	seen   seen
}

func (p *play) begin() *fleet {
	f := &fleet{
		play: *p, rand: rand.New(rand.NewPCG(p.seed, 0x726567696d65)), table: table.New(table.Options{}),
		desk: hint.NewDesk(0), byName: map[string]*machine{},
		begins: make([]int, len(p.creates)), lives: make([]int64, p.tenants),
	}
	f.table.SetCohortRule(config.DefaultCohortPerHost, config.DefaultCohortWindow)
	for i := range p.size {
		name := fmt.Sprintf("host-%03d", i+1)
		m := &machine{Host: played.New(p.regime.config(name), p.memory, true), name: name, future: make(future, p.seconds)}
		m.line = p.memory.Sub(gate.DefaultHeadroom(m.Limits()))
		f.hosts, f.byName[name] = append(f.hosts, m), m
	}
	return f
}

// run plays to the end, or until ctx is done; told hears how many host-seconds have passed.
func (p *play) run(ctx context.Context, told func(seconds int64)) (Figures, error) {
	f := p.begin()
	const lap = 60
	for f.second = range p.seconds {
		if err := f.pass(); err != nil {
			return Figures{}, fmt.Errorf("%s, second %d: %w", p.regime.name, f.second, err)
		}
		if (f.second+1)%lap == 0 {
			told(lap * int64(len(f.hosts)))
			if err := f.check(); err != nil {
				return Figures{}, fmt.Errorf("%s, second %d: %w", p.regime.name, f.second, err)
			}
			if ctx.Err() != nil {
				return Figures{}, ctx.Err()
			}
		}
	}
	told(int64(p.seconds%lap) * int64(len(f.hosts)))
	return f.figures(), nil
}

// pass lets a second pass: on every host who is done goes and everybody is measured; then those
// are heard who ask, each at its own moment.
func (f *fleet) pass() error {
	f.now = time.Duration(f.second) * time.Second
	for _, m := range f.hosts {
		if err := f.live(m); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	f.desk.Freed(f.now, f.seen.freedNow)
	f.seen.freedNow = 0
	if err := f.hear(f.now + time.Second); err != nil {
		return err
	}
	f.count()
	return nil
}

// live is the second of one host. The kernel is there before the agent looks.
func (f *fleet) live(m *machine) error {
	m.Now = f.now
	err := m.Leave(func(s *played.Sandbox) { f.gone(s) })
	if err != nil {
		return err
	}
	if err := m.Track(func(s *played.Sandbox) { f.starts(m, s) }); err != nil {
		return err
	}
	m.Touch()
	f.look(m)
	for m.Resident > m.Memory() {
		f.seen.killed++
		if err := f.remove(m, largest(m.Lives), host.Done{OutOfMemory: true}); err != nil {
			return err
		}
	}
	evicted, err := m.Measure()
	if err != nil {
		return err
	}
	for _, id := range evicted {
		f.seen.evicted++
		i := slices.IndexFunc(m.Lives, func(s played.Sandbox) bool { return s.ID == id })
		if err := f.remove(m, i, host.Done{Evicted: true, By: host.Killed}); err != nil {
			return err
		}
	}
	return f.tell(m)
}

// look counts what the second wants of a machine, before anybody is killed for it.
func (f *fleet) look(m *machine) {
	f.seen.mostResident = max(f.seen.mostResident, m.Resident)
	if m.Resident > m.Memory() {
		f.seen.over++
	}
	if m.Resident > m.line {
		f.seen.low++
	}
	if f.regime.hosts && m.Intake() == host.IntakePressure {
		f.seen.shut++
	}
}

// largest is whom the kernel takes.
func largest(lives []played.Sandbox) (at int) {
	for i := range lives {
		if lives[i].Holds > lives[at].Holds {
			at = i
		}
	}
	return at
}

// starts notes that a life begins, later than was thought where it had to wait in line.
func (f *fleet) starts(m *machine, s *played.Sandbox) {
	if was := f.begins[s.Of]; was != f.second {
		m.future.add(&s.Life, was, 0, -1)
		m.future.add(&s.Life, f.second, 0, +1)
		f.begins[s.Of] = f.second
	}
}

// remove ends one before its time: what it would have held it does not, and its work is lost.
func (f *fleet) remove(m *machine, i int, how host.Done) error {
	s := m.Lives[i]
	m.future.add(&s.Life, f.begins[s.Of], s.Age, -1)
	f.seen.lost += int64(s.Age)
	f.gone(&s)
	return m.Remove(i, how)
}

// gone gives back what a tenant holds.
func (f *fleet) gone(s *played.Sandbox) {
	f.lives[f.creates[s.Of].tenant]--
	f.seen.freedNow++
}

// tell makes a host's word the table's.
func (f *fleet) tell(m *machine) error {
	v := control.TableVerdict(m.Verdict())
	_, err := f.table.Observe(&v, f.now)
	return err
}

// check proves now and then what always holds of a host.
func (f *fleet) check() error {
	for _, m := range f.hosts {
		if err := m.CheckInvariants(); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}
