package sim

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// agent is one host: the production state machine, real enough memory, and a life that
// can end at any instant.
type agent struct {
	fleet   *Fleet
	cfg     host.Config
	host    *host.Host
	up      bool
	life    int // rises with every restart: what an earlier life had in flight is void
	booted  time.Duration
	disk    map[host.Name]host.Record // name -> what a restart would find
	running map[host.Ref]gate.Bytes   // processes on the machine and what they hold; they outlive the agent
	waiting map[host.Ref]func()       // redeemed, their start not granted yet
}

// clock is the host's own: it began before the replicas' did.
func (a *agent) clock() host.Instant { return a.fleet.now + a.booted }

// step steps the host, keeps its records, checks it, and carries its effects out.
func (a *agent) step(ev host.Event) host.Answer {
	before := a.host.Admittable()
	fx := a.host.Step(a.clock(), ev)
	a.check(ev, before, fx)
	for _, r := range fx.Records {
		a.disk[r.Name()] = r
		if r.Gone {
			delete(a.disk, r.Name())
		}
	}
	answer, news := fx.Answer, host.News{Verdict: a.host.Verdict(), Ends: a.host.Unwritten()}
	starts, stops := append([]host.Ref(nil), fx.Starts...), append([]host.Ref(nil), fx.Stops...)
	if t, ok := ev.(host.Track); ok && answer.Denial == "" {
		news.Tracks = []host.Ref{{ID: t.ID, Epoch: t.Epoch}}
	}
	if fx.Publish || len(fx.Ends) > 0 || len(news.Tracks) > 0 {
		a.tell(news)
	}
	for _, ref := range starts {
		if start := a.waiting[ref]; start != nil {
			delete(a.waiting, ref)
			start()
		}
	}
	for _, ref := range stops {
		a.fleet.at(a.fleet.between(time.Millisecond, time.Second), func() { a.exit(ref, "stopped") })
	}
	return answer
}

// check proves what must hold of this very step, beside the host's own invariants.
func (a *agent) check(ev host.Event, before gate.Bytes, fx host.Effects) {
	if err := a.host.CheckInvariants(); err != nil {
		a.fleet.violate("host %s: %v", a.cfg.ID, err)
	}
	r, ok := ev.(host.Reserve)
	if !ok || fx.Answer.Denial != "" {
		return
	}
	if _, again := a.disk[host.Name{Kind: host.RecordReservation, ID: r.ID}]; !again && fx.Answer.Need > before {
		a.fleet.violate("host %s promised %s with %s admittable", a.cfg.ID, fx.Answer.Need, before)
	}
}

// tell sends news to every replica.
func (a *agent) tell(n host.News) {
	for _, r := range a.fleet.replicas {
		a.fleet.send(a.fleet.faults, func() { r.hear(a, n) })
	}
}

// do is a request over the network: the answer may come late, never, or after the request
// was carried out twice.
func (a *agent) do(ev host.Event, back func(host.Answer)) {
	f := a.fleet
	f.send(f.faults, func() {
		if !a.up {
			return
		}
		answer := a.step(ev)
		f.send(f.faults, func() { back(answer) })
	})
}

// sample measures what runs.
func (a *agent) sample() {
	if a.up {
		var seen []host.Resident
		var used gate.Bytes
		for _, s := range a.host.View().Sandboxes {
			if r, ok := a.running[host.Ref{ID: s.ID, Epoch: s.Epoch}]; ok {
				seen = append(seen, host.Resident{ID: s.ID, Bytes: r})
			}
		}
		for _, r := range a.running {
			used += r
		}
		a.step(host.Sample{Limits: []gate.Limit{{Name: "machine", Size: memory, Used: used}}, Full: true, Sandboxes: seen})
	}
	a.fleet.at(time.Second, a.sample)
}

// tick lets due things happen, as the agent's own timer does.
func (a *agent) tick() {
	if a.up {
		a.step(host.Tick{})
	}
	a.fleet.at(100*time.Millisecond, a.tick)
}

// redeem is a booter with a ticket: charge, wait for the start, track, run, end.
func (a *agent) redeem(ref host.Ref, resident gate.Bytes, lifetime time.Duration) {
	if !a.up {
		return
	}
	answer := a.step(host.Redeem{ID: ref.ID, Epoch: ref.Epoch, Identity: host.Identity{Consumer: "c", Key: ref.ID}})
	if answer.Denial != "" {
		return
	}
	life := a.life
	start := func() {
		a.fleet.at(a.fleet.between(time.Millisecond, 300*time.Millisecond), func() { a.boot(life, ref, resident, lifetime) })
	}
	if answer.InLine {
		a.waiting[ref] = start
		return
	}
	start()
}

// boot starts the process held, has it tracked, and lets it go.
func (a *agent) boot(life int, ref host.Ref, resident gate.Bytes, lifetime time.Duration) {
	if !a.up || a.life != life {
		return
	}
	if a.fleet.chance(5) {
		a.step(host.Done{ID: ref.ID, Epoch: ref.Epoch, Reason: "the boot failed"})
		return
	}
	if a.step(host.Track{ID: ref.ID, Epoch: ref.Epoch, Process: host.Process{Pid: 1}}).Denial != "" {
		return
	}
	a.running[ref] = resident
	a.fleet.onlyOne(ref)
	a.fleet.at(lifetime, func() { a.exit(ref, "ended by itself") })
}

// exit ends a process; an agent that is away hears of it when it is back.
func (a *agent) exit(ref host.Ref, reason string) {
	delete(a.running, ref)
	if a.up {
		a.step(host.Done{ID: ref.ID, Epoch: ref.Epoch, Reason: reason})
	}
}

// kill ends the agent at this instant; its sandboxes go on.
func (a *agent) kill() {
	if !a.up {
		return
	}
	a.up = false
	a.life++
	a.waiting = map[host.Ref]func(){}
	a.fleet.note("kill %s\n", a.cfg.ID)
	a.fleet.at(a.fleet.between(10*time.Millisecond, 15*time.Second), a.restart)
}

// restart brings it back with its records, re-adopts what runs, and lets go of the rest.
func (a *agent) restart() {
	var records []host.Record
	for _, name := range sortedNames(a.disk) {
		records = append(records, a.disk[name])
	}
	a.host = host.Restore(a.cfg, a.fleet.incarnations[a.cfg.ID], a.clock(), records)
	a.up = true
	for _, s := range a.host.View().Sandboxes {
		ref := host.Ref{ID: s.ID, Epoch: s.Epoch}
		if _, alive := a.running[ref]; !alive || s.Phase != host.Running {
			a.step(host.Done{ID: s.ID, Epoch: s.Epoch, Reason: "ended while the agent was away"})
		}
	}
}

func (a *agent) String() string { return fmt.Sprintf("agent %s", a.cfg.ID) }
