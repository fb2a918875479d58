package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// agent is one machine: the production state of a host, processes that outlive it, and a
// life that can end, or stand still, at any instant.
type agent struct {
	fleet       *Fleet
	index       int
	id          string
	cfg         host.Config
	memory      gate.Bytes // of the machine
	host        *host.Host
	incarnation int64
	keys        ticket.AudienceKeys

	up     bool
	life   int // rises with every end: what an earlier life had under way is void
	doze   doze
	booted time.Duration // its clock began so long before the world's
	drift  time.Duration // its clock gains so much a million seconds

	disk     map[host.Name]host.Record // name -> what a restart would find
	running  map[host.Ref]*process     // outlive the agent
	resident gate.Bytes                // Σ over running
	other    gate.Bytes                // used by something else
	stalls   int64                     // PSI some, hundredths of a percent; zero: the kernel gives none
	waiting  map[host.Ref]func()       // redeemed, their start not granted yet
	roomy    map[gate.Bytes]roomSince  // need -> since when it has had room for that
	own      roomSince                 // likewise, for the waiter that it sets memory aside for
	ownID    string
	witness  *witness              // survives the agent, as its sandboxes do
	soon     func()                // comes just before the next reserve
	copies   map[string]host.Event // id -> a frame whose second copy is under way
	booters  map[host.Ref]func()   // tickets that somebody may redeem at any moment
}

// process is a sandbox as the kernel knows it.
type process struct {
	resident gate.Bytes
	stubborn bool // goes on for as long as nobody counts on it
}

// roomSince says whether a host has room for a need, and since when.
type roomSince struct {
	has bool
	at  time.Duration
}

func (a *agent) clock() host.Instant { return a.clockAt(a.fleet.now) }

// clockAt is what the host's clock shows at an instant of the world.
func (a *agent) clockAt(now time.Duration) host.Instant {
	return a.booted + now + now/time.Microsecond*a.drift/time.Second
}

// step steps the host, keeps its records, checks it, and carries its effects out.
func (a *agent) step(ev host.Event) host.Answer {
	if _, ok := ev.(host.Reserve); ok && a.host.Due() <= a.clock() {
		a.step(host.Tick{}) // what is due frees memory in the same step, which the onlooker must see
	}
	fx := a.host.Step(a.clock(), ev)
	a.fleet.checkStep(a, ev, fx)
	for _, r := range fx.Records {
		a.disk[r.Name()] = r
		if r.Gone {
			delete(a.disk, r.Name())
		}
	}
	a.noteRoom()
	answer := fx.Answer
	starts, stops, evictions := slices.Clone(fx.Starts), slices.Clone(fx.Stops), slices.Clone(fx.Evictions)
	var tracks []host.Ref
	if t, ok := ev.(host.Track); ok && answer.Denial == "" {
		tracks = []host.Ref{{ID: t.ID, Epoch: t.Epoch}}
	}
	if fx.Publish || len(fx.Ends) > 0 || len(fx.Reopens) > 0 || len(tracks) > 0 {
		a.speak(host.News{Verdict: a.host.Verdict(), Tracks: tracks, Reopens: slices.Clone(fx.Reopens), Ends: a.host.Unwritten()})
	}
	for _, ref := range starts {
		if start := a.waiting[ref]; start != nil {
			delete(a.waiting, ref)
			start()
		}
	}
	for _, ref := range stops {
		a.fleet.after(a.fleet.between(time.Millisecond, time.Second), func() { a.stop(ref) })
	}
	for _, e := range evictions {
		ref := host.Ref{ID: e.ID, Epoch: e.Epoch}
		a.fleet.after(a.fleet.between(time.Millisecond, 2*time.Second), func() { a.end(ref, "had to go", host.Killed) })
	}
	return answer
}

// noteRoom keeps, for the onlooker, since when the host has had room for each need.
func (a *agent) noteRoom() {
	a.noteOwn()
	for _, need := range a.fleet.needs[a.cfg.Mode] {
		has := a.host.Admittable() >= need && a.up
		if a.roomy[need].has != has {
			a.roomy[need] = roomSince{has: has, at: a.fleet.now}
		}
	}
}

// speak sends news to every replica, unasked.
func (a *agent) speak(n host.News) {
	if a.fleet.net.frozen[a.index] {
		return
	}
	for _, r := range a.fleet.replicas {
		a.fleet.toReplica(link{r.index, a.index}, frameNews, func() { r.hear(a, n) })
		a.repeat(r, n)
	}
}

// ask is a request of a replica: the answer may come late, twice, or never, whether or not
// the request was carried out.
func (a *agent) ask(r *replica, ev host.Event, back func(host.Answer)) {
	l := link{r.index, a.index}
	a.fleet.toHost(l, frameOf(ev), func() {
		a.awake(func() {
			a.hurry(ev)
			answer := a.step(ev)
			a.fleet.toReplica(l, frameOf(ev), func() { back(answer) })
		})
	})
}

// look is a question about what the host holds.
func (a *agent) look(r *replica, question func(*host.Host), back func()) {
	l := link{r.index, a.index}
	a.fleet.toHost(l, frameQuestion, func() {
		a.awake(func() {
			question(a.host)
			a.fleet.toReplica(l, frameQuestion, back)
		})
	})
}

// awake does something now, when the pause is over, or never if the agent is down.
func (a *agent) awake(do func()) {
	if a.up {
		a.doze.unless(a.fleet.now, do)
	}
}

// sampleOften measures what runs, once a second.
func (a *agent) sampleOften() {
	a.awakeNow(func() {
		a.lookOutside()
		ev := host.Sample{Full: true, Limits: []gate.Limit{{Name: "machine", Size: a.memory, Used: min(a.resident+a.other, a.memory)}}}
		ev.PSI, ev.Some = a.stalls > 0, a.stalls
		for _, s := range a.host.View().Sandboxes {
			if p := a.running[host.Ref{ID: s.ID, Epoch: s.Epoch}]; p != nil {
				ev.Sandboxes = append(ev.Sandboxes, host.Resident{ID: s.ID, Bytes: p.resident})
			}
		}
		a.step(ev)
	})
	a.fleet.after(time.Second, a.sampleOften)
}

// tickOften lets due things happen, as the agent's own timer does.
func (a *agent) tickOften() {
	a.awakeNow(func() {
		if a.host.Due() <= a.clock() {
			a.step(host.Tick{})
		}
	})
	a.fleet.after(100*time.Millisecond, a.tickOften)
}

// awakeNow does something unless the agent is down or stands still.
func (a *agent) awakeNow(do func()) {
	if a.up && !a.doze.on(a.fleet.now) {
		do()
	}
}

// life is what becomes of a boot.
type life struct {
	peak  gate.Bytes
	lasts time.Duration
	fails bool              // its redeemer dies before there is a process
	told  func(host.Denial) // what the redeemer hears; nil: nobody asks
	over  func()            // what its caller does when it has ended by itself; nil: nothing
}

// redeem is a booter with a ticket: verify, charge, wait for the start, track, run, end.
func (a *agent) redeem(text ticket.Text, l life) {
	a.awakeNow(func() {
		claims, err := a.keys.Verify(text, ticket.Expect{Audience: a.id})
		if err != nil {
			a.fleet.refusedTicket(a, err)
			return
		}
		ref := host.Ref{ID: claims.AdmissionID, Epoch: claims.Epoch}
		answer := a.step(host.Redeem{ID: ref.ID, Epoch: ref.Epoch, Identity: host.Identity{Consumer: claims.Consumer, Key: claims.Key}})
		if l.told != nil {
			l.told(answer.Denial)
		}
		if answer.Denial != "" {
			a.fleet.tell("%s refuses to boot %s/%d: %s", a.id, ref.ID, ref.Epoch, answer.Denial)
			return
		}
		agentLife := a.life
		start := func() {
			a.fleet.after(a.fleet.between(time.Millisecond, 300*time.Millisecond), func() { a.boot(agentLife, ref, l) })
		}
		if answer.InLine {
			a.waiting[ref] = start
			return
		}
		start()
	})
}

// boot has the held process tracked, and lets it go.
func (a *agent) boot(agentLife int, ref host.Ref, l life) {
	if !a.up || a.life != agentLife {
		return
	}
	if l.fails || a.fleet.chance(5) {
		a.step(host.Done{ID: ref.ID, Epoch: ref.Epoch, Reason: "the boot failed"})
		return
	}
	if a.step(host.Track{ID: ref.ID, Epoch: ref.Epoch, Process: host.Process{Pid: 1}}).Denial != "" {
		return
	}
	a.fleet.checkBoot(a, ref)
	p := &process{resident: gate.FromMiB(10), stubborn: a.fleet.chance(60)}
	a.running[ref] = p
	a.resident += p.resident
	a.fleet.after(a.fleet.between(0, l.lasts), func() { a.grow(ref, p, l.peak) })
	a.fleet.after(l.lasts, func() { a.liveOut(ref, p, l.over) })
}

// liveOut ends a life; that of a stubborn one which nobody counts on any more only when it is
// stopped.
func (a *agent) liveOut(ref host.Ref, p *process, over func()) {
	switch {
	case a.running[ref] != p:
		return // it ended otherwise, and may run anew
	case p.stubborn && a.fleet.forsaken(ref):
		a.fleet.after(20*time.Second, func() { a.liveOut(ref, p, over) })
		return
	}
	a.exit(ref, "ended by itself")
	if over != nil {
		over()
	}
}

// grow is the one peak of a life.
func (a *agent) grow(ref host.Ref, p *process, to gate.Bytes) {
	if a.running[ref] != p {
		return
	}
	if a.fleet.hungry {
		to *= 4
		if ref.Epoch%4 == 0 { // one takes nearly all that there is: the bet is lost
			to = max(to, a.memory-a.resident-a.other+p.resident-40*gate.MiB)
		}
	}
	a.resident += to - p.resident
	p.resident = to
}

// exit ends a process; an agent that is away learns of it when it is back.
func (a *agent) exit(ref host.Ref, reason string) { a.end(ref, reason, "") }

func (a *agent) end(ref host.Ref, reason string, by host.Means) {
	p := a.running[ref]
	if p != nil {
		delete(a.running, ref)
		a.resident -= p.resident
		a.fleet.fact(factExit, ref.ID, ref.Epoch)
		a.fleet.tell("%s/%d ends on %s: %s", ref.ID, ref.Epoch, a.id, reason)
	}
	a.awake(func() { a.step(host.Done{ID: ref.ID, Epoch: ref.Epoch, Reason: reason, By: by}) })
}

// stop ends what a host wants gone: of what no ledger knows, whatever runs under that id.
func (a *agent) stop(ref host.Ref) {
	for _, lost := range a.lost() {
		if a.running[ref] == nil && lost.ID == ref.ID {
			ref = lost
		}
	}
	a.exit(ref, "stopped")
}

// forgets is what an agent that dies takes with it.
type forgets int

const (
	noLoss     forgets = iota
	lostLedger         // its state file: what runs runs on
	lostAll            // and the machine, which is started anew
)

// kill ends the agent at this instant; its sandboxes go on.
func (a *agent) kill(away time.Duration, takes forgets) {
	if !a.up {
		return
	}
	a.up = false
	a.life++
	a.doze.end()
	a.waiting = map[host.Ref]func(){}
	a.noteRoom()
	a.fleet.after(away, func() { a.restart(takes) })
}

// restart brings it back with its records, under the same incarnation; or without them,
// registered anew: then whatever still runs does so out of gate.
func (a *agent) restart(took forgets) {
	if took != noLoss {
		a.disk = map[host.Name]host.Record{}
		a.incarnation = a.fleet.store.model.Next()
		a.witness = newWitness()
	}
	if took == lostAll {
		clear(a.running)
		a.resident, a.booted = 0, -a.fleet.now
	}
	records := make([]host.Record, 0, len(a.disk))
	for _, name := range sortedNames(a.disk) {
		records = append(records, a.disk[name])
	}
	a.host, a.up = host.Restore(a.cfg, a.incarnation, a.clock(), records), true
	a.fleet.tell("%s is back, incarnation %d", a.id, a.incarnation)
	a.fleet.checkRestored(a)
	a.lookOutside()
	for _, s := range a.host.View().Sandboxes {
		ref := host.Ref{ID: s.ID, Epoch: s.Epoch}
		if a.running[ref] == nil || s.Phase != host.Running {
			a.step(host.Done{ID: s.ID, Epoch: s.Epoch, Reason: "ended while the agent was away"})
		}
	}
}

// lost are the sandboxes that run though their ledger was lost, by the onlooker's book.
func (a *agent) lost() (all []host.Ref) {
	for ref := range a.running {
		if c := a.witness.running(ref.ID); c == nil || c.epoch != ref.Epoch {
			all = append(all, ref)
		}
	}
	slices.SortFunc(all, func(x, y host.Ref) int { return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Epoch, y.Epoch)) })
	return all
}

// lookOutside tells the host what runs out of gate.
func (a *agent) lookOutside() {
	lost := a.lost()
	if len(lost) == 0 && len(a.host.View().OutOfGate) == 0 {
		return
	}
	strays := make([]host.Stray, 0, len(lost))
	for _, ref := range lost {
		p := a.running[ref]
		p.stubborn = false // it ends when its life is over, whoever counts on it
		strays = append(strays, host.Stray{ID: ref.ID, Lost: true, Resident: p.resident})
	}
	a.step(host.OutOfGate{Strays: strays})
}

func sortedNames(disk map[host.Name]host.Record) []host.Name {
	return slices.SortedFunc(maps.Keys(disk), func(a, b host.Name) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Epoch, b.Epoch))
	})
}
