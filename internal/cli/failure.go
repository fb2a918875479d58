package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/internal/config"
)

// Exit statuses, as in sysexits.h. A sandbox's own status may be any, these among them.
const (
	ExitUsage       = 64 // a mistake on the command line, or a no that waiting does not change
	ExitUnavailable = 69 // the server or the agent cannot be reached
	ExitInternal    = 70
	ExitNotNow      = 75
	ExitNotAllowed  = 77
	ExitConfig      = 78 // the configuration is not valid, or cannot be followed here
)

// Failure is an error with its exit status and what to do about it.
type Failure struct {
	Status int
	Err    error
	Try    string // one line
}

// Error returns the error's text.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the error.
func (f *Failure) Unwrap() error { return f.Err }

// mistake is one on the command line.
func mistake(cmd *cobra.Command, format string, args ...any) error {
	return &Failure{ExitUsage, fmt.Errorf(format, args...), cmd.CommandPath() + " --help"}
}

// exited is the status of a sandbox that ran: it has said by itself what there was to say.
type exited int

func (e exited) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// verdict is what is shown of an error.
type verdict struct {
	status int
	word   string // not now, not allowed
	code   api.Code
	detail string
	try    string

	refusal *api.Refusal // if it is one
	denied  *boot.Denied // if it is a host's own
}

// judgeDenied is about a host's own no: there is no queue to wait in.
func judgeDenied(d *boot.Denied) verdict {
	v := judgeRefusal(d.Refusal)
	if d.Code.Meaning().Kind == api.NotNow {
		v.try = when(d.Refusal)
	}
	v.denied = d
	return v
}

const longer = "again, with a longer --wait"

// judge finds the verdict on an error.
func judge(err error) verdict {
	var denied *boot.Denied
	if errors.As(err, &denied) {
		return judgeDenied(denied)
	}
	if r, ok := api.AsRefusal(err); ok {
		return judgeRefusal(r)
	}
	var (
		failure     *Failure
		waiting     *client.StillWaiting
		unreachable *client.Unreachable
		faults      config.Faults
		status      interface{ ExitStatus() int } // of a command that knows no Failure
		database    interface{ SQLState() string }
		network     *net.OpError
	)
	switch {
	case errors.As(err, &failure):
		return verdict{status: failure.Status, detail: failure.Error(), try: failure.Try}
	case errors.As(err, &status):
		return verdict{status: status.ExitStatus(), detail: err.Error()}
	case errors.As(err, &waiting):
		detail := strings.TrimPrefix(waiting.Error(), string(api.WaitingCapacity)+": ")
		return verdict{status: ExitNotNow, word: "not now", code: api.WaitingCapacity, detail: detail + busy(waiting.PoolBusy, waiting.Cap), try: longer}
	case errors.As(err, &unreachable):
		return verdict{status: ExitUnavailable, detail: unreachable.Error(), try: "is `plimsoll up` running there? Name another server with --url"}
	case errors.Is(err, context.Canceled):
		return verdict{status: 130, detail: "interrupted"}
	case errors.Is(err, context.DeadlineExceeded):
		return verdict{status: ExitNotNow, word: "not now", detail: "no answer within the wait", try: longer}
	case errors.As(err, &faults):
		return verdict{status: ExitConfig, detail: "the configuration is not valid:\n" + faults.Error(), try: "correct these lines; plimsoll config example shows every setting"}
	case errors.As(err, &database) && shutOut(database.SQLState()):
		return verdict{status: ExitNotAllowed, word: "not allowed", detail: err.Error()}
	case errors.As(err, &network):
		return verdict{status: ExitUnavailable, detail: err.Error()}
	}
	return verdict{status: ExitInternal, detail: err.Error()}
}

// shutOut says whether a database let the user not in, or not do what was wanted.
func shutOut(state string) bool { return strings.HasPrefix(state, "28") || state == "42501" }

func judgeRefusal(r *api.Refusal) verdict {
	m := r.Code.Meaning()
	v := verdict{code: r.Code, detail: r.Detail, try: remedy(r), refusal: r, status: ExitUsage}
	if v.detail == "" {
		v.detail = m.Title
	}
	switch {
	case m.Kind == api.NotNow:
		v.status, v.word = ExitNotNow, "not now"
	case m.Kind == api.NotAllowed || r.Code == api.TicketRejected:
		v.status, v.word = ExitNotAllowed, "not allowed"
	case r.Code == api.Internal:
		v.status = ExitInternal
	case r.Code == api.InvalidConfig:
		v.status = ExitConfig
	}
	return v
}

// remedy says what to do about a no on a command line. The table of codes speaks of HTTP.
func remedy(r *api.Refusal) string {
	switch r.Code {
	case api.Unauthenticated:
		return "give the token of a configured consumer with --token-file, or in PLIMSOLL_TOKEN"
	case api.TicketRejected:
		return "plimsoll run again; each boot needs an admission of its own"
	case api.InvalidRequest:
		return "correct what is named"
	case api.QueueTimeout:
		return longer
	case api.NoHealthyAgents:
	case api.NoCapacity, api.PoolFull:
		return when(r) + ", or wait in the queue with --wait 30s"
	default:
		if r.Code.Meaning().Kind == api.NotNow && r.Remedy == "" {
			return when(r)
		}
	}
	text := r.Remedy
	if text == "" {
		text = r.Code.Meaning().Remedy
	}
	if r.Code == api.Internal && r.DecisionID != "" {
		text += " (" + r.DecisionID + ")"
	}
	return strings.ReplaceAll(text, "ask again after Retry-After", when(r))
}

// when says the appointment in words.
func when(r *api.Refusal) string {
	if r.RetryAfter <= 0 {
		return "again in a moment"
	}
	return "again in " + seconds(r.RetryAfter)
}
