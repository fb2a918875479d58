package agent

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// booter knows the boots that are under way and the processes that are watched.
type booter struct {
	agent *Agent

	hooks  *hooks
	ctx    context.Context // of this life: what a lost bet costs goes on in the next one
	atOnce chan struct{}   // holds a token for each that is being made to go

	mu       sync.Mutex            // guards what follows; never held across I/O
	sessions map[host.Ref]*session // placement -> redeemed, its connection open
	tracked  map[host.Ref]*tracked // placement -> its process
}

// session is one redeemed ticket whose connection is open.
type session struct {
	ref     host.Ref
	claims  ticket.Claims
	granted chan struct{} // closed when its turn to start has come
	stopped chan struct{} // closed when its admission was released
	once    sync.Once     // closes stopped
	tracked *tracked      // nil before; guarded by the booter's mu
	waiver  string        // what let it in without a ticket
}

// tracked is a process whose end is the sandbox's.
type tracked struct {
	ref      host.Ref
	process  *driver.Process
	cgroup   string        // its booter's own; the driver knows its
	before   hostmem.OOM   // what the kernel had killed in there when it was tracked
	told     chan struct{} // closed when the host knows of the end, or this agent has stopped
	stopping sync.Once
	reason   string     // of the end, in its booter's words; guarded by the booter's mu
	by       host.Means // what was done to it, because it had to go; likewise
	evicted  string     // why it had to go, once told is closed; "" for one that ended otherwise
}

func newBooter(a *Agent) *booter {
	return &booter{
		agent: a, hooks: newHooks(&a.cfg), ctx: context.Background(), atOnce: make(chan struct{}, evictsAtOnce),
		sessions: map[host.Ref]*session{}, tracked: map[host.Ref]*tracked{},
	}
}

// redeem verifies the ticket, then gives its reservation up for a charge. The session is
// known before the host is stepped, so that no start or stop can miss it. A refusal comes with
// what the host would call it.
func (b *booter) redeem(ctx context.Context, text ticket.Text) (s *session, inLine bool, why host.Denial, err error) {
	claims, err := b.agent.verify(text)
	if err != nil {
		return nil, false, host.NoTicket, api.Refuse(api.TicketRejected, "%s", err)
	}
	s = &session{
		ref: host.Ref{ID: claims.AdmissionID, Epoch: claims.Epoch}, claims: claims,
		granted: make(chan struct{}), stopped: make(chan struct{}),
	}
	if !b.open(s) && !(b.awaitEnd(ctx, s.ref) && b.open(s)) {
		return nil, false, host.Used, api.Refuse(api.TicketRejected, "%s", ticket.Replayed)
	}
	answer, err := b.agent.Do(ctx, host.Redeem{ID: s.ref.ID, Epoch: s.ref.Epoch, Identity: identity(claims)})
	if err != nil {
		b.abandon(s, "the redeem was not written down")
		return nil, false, "", api.Refuse(api.Unavailable, "%s", err)
	}
	if answer.Denial != "" {
		b.forget(s)
		return nil, false, answer.Denial, bootRefusal(answer.Denial)
	}
	return s, answer.InLine, "", nil
}

func identity(c ticket.Claims) host.Identity {
	return host.Identity{Consumer: c.Consumer, Key: c.Key, Tenant: c.Tenant, Pool: c.Pool, Class: c.Class}
}

// bootRefusal says a host's denial in the words of the API. What lapsed or waits is a 503,
// and attempt moves it; what was released, superseded or used will never boot.
func bootRefusal(d host.Denial) *api.Refusal {
	switch d {
	case host.LapsedOrNever:
		return api.Refuse(api.ReservationLapsed, "no reservation of this ticket is open on this host")
	case host.Draining:
		return api.Refuse(api.HostDraining, "this host takes no boots any more")
	case host.Pressure:
		return api.Refuse(api.HostPressure, "this host is losing memory faster than it can give it")
	case host.StartsFull:
		return api.Refuse(api.HostStartsFull, "the line of starts is full")
	case host.Superseded:
		return api.Refuse(api.TicketRejected, "%s", ticket.Superseded)
	case host.Used:
		return api.Refuse(api.TicketRejected, "%s", ticket.Replayed)
	}
	return api.Refuse(api.TicketRejected, "%s", ticket.Released)
}

// open enters a session; false when its placement has one already.
func (b *booter) open(s *session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions[s.ref] != nil || b.tracked[s.ref] != nil {
		return false
	}
	b.sessions[s.ref] = s
	return true
}

// awaitEnd waits a moment for the end of a sandbox whose ticket may start it again: its
// booter can have seen that end before this agent does.
func (b *booter) awaitEnd(ctx context.Context, ref host.Ref) bool {
	b.mu.Lock()
	t := b.tracked[ref]
	b.mu.Unlock()
	if t == nil || !b.startsAgain(ctx, ref) {
		return false
	}
	patience := time.NewTimer(endsWithin)
	defer patience.Stop()
	select {
	case <-t.told:
		return true
	case <-patience.C:
	case <-ctx.Done():
	}
	return false
}

func (b *booter) startsAgain(ctx context.Context, ref host.Ref) bool {
	var again bool
	err := b.agent.Look(ctx, func(h *host.Host) {
		s, runs := h.Sandbox(ref.ID)
		reserved, _ := h.Holds(ref.ID, ref.Epoch)
		again = reserved || (runs && s.Epoch == ref.Epoch && s.Ask.HoldOnExit && !s.Stopping)
	})
	return err == nil && again
}

// forget drops a session, but not the one that has come after it.
func (b *booter) forget(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sessions[s.ref] == s {
		delete(b.sessions, s.ref)
	}
}

// abandon gives everything back. It outlives the connection that it belongs to.
func (b *booter) abandon(s *session, reason string) {
	b.forget(s)
	b.done(host.Done{ID: s.ref.ID, Epoch: s.ref.Epoch, Reason: reason})
}

// done reports an end, detached from whoever caused it.
func (b *booter) done(end host.Done) host.Answer {
	ctx, cancel := context.WithTimeout(context.Background(), detachedFor)
	defer cancel()
	answer, err := b.agent.Do(ctx, end)
	if err != nil && !errors.Is(err, ErrStopped) {
		b.agent.cfg.Log.Error("an end is not written down yet, and told when it is", "id", end.ID, "err", err)
	}
	return answer
}

// detachedFor bounds work that must survive its caller.
const detachedFor = 30 * time.Second

// started tells sessions whose turn has come.
func (b *booter) started(refs []host.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ref := range refs {
		if s := b.sessions[ref]; s != nil {
			close(s.granted)
		}
	}
}

// stop ends placements whose admission was released: a booter is told by its connection, a
// tracked process is stopped.
func (b *booter) stop(refs []host.Ref) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ref := range refs {
		if s := b.sessions[ref]; s != nil {
			s.once.Do(func() { close(s.stopped) })
		}
		t := b.tracked[ref]
		switch {
		case t != nil:
			go b.end(t)
		case b.sessions[ref] == nil && b.agent.cfg.Driver != nil:
			go b.endLost(ref)
		}
	}
}

// end stops a sandbox and waits for that. A second call stops nothing twice.
func (b *booter) end(t *tracked) {
	t.stopping.Do(func() {
		err := t.process.Stop(context.Background())
		if err != nil && !errors.Is(err, driver.ErrDetached) {
			b.agent.cfg.Log.Error("sandbox not stopped", "id", t.ref.ID, "err", err)
		}
	})
}

// track tells the host of the process, and watches it from then on.
func (b *booter) track(ctx context.Context, s *session, p *driver.Process, cgroup string) (*tracked, error) {
	ref, t := s.ref, b.enter(s.ref, p, cgroup)
	answer, err := b.agent.Do(ctx, host.Track{
		ID: ref.ID, Epoch: ref.Epoch,
		Process: host.Process{Pid: p.Pid(), Start: p.StartTime(), Cgroup: cgroup},
	})
	if err == nil && answer.Denial == "" {
		b.bind(s, t)
		go b.watch(t)
		return t, nil
	}
	b.leave(t)
	if err != nil {
		return nil, api.Refuse(api.Unavailable, "%s", err)
	}
	return nil, api.Refuse(api.TicketRejected, "%s", ticket.Released)
}

func (b *booter) enter(ref host.Ref, p *driver.Process, cgroup string) *tracked {
	t := &tracked{ref: ref, process: p, told: make(chan struct{})}
	if p.Cgroup() == "" && cgroup != "" {
		t.cgroup = cgroup
		t.before, _ = b.agent.cfg.Machine.OOM(cgroup) // gone already: then nothing was killed before
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tracked[ref] = t
	return t
}

// starts says whether a session waits for its process; one has one in its life.
func (b *booter) starts(s *session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[s.ref] == s && s.tracked == nil
}

// bind notes which session a process came of.
func (b *booter) bind(s *session, t *tracked) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.tracked = t
}

// tracks says which sandbox's a process is.
func (b *booter) tracks(pid int, start uint64) (id string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ref, t := range b.tracked {
		if t.process.Pid() == pid && t.process.StartTime() == start {
			return ref.ID, true
		}
	}
	return "", false
}

// leave forgets a process, and the session that it came of: its ticket may start it again.
func (b *booter) leave(t *tracked) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tracked, t.ref)
	if s := b.sessions[t.ref]; s != nil && s.tracked == t {
		delete(b.sessions, t.ref)
	}
}

// endOf is what a process's booter said of its end, and what was done to it.
func (b *booter) endOf(t *tracked) (reason string, by host.Means) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.reason, t.by
}

// watch waits for the end, however it comes: this is where a sandbox's memory, slot and
// ticket become free, without the caller.
func (b *booter) watch(t *tracked) {
	defer close(t.told)
	defer b.leave(t) // after the host is told: until then nothing may start in its place
	exit := t.process.Wait()
	if errors.Is(exit.Err, driver.ErrDetached) {
		return
	}
	if exit.Err != nil {
		b.agent.cfg.Log.Error("a sandbox ended and left something behind", "id", t.ref.ID, "err", exit.Err)
	}
	reason, by := b.endOf(t)
	ranOut := b.hostRanOut(t, exit)
	by = endedBy(by, ranOut)
	t.evicted = b.done(host.Done{
		ID: t.ref.ID, Epoch: t.ref.Epoch, Reason: cmp.Or(reason, exit.String()), By: by,
		OutOfMemory: ranOut && (by == "" || by == host.ByKernel),
	}).Evicted
}

// over takes a booter's word that its sandbox is gone, and waits until it is: while the
// process lives its memory is in use, whatever anybody says.
func (b *booter) over(ctx context.Context, s *session, reason string) error {
	b.mu.Lock()
	t := s.tracked
	if t != nil {
		t.reason = reason
	}
	b.mu.Unlock()
	if t == nil {
		b.abandon(s, reason)
		return nil
	}
	patience := time.NewTimer(endsWithin)
	defer patience.Stop()
	select {
	case <-t.told:
		return nil
	case <-ctx.Done():
		return api.Refuse(api.Unavailable, "%s", ErrStopped)
	case <-patience.C:
		return api.Refuse(api.InvalidRequest, "process %d still runs: end it first, or leave it; the agent sees its end by itself", t.process.Pid())
	}
}

// endsWithin is how long a process that its booter calls gone may take to be so.
const endsWithin = 2 * time.Second

// adopt takes up what an earlier life of this agent left. What had not been tracked lost
// its booter with that life; what is gone ended meanwhile.
func (b *booter) adopt(sandboxes []host.Sandbox) {
	for _, s := range sandboxes {
		ref := host.Ref{ID: s.ID, Epoch: s.Epoch}
		if s.Phase != host.Running {
			go b.clear(ref, "the agent was restarted before the boot was tracked", "")
			continue
		}
		p, err := b.agent.cfg.Driver.Adopt(s.ID, s.Process.Pid, s.Process.Start, b.ownCgroup(s.ID, s.Process.Cgroup))
		switch {
		case err == nil:
			b.agent.cfg.Log.Info("sandbox re-adopted", "id", s.ID, "pid", s.Process.Pid)
			t := b.enter(ref, p, s.Process.Cgroup)
			go b.watch(t)
			if s.Stopping {
				go b.end(t)
			}
			if s.Evicting != "" {
				go b.evict(evictionOf(&s))
			}
		case errors.Is(err, fs.ErrNotExist):
			go b.clear(ref, "ended while the agent was away", awayMeans(&s))
		default:
			b.agent.cfg.Log.Error("sandbox not re-adopted; it is charged until its end is told", "id", s.ID, "err", err)
		}
	}
	go b.clearStrays(sandboxes)
}

// clear removes what is left of a sandbox that ended while nobody watched, then says so: its
// memory is free when its end is told.
func (b *booter) clear(ref host.Ref, reason string, by host.Means) {
	if err := b.agent.cfg.Driver.Remove(ref.ID); err != nil {
		b.agent.cfg.Log.Error("a sandbox ended and left something behind", "id", ref.ID, "err", err)
	}
	b.done(host.Done{ID: ref.ID, Epoch: ref.Epoch, Reason: reason, By: by})
}

// ownCgroup is the cgroup if the driver made it for this sandbox; a booter's own is only
// measured.
func (b *booter) ownCgroup(id, cgroup string) string {
	if cgroup != b.agent.cfg.Driver.CgroupOf(id) {
		return ""
	}
	return cgroup
}

// clearStrays removes cgroups of sandboxes that ended while nobody watched. One that still
// holds processes runs out of gate, and is left alone.
func (b *booter) clearStrays(known []host.Sandbox) {
	strays, err := b.strays(known)
	if err != nil {
		b.agent.cfg.Log.Error("left-over cgroups not swept", "err", err)
		return
	}
	for _, s := range strays {
		if len(s.PIDs) > 0 {
			continue
		}
		if err := b.agent.cfg.Driver.Remove(s.ID); err != nil {
			b.agent.cfg.Log.Error("left-over cgroup not removed", "id", s.ID, "err", err)
		}
	}
}

// strays are the driver's cgroups that are no known sandbox's.
func (b *booter) strays(known []host.Sandbox) ([]driver.Stray, error) {
	if b.agent.cfg.Driver == nil {
		return nil, nil
	}
	return b.agent.cfg.Driver.Sweep(func(id string) bool { // few are asked for: the driver knows its own
		return slices.ContainsFunc(known, func(s host.Sandbox) bool { return s.ID == id })
	})
}

// detach lets every sandbox go on without this agent.
func (b *booter) detach() {
	b.mu.Lock()
	all := slices.Collect(maps.Values(b.tracked))
	b.mu.Unlock()
	for _, t := range all {
		t.process.Detach()
	}
}
