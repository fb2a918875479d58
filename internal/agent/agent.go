// Package agent is the host's shell around package host: it measures, keeps the state on
// disk, verifies tickets, and boots or watches sandboxes. It decides nothing about room.
//
// One goroutine, Run, owns the host: it takes what came in meanwhile as one batch, steps
// the host through it, writes the batch's records, and only then answers. So there is no
// lock, no answer that a restart would forget, and one write for many events.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// Config is what one agent needs.
type Config struct {
	Host            host.Config
	Budget          gate.Bytes // of all sandboxes together; zero: what the machine has
	Dir             string     // state and logs
	Socket          string     // the boot seam
	SampleLimits    time.Duration
	SampleSandboxes time.Duration
	Machine         *hostmem.Machine
	Driver          *driver.Driver
	Keys            ticket.AudienceKeys // of this host alone, from a replica; none where there is no replica; see SetKeys
	Hooks           Hooks               // what an operator has done when a bet is lost, and when the intake moves
	ReserveGroup    *uint32             // who may reserve at the boot seam besides root and the agent's own user
	// Register takes a new incarnation from the store's sequence; it is asked only when the
	// state of an earlier life on this boot is lost or damaged, or when that had none: an agent without
	// replicas has the incarnation 0, and keeps what runs when it gets some.
	Register func(ctx context.Context, host string) (int64, error)
	// Show says a view of the host to whoever asks at the boot seam; nil: nobody is told.
	Show func(v host.View, wall time.Time) api.Host
	// ShowLessons says likewise what the host has learned by itself, with the room that it has when
	// it holds nothing.
	ShowLessons func(lessons []host.Lesson, room gate.Bytes) api.ClassList
	// Measure says what a host is that this process does not run on; nil: Machine does. Such
	// an agent has no Driver: it boots nothing, and opens no seam.
	Measure func() (host.Sample, error)
	// Observed finds what the operator's rules call sandboxes, and known does not; nil: there are
	// no rules.
	Observed  func(known func(cgroup string, pids []int) bool) ([]Found, error)
	OutOfGate OutOfGate // "": it is told
	Log       *slog.Logger
	// Incarnation is the life that the registry says this is; zero: as the state has it.
	Incarnation int64
}

// Agent is one host's agent. Its methods may be called from any goroutine while Run runs.
type Agent struct {
	cfg    Config
	life   int64        // the incarnation
	begun  host.Instant // of what it remembers: what is older may have had a ticket
	clock  func() host.Instant
	inbox  chan request
	feeds  feeds
	booter *booter
	look   chan struct{} // holds a token when a full sample is wanted now
	keys   atomic.Pointer[ticket.AudienceKeys]
	own    ticket.AudienceKeys // of the tickets that this agent mints for itself
	over   chan struct{}       // closed when Run has ended

	// Owned by Run.
	host *host.Host
	log  *stateLog
	owed outcome // of steps whose records are not written yet
	full bool    // it was said that the log cannot be written
	shut bool    // the valve is, as the hooks were told
}

// request is one event, or one look at the host, and the way back.
type request struct {
	event host.Event
	look  func(*host.Host)
	firm  bool // the look is answered only if a restart would still see what it saw
	tag   uint64
	reply chan<- Reply
}

// ErrStopped is what a call gets when the agent ended before it could answer.
var ErrStopped = errors.New("the host agent has stopped")

// New reads the state of an earlier life and takes up what it says, or registers anew.
func New(ctx context.Context, cfg Config) (*Agent, error) {
	a := &Agent{cfg: cfg, clock: hostmem.BootTime, inbox: make(chan request, 256), look: make(chan struct{}, 1), over: make(chan struct{})}
	a.booter = newBooter(a)
	a.SetKeys(cfg.Keys)
	bootID, err := cfg.Machine.BootID()
	if err != nil {
		return nil, fmt.Errorf("tell this boot of the machine from others: %w", err)
	}
	log, got, err := a.takeUp(header{Host: cfg.Host.ID, BootID: bootID})
	if err != nil {
		return nil, err
	}
	incarnation := cmp.Or(cfg.Incarnation, log.head.Incarnation)
	if incarnation == 0 || got.doubt != believed {
		if incarnation, err = cfg.Register(ctx, cfg.Host.ID); err != nil {
			err = fmt.Errorf("register host %s: %w", cfg.Host.ID, err)
		}
	}
	if err == nil {
		a.own, err = openOwnKeys(filepath.Join(cfg.Dir, ownKeysFile), cfg.Host.ID)
	}
	if err == nil {
		err = log.start(incarnation, got, a.clock())
	}
	if err != nil {
		log.close()
		return nil, err
	}
	if err := got.bound(); err != nil {
		cfg.Log.Warn("too much is kept", "err", err)
	}
	if cfg.Driver == nil {
		cfg.Host.Reclaim = host.ReclaimOff // nothing here can be ended
	}
	a.life, a.begun = incarnation, log.head.Begun
	a.log, a.host = log, host.Restore(cfg.Host, incarnation, a.clock(), got.records)
	if err := a.findLost(); err != nil {
		log.close()
		return nil, err
	}
	return a, nil
}

// takeUp reads the state, and says what of it is not believed.
func (a *Agent) takeUp(head header) (*stateLog, *found, error) {
	log, got, err := openState(filepath.Join(a.cfg.Dir, "state.log"), head)
	if err != nil {
		return nil, nil, err
	}
	got.say(a.cfg.Log)
	if a.cfg.Driver != nil {
		got.stillRuns(a.cfg.Machine.StartTime)
	}
	return log, got, nil
}

// findLost tells the host what runs though its ledger was lost, before anybody can ask it: a
// slot whose sandbox runs is not free.
func (a *Agent) findLost() error {
	if a.cfg.Driver == nil {
		return nil
	}
	lost, err := a.booter.lost(a.host.View().Sandboxes)
	if err != nil {
		return fmt.Errorf("find what runs here out of gate: %w; the agent must be able to read the cgroups below %s", err, a.cfg.Driver.Parent())
	}
	ev := host.OutOfGate{Strays: lost}
	a.owed.add(ev, a.host.Step(a.clock(), ev))
	return nil
}

// SetKeys takes other ticket keys in force, as a step of their rotation.
func (a *Agent) SetKeys(keys ticket.AudienceKeys) { a.keys.Store(&keys) }

// Run owns the host until ctx ends. Sandboxes go on: the next agent re-adopts them.
func (a *Agent) Run(ctx context.Context) error {
	var helpers sync.WaitGroup
	defer a.log.close()
	defer helpers.Wait()
	defer a.feeds.close()
	defer close(a.over)
	defer a.booter.detach()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.sayReclaim()
	a.booter.hooks.check()
	a.booter.begin(ctx)
	helpers.Go(func() { a.sampleUntil(ctx) })
	helpers.Go(func() { a.booter.hooks.notifyUntil(ctx) })
	if a.cfg.Driver != nil {
		a.booter.adopt(a.host.View().Sandboxes)
		helpers.Go(func() { a.tidyUntil(ctx) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(max(a.host.Due()-a.clock(), time.Millisecond))
		select {
		case <-ctx.Done():
			a.batch(request{event: host.Closing{}})
			return nil
		case <-timer.C:
			a.batch(request{event: host.Tick{}})
		case r := <-a.inbox:
			a.batch(r)
		}
	}
}

// batchMax bounds how many events share one write, and so how long the first one waits.
const batchMax = 256

// batch steps the host through everything that has come in, writes, then answers.
func (a *Agent) batch(first request) {
	if mustLast(first.event) {
		runtime.Gosched() // what is about to come in shares the write
	}
	batch := []request{first}
	for len(batch) < batchMax && len(a.inbox) > 0 {
		batch = append(batch, <-a.inbox)
	}
	replies := make([]Reply, len(batch))
	unwritable := a.log.mend(a.clock())
	for i, r := range batch {
		replies[i].Tag = r.tag
		switch {
		case r.look != nil:
			r.look(a.host)
		case unwritable != nil && promises(r.event):
			replies[i].Err = unwritable
		default:
			fx := a.host.Step(a.clock(), r.event)
			replies[i].Answer = fx.Answer
			a.owed.add(r.event, fx)
		}
	}
	err := a.persist()
	for i, r := range batch {
		if err != nil && (r.firm || mustLast(r.event)) {
			replies[i].Err = err
		}
		if r.reply != nil {
			r.reply <- replies[i]
		}
	}
	a.deliver(err == nil)
}

// promises says whether an event would promise memory or boot something. While the state
// cannot be written such an event is not even tried, so that a ticket stays good.
func promises(ev host.Event) bool {
	switch ev.(type) {
	case host.Reserve, host.Renew, host.Redeem, host.Boot, host.Track:
		return true
	}
	return false
}

// mustLast says whether whoever sent an event relies on a restart knowing of it.
func mustLast(ev host.Event) bool {
	switch ev.(type) {
	case nil, host.Sample, host.OutOfGate, host.Tick, host.Stand, host.Unstand:
		return false
	}
	return true
}

// persist writes the records. After a failure the next batch writes everything anew, and
// until that works whoever relies on them is answered with the error: an answer that a
// restart would forget is no promise.
func (a *Agent) persist() error {
	err := a.log.append(a.owed.records, a.clock())
	a.owed.records = a.owed.records[:0] // the log has them, written or not
	switch {
	case err != nil && !a.full:
		a.cfg.Log.Error("state not written", "err", err)
	case err == nil && a.full:
		a.cfg.Log.Info("state is written again")
	}
	a.full = err != nil
	return err
}

// outcome is what a batch of steps asks of the shell.
type outcome struct {
	records []host.Record
	news    host.News // but for the verdict
	starts  []host.Ref
	stops   []host.Ref
	evicts  []host.Eviction
	lost    bool
	measure bool
	publish bool
}

func (o *outcome) add(ev host.Event, fx host.Effects) {
	o.records = append(o.records, fx.Records...)
	n := host.News{Ends: fx.Ends, Reopens: fx.Reopens}
	if t, ok := ev.(host.Track); ok && fx.Answer.Denial == "" && !host.Local(t.ID) {
		n.Tracks = []host.Ref{{ID: t.ID, Epoch: t.Epoch}}
	}
	o.news.Add(n)
	o.publish = o.publish || fx.Publish || len(n.Ends)+len(n.Reopens)+len(n.Tracks) > 0
	o.starts = append(o.starts, fx.Starts...)
	o.stops = append(o.stops, fx.Stops...)
	o.evicts = append(o.evicts, fx.Evictions...)
	o.lost, o.measure = o.lost || fx.Lost, o.measure || fx.Measure
}

// deliver hands on what follows from a batch; nothing here blocks. What was not written is
// owed: a replica that wrote an end which a restarted agent has forgotten would give the
// slot away while the ticket is good again. Stops give back, and need no record.
func (a *Agent) deliver(written bool) {
	o := a.owed
	a.booter.stop(o.stops)
	a.pay(&o)
	if !written {
		a.owed.stops, a.owed.evicts, a.owed.lost, a.owed.measure = nil, nil, false, false
		return
	}
	a.owed = outcome{records: o.records}
	a.booter.started(o.starts)
	if o.publish {
		o.news.Verdict = a.host.Verdict()
		a.feeds.tell(o.news)
	}
}

// Do sends an event to the host. An error means that the outcome is unknown.
func (a *Agent) Do(ctx context.Context, ev host.Event) (host.Answer, error) {
	r := a.ask(ctx, request{event: ev})
	return r.Answer, r.Err
}

// Look reads the host between two steps.
func (a *Agent) Look(ctx context.Context, look func(*host.Host)) error {
	return a.ask(ctx, request{look: look}).Err
}

func (a *Agent) ask(ctx context.Context, r request) Reply {
	back := make(chan Reply, 1)
	r.reply = back
	if err := a.put(ctx, r); err != nil {
		return Reply{Err: err}
	}
	select {
	case got := <-back:
		return got
	case <-a.over:
		return Reply{Err: ErrStopped}
	case <-ctx.Done():
		return Reply{Err: context.Cause(ctx)}
	}
}

// ID is the host's name.
func (a *Agent) ID() string { return a.cfg.Host.ID }

// Incarnation is this life's number from the store's sequence.
func (a *Agent) Incarnation() int64 { return a.life }

// What a look saw is read only after its answer: one that was given up may still come.

// View is the arithmetic laid open.
func (a *Agent) View(ctx context.Context) (host.View, error) {
	var v host.View
	if err := a.Look(ctx, func(h *host.Host) { v = h.View() }); err != nil {
		return host.View{}, err
	}
	return v, nil
}

// Verdict is the host's newest word.
func (a *Agent) Verdict(ctx context.Context) (host.Verdict, error) {
	var v host.Verdict
	if err := a.Look(ctx, func(h *host.Host) { v = h.Verdict() }); err != nil {
		return host.Verdict{}, err
	}
	return v, nil
}

// Holding is all that the host answers for, and what runs beside it.
func (a *Agent) Holding(ctx context.Context) (host.Held, error) {
	var held host.Held
	look := func(h *host.Host) { held = h.Held() }
	if err := a.ask(ctx, request{look: look, firm: true}).Err; err != nil {
		return host.Held{}, err
	}
	held.OutOfGate = a.OutOfGate(&held)
	return held, nil
}

// Lore is what the host saw of runs since a step of that sequence.
func (a *Agent) Lore(ctx context.Context, after int64) (host.Lore, error) {
	var l host.Lore
	if err := a.Look(ctx, func(h *host.Host) { l = h.Lore(after) }); err != nil {
		return host.Lore{}, err
	}
	return l, nil
}

// Holds says what the host has of a placement now.
func (a *Agent) Holds(ctx context.Context, ref host.Ref) (reserved, running bool, err error) {
	var r, u bool
	look := func(h *host.Host) { r, u = h.Holds(ref.ID, ref.Epoch) }
	if err := a.ask(ctx, request{look: look, firm: true}).Err; err != nil {
		return false, false, err
	}
	return r, u, nil
}

// Placed is what the host has of one admission.
func (a *Agent) Placed(ctx context.Context, id string) (host.Placed, error) {
	var p host.Placed
	if err := a.ask(ctx, request{look: func(h *host.Host) { p = h.Placed(id) }, firm: true}).Err; err != nil {
		return host.Placed{}, err
	}
	return p, nil
}
