package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// Lost is the cause of a body's context when its admission is over: the server said so, or its
// time passed without a word from it. What runs under it must stop: its slot is somebody else's.
type Lost struct {
	Key string
	ID  string
	Err error // the server's word, or the last error of a heartbeat
}

// Error says why it is lost.
func (l *Lost) Error() string {
	return fmt.Sprintf("the admission of key %s is over: %s", l.Key, l.Err)
}

// Unwrap returns why.
func (l *Lost) Unwrap() error { return l.Err }

// Lease is an admission while it is held. It may be used from any goroutine.
type Lease struct {
	mu  sync.Mutex // guards now
	now *api.Admission
}

// Admission is the newest word on it. Do not change it.
func (l *Lease) Admission() *api.Admission {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Ticket is the one that is good now; each heartbeat brings another.
func (l *Lease) Ticket() string { return l.Admission().Ticket }

func (l *Lease) set(a *api.Admission) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = a
}

// Hold admits, runs body while heartbeats go on in the background, and releases however body
// ends: by return, by panic, or because ctx ends. For process signals make ctx by
// [signal.NotifyContext]. Body is called on this goroutine, or not at all.
//
// Body's context ends when the admission is over, with a *Lost as its cause; then that is the error, beside
// body's own. An error of Admit comes as it is: what is NotNow is a tempo and no failure, so never
// write it to a status column, park the work as waiting_capacity, and never run body without the gate's yes.
// A *NotGivenBack beside body's error says that the release could not be told.
func (c *Client) Hold(ctx context.Context, q api.AdmissionRequest, o Options, body func(context.Context, *Lease) error) (err error) {
	a, err := c.Admit(ctx, q, o)
	if err != nil {
		return err
	}
	held, drop := context.WithCancelCause(ctx)
	k := &keeper{c: c, lease: &Lease{now: a}, drop: drop, heard: time.Now()}
	k.due(a)
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.keep(held)
	}()
	defer func() {
		drop(nil)
		<-done
		untold := c.letGo(ctx, k.lease.Admission(), k.over)
		if k.over != nil || untold != nil { // else body's own, as it is
			err = errors.Join(err, k.over, untold)
		}
	}()
	return body(held, k.lease)
}

// letGo releases what was held, also if it is said to be over: by a replica that was wrong, or
// by a clock of ours.
func (c *Client) letGo(ctx context.Context, a *api.Admission, over error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*persistence)
	defer cancel()
	_, err := c.ReleaseAdmission(ctx, a)
	if err == nil || errors.Is(err, api.NotFound) || over != nil {
		return nil
	}
	return &NotGivenBack{Key: a.Key, ID: a.ID, Err: err}
}

// keeper keeps an admission alive.
type keeper struct {
	c     *Client
	lease *Lease
	drop  context.CancelCauseFunc // of the body
	every time.Duration           // between two heartbeats
	ends  bool                    // it ends when nothing is heard of it
	heard time.Time               // when the last call began that was answered
	over  error                   // a *Lost; read only when keep has returned
}

// leasesPerBeat is how many heartbeats a lease is long: the server asks for one each third of it.
const leasesPerBeat = 3

// quietLook is how often what needs no heartbeat is looked at, as a sandbox that runs on a host.
const quietLook = 20 * time.Second

// due notes when the next heartbeat is.
func (k *keeper) due(a *api.Admission) {
	k.every = milliseconds(a.HeartbeatMS)
	if k.every <= 0 {
		k.every = quietLook
	}
	// What a host holds is that host's to end: it goes on while no replica is there.
	k.ends = a.Audience != ""
}

// left is how long the lease lasts without another word.
func (k *keeper) left() time.Duration {
	if !k.ends {
		return k.every
	}
	return time.Until(k.heard.Add(leasesPerBeat * k.every))
}

// keep sends heartbeats until ctx ends, or the admission is over.
func (k *keeper) keep(ctx context.Context) {
	pause := k.every
	for sleep(ctx, pause) == nil {
		err := k.beat(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause = k.every
			continue
		case isOver(err), k.left() <= 0:
			a := k.lease.Admission()
			if isOver(err) && k.endedItself(ctx, a) || ctx.Err() != nil {
				return
			}
			k.over = &Lost{Key: a.Key, ID: a.ID, Err: err}
			k.drop(k.over)
			return
		}
		pause = max(k.left()/leasesPerBeat, soonest)
		if unanswered(err) && !k.c.budget.take() {
			pause = max(pause, min(k.left(), soonest*20))
		}
	}
}

// soonest is the shortest pause before a heartbeat that failed is sent again.
const soonest = 50 * time.Millisecond

// ended is a heartbeat's answer of an admission that is over.
type ended struct{ state api.AdmissionState }

func (e ended) Error() string { return "it is " + string(e.state) }

// isOver says whether a heartbeat's error is the server's word that there is nothing to keep.
func isOver(err error) bool {
	var e ended
	return errors.As(err, &e) || errors.Is(err, api.NotFound) || errors.Is(err, api.Forbidden)
}

// endedItself says whether what is over is a sandbox that ran on a host and has ended there: body,
// which waits for that, hears of it by itself.
func (k *keeper) endedItself(ctx context.Context, a *api.Admission) bool {
	if a.Host == "" {
		return false
	}
	last, err := k.c.GetID(ctx, a.ID)
	return err == nil && last.State == api.AdmissionStateReleased && last.StartedAt != nil
}

// beat sends one heartbeat, by the id: the key may come to name another admission.
func (k *keeper) beat(ctx context.Context) error {
	if k.ends {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, max(k.left(), soonest), errTooSlow)
		defer cancel()
	}
	began, a := time.Now(), new(api.Admission)
	q := call{method: http.MethodPost, path: byID(k.lease.Admission().ID) + "/heartbeat", keyed: true}
	if _, err := k.c.do(ctx, q, a); err != nil {
		return err
	}
	switch a.State {
	case api.AdmissionStatePlacing, api.AdmissionStateAdmitted, api.AdmissionStateRunning:
	default:
		return ended{a.State}
	}
	k.heard = began
	k.due(a)
	k.lease.set(a)
	return nil
}
