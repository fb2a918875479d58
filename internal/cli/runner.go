package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/backoff"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

// runner is one run: it is admitted, boots, and is admitted again when the boot was refused
// for now.
type runner struct {
	client   *client.Client
	way      way
	request  api.AdmissionRequest
	ownKey   bool // made here, so that nobody else can use it
	deadline time.Time
	command  boot.Command
	stdout   io.Writer
	stderr   io.Writer
	line     *waitLine
	signals  <-chan os.Signal

	caught syscall.Signal   // the last one; zero: none
	pacer  *backoff.Backoff // of boots that were refused
}

func (r *runner) run(ctx context.Context) error {
	ask := r.client.Admit
	for {
		admission, err := r.admit(ctx, ask)
		if err != nil {
			r.giveUp(ctx, err)
			return r.ended(err)
		}
		end, err := r.boot(ctx, admission)
		if err == nil {
			return exit(r.stderr, end)
		}
		if r.caught != 0 || !client.NotNow(err) || !time.Now().Before(r.deadline) {
			r.giveBack(ctx, err)
			return r.ended(err)
		}
		if !r.pause(ctx, err) {
			r.giveBack(ctx, err)
			return r.ended(err)
		}
		ask = r.resume
	}
}

// pause waits before a boot that was refused is placed anew: its place is often the same one,
// which needs a moment. False means that there is no patience for it.
func (r *runner) pause(ctx context.Context, err error) bool {
	defer r.line.clear()
	if r.pacer == nil {
		r.pacer = backoff.New(backoff.Policy{Cap: 2 * time.Second, Deadline: time.Until(r.deadline)}, time.Now())
	}
	in, what := r.pacer.Next(time.Now(), backoff.Outcome{Status: 503, RetryMS: client.RetryAfter(err).Milliseconds()}, rand.Uint64())
	if what != backoff.Retry {
		return false
	}
	r.line.say("the boot was refused: " + err.Error() + ", again in " + seconds(in))
	select {
	case <-time.After(in):
		return true
	case s := <-r.signals:
		r.caught, _ = s.(syscall.Signal)
	case <-ctx.Done():
	}
	return false
}

// resume places an admission anew whose boot was refused for now.
func (r *runner) resume(ctx context.Context, q api.AdmissionRequest, o client.Options) (*api.Admission, error) {
	return r.client.Resume(ctx, q.Key, o)
}

type asking func(context.Context, api.AdmissionRequest, client.Options) (*api.Admission, error)

// admit asks until there is a yes or no patience left. A signal ends it.
func (r *runner) admit(ctx context.Context, ask asking) (*api.Admission, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-r.signals:
			r.caught, _ = s.(syscall.Signal)
			cancel()
		case <-ctx.Done():
		}
	}()
	defer r.line.clear()
	a, err := ask(ctx, r.request, client.Options{
		Wait:     client.Within(time.Until(r.deadline)),
		Progress: func(w api.Waiting) { r.line.say(placeOf(w)) },
		Retry:    func(err error, in time.Duration) { r.line.say(again(err, in)) },
		// What is left is given back by giveUp, before this process ends.
		KeepPlace: true,
	})
	// The watcher is over before its word is read.
	cancel()
	<-watched
	if err == nil && r.caught != 0 {
		return nil, context.Canceled // the yes came a moment too late
	}
	if err == nil && a.Ticket == "" {
		return nil, &Failure{ExitUsage, fmt.Errorf("key %s is in use: its admission is %s", a.Key, a.State), "another --key, or plimsoll release " + a.Key}
	}
	return a, err
}

// again says why the next try comes, and when.
func again(err error, in time.Duration) string {
	word := ""
	if _, refused := api.AsRefusal(err); refused {
		word = "refused: "
	}
	return word + err.Error() + ", again in " + seconds(in)
}

// placeOf says where a waiter stands.
func placeOf(w api.Waiting) string {
	text := "waiting for a " + string(w.WaitingFor)
	if w.WaitingFor == api.WaitingForQuota {
		text = "waiting, its tenant is at its quota"
	}
	if w.Pool != "" {
		text += ", pool " + w.Pool + busy(w.PoolBusy, w.Cap)
	}
	if w.Position > 0 {
		text += fmt.Sprintf(", place %d", w.Position)
	}
	return text
}

// boot hands the ticket to the agent, which runs the command until it ends.
func (r *runner) boot(ctx context.Context, a *api.Admission) (boot.Exit, error) {
	socket, err := r.way.socketOf(a)
	if err != nil {
		return boot.Exit{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	passed, numbers := make(chan struct{}), make(chan int, 1)
	go func() {
		defer close(passed)
		r.pass(ctx, numbers)
	}()
	defer func() { cancel(); <-passed }()
	exit, err := boot.Client{Socket: socket}.Run(ctx, a.Ticket, r.command, r.stdout, r.stderr, numbers)
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return exit, &Failure{ExitUnavailable, fmt.Errorf("the agent cannot be reached at %s: %w", socket, op.Err), "is the host's agent (or `plimsoll up`) running here, and may this user open its socket?"}
	}
	return exit, err
}

// pass gives signals on to the sandbox.
func (r *runner) pass(ctx context.Context, numbers chan<- int) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-r.signals:
			r.caught, _ = s.(syscall.Signal)
			select {
			case numbers <- int(r.caught):
			case <-ctx.Done():
				return
			}
		}
	}
}

// socketOf is where the host that was chosen boots: its own word goes before the note's.
func (w way) socketOf(a *api.Admission) (string, error) {
	if a.Audience != "" {
		return "", &Failure{
			ExitUsage,
			fmt.Errorf("class %s is of a pool without hosts: %s boots it, and demands the ticket itself", a.Class, a.Audience),
			"plimsoll run a class whose pool is placed on hosts",
		}
	}
	if w.socket != "" {
		return w.socket, nil
	}
	if path := w.note.Sockets[a.Host]; path != "" {
		return path, nil
	}
	path, isSocket := strings.CutPrefix(a.Endpoint, "unix://")
	if isSocket {
		if _, err := os.Stat(path); err == nil || w.note.Socket == "" {
			return path, nil
		}
	}
	if w.note.Socket != "" && (a.Endpoint == "" || isSocket) {
		return w.note.Socket, nil
	}
	return "", &Failure{
		ExitUnavailable,
		fmt.Errorf("admitted on host %s, but no agent is known on this machine", a.Host),
		"run it on that host, or name the agent's socket in PLIMSOLL_SOCKET",
	}
}

// exit turns the sandbox's end into ours. The status of one that had to go says nothing of its
// work, least of all a zero by which it obeyed a hook.
func exit(stderr io.Writer, e boot.Exit) error {
	switch {
	case e.Evicted != "":
		return &Failure{ExitNotNow, errors.New("evicted: " + e.Evicted), "again, by the same command: it is admitted anew where there is room, and begins from the start unless it kept what it had"}
	case e.Unknown:
		return &Failure{ExitInternal, errors.New("the sandbox has ended, and nobody knows how"), "plimsoll admissions shows its end"}
	case e.OOM:
		fmt.Fprintln(stderr, "plimsoll: the sandbox was killed at its own memory limit\ntry: a larger --memory, or a class with more")
	}
	return exited(e.Status)
}

// ended is how a run ends that booted nothing.
func (r *runner) ended(err error) error {
	if r.caught != 0 {
		return exited(128 + int(r.caught))
	}
	if errors.Is(err, boot.ErrConnectionLost) {
		return &Failure{ExitUnavailable, err, "plimsoll admissions shows what became of it; plimsoll release " + r.request.Key + " ends it"}
	}
	return err
}
