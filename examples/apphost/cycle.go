package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

// run leads the app from state to state until ctx ends. What runs then goes on, and a place in a line is kept.
func (a *app) run(ctx context.Context) {
	a.adopt(ctx)
	for ctx.Err() == nil {
		switch a.state() {
		case Hibernated:
			a.sleep(ctx)
		case Waiting:
			a.wake(ctx)
		case Running:
			a.watch(ctx)
		}
	}
}

// adopt takes up what a former life of this program left: an app that runs, or one that waits.
func (a *app) adopt(ctx context.Context) {
	a.mu.Lock()
	r := a.record
	a.wantedAt = time.Now()
	a.mu.Unlock()
	if r.State != Running {
		return
	}
	if socket := a.socketOf(r.Admission, r.Epoch); answers(socket) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.live, a.usedAt = newLive(socket), time.Now()
		a.tell()
		return
	}
	a.ended(ctx, "it was gone when the app host came back")
}

// sleep returns when somebody wants the app.
func (a *app) sleep(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-a.wanted:
		a.becomes(Waiting, "a request came", func() {
			a.place = &Place{Why: "the gate is being asked"}
			select { // one that came in between shares this wake
			case <-a.wanted:
			default:
			}
		})
	}
}

var (
	errUnwanted = errors.New("nobody asks for it any more")
	// errSpent says that an admission can boot nothing more, and that what it booted is not there.
	errSpent = errors.New("its admission was used before, and nothing of it runs")
	// errNoStart says that the program was booted and does not listen.
	errNoStart = errors.New("its program does not listen at APP_SOCKET")
)

// How often a wake may run into an admission that is spent before that is a problem.
const mostSpent = 3

// wake asks the gate until the app runs. It ends otherwise when nobody wants the app any more, or when
// waiting would change nothing.
func (a *app) wake(ctx context.Context) {
	asked, stop := a.whileWanted(ctx)
	defer stop()
	for spent, try := 0, 0; ; try++ {
		admission, err := a.host.gate.Admit(asked, a.request(), a.waiting())
		if err == nil {
			err = a.boot(asked, admission)
		}
		if errors.Is(err, errSpent) || errors.Is(err, api.TicketRejected) {
			spent++
		}
		switch {
		case err == nil:
			return
		case ctx.Err() != nil:
			return
		case context.Cause(asked) == errUnwanted:
			a.giveUp(ctx, errUnwanted.Error(), nil)
			return
		case isTempo(err) || 0 < spent && spent < mostSpent:
			a.stands(Place{Why: err.Error()})
			if spent > 0 {
				a.release(ctx)
			}
			pause(asked, rand.N(min(time.Second<<min(try, 4), 8*time.Second)))
		default:
			a.giveUp(ctx, "it cannot be started, and waiting would not change that", err)
			return
		}
	}
}

// whileWanted ends when nobody wants the app any more.
func (a *app) whileWanted(ctx context.Context) (context.Context, func()) {
	asked, end := context.WithCancelCause(ctx)
	go func() {
		for pause(asked, a.host.patience/8) {
			if !a.stillWanted() {
				end(errUnwanted)
			}
		}
	}()
	return asked, func() { end(nil) }
}

// isTempo says whether a no is one of time: the gate's not now, or a gate or an agent that is away. An
// app that runs into one waits.
func isTempo(err error) bool {
	var away *client.Unreachable
	var agent *net.OpError
	return client.NotNow(err) || errors.As(err, &away) || errors.As(err, &agent) || errors.Is(err, boot.ErrConnectionLost)
}

func (a *app) request() api.AdmissionRequest {
	return api.AdmissionRequest{Key: a.key(), Class: a.spec.Class, MemoryMB: a.spec.MemoryMB, Mode: api.WaitModeQueue}
}

// askFor is how long one call waits in the line; then the next does, with the same key and place.
const askFor = 10 * time.Minute

func (a *app) waiting() client.Options {
	return client.Options{
		Wait: askFor, KeepPlace: true, // by its key the next life of this program goes on with it
		Progress: func(w api.Waiting) {
			p := Place{Position: w.Position, For: string(w.WaitingFor), Pool: w.Pool, Cap: w.Cap}
			if w.PoolBusy != nil {
				p.Busy = *w.PoolBusy
			}
			if w.RetryAfterMS > 0 {
				p.Turn = time.Now().Add(time.Duration(w.RetryAfterMS) * time.Millisecond)
			}
			a.stands(p)
		},
		Retry: func(err error, _ time.Duration) { a.stands(Place{Why: err.Error()}) },
	}
}

// boot takes the ticket to the agent and waits until the app listens. A former life of this program may
// have done so before it could write that down.
func (a *app) boot(ctx context.Context, admission *api.Admission) error {
	socket := a.socket(admission)
	if answers(socket) {
		a.runs(admission, "it ran already")
		return nil
	}
	if admission.Ticket == "" {
		return errSpent
	}
	folder := filepath.Join(a.host.dir, a.spec.Name)
	command := boot.Command{
		Argv: a.spec.Argv, Dir: folder, Detach: true,
		Env: append([]string{"PATH=" + os.Getenv("PATH"), "APP_NAME=" + a.spec.Name, "APP_SOCKET=" + socket}, a.spec.Env...),
	}
	a.stands(Place{Why: "admitted, and booting"})
	if _, err := a.host.agent.Run(ctx, admission.Ticket, command, io.Discard, io.Discard, nil); err != nil {
		return fmt.Errorf("boot it: %w", err)
	}
	if err := a.comesUp(ctx, admission.ID, socket); err != nil {
		return err
	}
	a.runs(admission, "admitted on "+admission.Host)
	return nil
}

func (a *app) runs(admission *api.Admission, why string) {
	a.becomes(Running, why, func() {
		a.record.Admission, a.record.Epoch = admission.ID, admission.Epoch
		a.live, a.leaving, a.usedAt = newLive(a.socket(admission)), false, time.Now()
		a.place, a.problem = nil, nil
	})
}

// comesUp waits until the app listens, for as long as its process is there.
func (a *app) comesUp(ctx context.Context, id, socket string) error {
	looked := time.Now()
	for deadline := time.Now().Add(a.host.startWithin); time.Now().Before(deadline); {
		if answers(socket) {
			return nil
		}
		if time.Since(looked) > 500*time.Millisecond {
			now, err := a.host.gate.GetID(ctx, id)
			if err == nil && now.EndedAt != nil {
				return fmt.Errorf("%w: its process ended (%s)", errNoStart, now.State)
			}
			looked = time.Now()
		}
		if !pause(ctx, 10*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%w within %s", errNoStart, a.host.startWithin)
}

// watch looks after an app that runs until it has ended, or was idle for long enough.
func (a *app) watch(ctx context.Context) {
	tick := time.NewTicker(min(time.Second, a.host.idle/4))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.gone:
		case <-tick.C:
		}
		a.mu.Lock()
		l, idle := a.live, a.open == 0 && a.waiters == 0 && time.Since(a.usedAt) >= a.host.idle
		a.leaving = l != nil && idle // from here on a request waits for the next wake
		a.mu.Unlock()
		switch {
		case l == nil || !answers(l.socket):
			a.ended(ctx, "its process ended")
			return
		case idle:
			if a.hibernate(ctx, l.socket) {
				return
			}
		}
	}
}

// ended notes that the process is gone: killed, evicted, or by itself. What may be left of the admission
// is given back; where nobody takes that, the next wake does.
func (a *app) ended(ctx context.Context, why string) {
	a.mu.Lock()
	a.live = nil
	a.mu.Unlock()
	a.release(ctx)
	a.becomes(Hibernated, why, func() { a.leaving = false })
}

// hibernate releases the admission, which ends the process. It returns false where nobody heard that: then
// the app runs on.
func (a *app) hibernate(ctx context.Context, socket string) bool {
	a.mu.Lock()
	admission := &api.Admission{ID: a.record.Admission, Epoch: a.record.Epoch}
	a.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, 3*time.Second)
	seen, err := a.host.gate.ReleaseAdmission(bounded, admission)
	cancel()
	if err != nil && seen == nil && answers(socket) {
		a.host.log.Warn("an idle app could not be hibernated, and runs on", "app", a.spec.Name, "err", err)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.leaving, a.usedAt = false, time.Now()
		a.tell()
		return false
	}
	if err != nil && seen != nil && ctx.Err() == nil { // it was heard, and takes its time
		if _, err = a.host.gate.ReleaseAdmission(ctx, admission); err != nil {
			a.host.log.Warn("an idle app was asked to end, and its end was not heard", "app", a.spec.Name, "err", err)
		}
	}
	if ctx.Err() != nil {
		return true // the next life of this program finds out which it was
	}
	a.becomes(Hibernated, "idle for "+a.host.idle.String(), func() { a.live, a.leaving = nil, false })
	return true
}

// giveUp ends a wake: the place is given back. With a problem the next requests are told that for a while.
func (a *app) giveUp(ctx context.Context, why string, err error) {
	a.release(ctx)
	a.becomes(Hibernated, why, func() {
		a.place = nil
		if err == nil {
			return
		}
		p := &problem{err: err, pause: time.Second}
		if a.problem != nil {
			p.pause = min(2*a.problem.pause, 30*time.Second)
		}
		p.until = time.Now().Add(p.pause)
		a.problem = p
	})
}

// release gives back whatever stands under the app's key.
func (a *app) release(ctx context.Context) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := a.host.gate.Release(bounded, a.key()); err != nil && !errors.Is(err, api.NotFound) {
		a.host.log.Warn("an admission was not released; the next wake does it", "app", a.spec.Name, "err", err)
	}
}

// pause returns false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
