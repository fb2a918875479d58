package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/transcript"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Each command is the result of the last effect, or a word about the passage; what follows
// is what it wants next.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(*testing.T) func(string) string { return (&script{}).do })
}

type script struct {
	now     time.Duration
	row     pool.Row
	passage *Passage
	leaving *Departure
	picks   int
}

func (s *script) do(command string) string {
	words := strings.Fields(command)
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	n, _ := strconv.ParseInt(arg(2), 10, 64)
	switch words[0] {
	case "row": // state, then what is set: gen=, epoch=, host=, mode=, stateful, booted, until=
		s.row = rowOf(words[1:])
		return ""
	case "begin", "heartbeat", "begin-by-host":
		s.passage = New(DefaultConfig(), Request{
			Claim: pool.Claim{ID: "a1", Consumer: "c", Key: "k", Mode: pool.Queue},
			Ask:   gate.Ask{Memory: gate.GiB}, Keep: words[0] == "heartbeat",
			ByHost: words[0] == "begin-by-host",
		})
		return s.show(s.passage.Begin(s.now))
	case "pass":
		d, _ := time.ParseDuration(arg(1))
		s.now += d
		return ""
	case "leave":
		s.leaving = NewDeparture("a1", s.row.Passage())
		return showEffect(s.leaving.Begin())
	case "left":
		left := Left{Row: s.row, Found: arg(1) != "missing" && arg(1) != "moved", Failed: arg(1) == "failed", Now: pool.Time(n)}
		if arg(1) == "missing" {
			left.Row = pool.Row{}
		}
		return showEffect(s.leaving.Step(left))
	case "let-go":
		return showEffect(s.leaving.Step(Vacated{Running: arg(1) == "running", Unknown: arg(1) == "unknown"}))
	case "ended":
		return showEffect(s.leaving.Step(Ended{Row: s.row, Failed: arg(1) == "failed"}))
	}
	return s.show(s.passage.Step(s.now, s.event(words[0], arg(1), n)))
}

// event builds the event of a word and its argument.
func (s *script) event(word, arg string, n int64) Event {
	failed, unknown := arg == "failed", arg == "unknown"
	switch word {
	case "claimed":
		return Claimed{Result: pool.Claimed{Verdict: pool.Verdict(arg), Row: s.row}, Failed: failed}
	case "picked":
		if arg == "none" {
			return Picked{Tally: Tally{"no_room": {"h1"}}}
		}
		s.picks++
		return Picked{Host: arg, ID: fmt.Sprintf("%s.%d", arg, s.picks)} // the id counts only by host
	case "reserved":
		if arg == "yes" {
			arg = ""
		}
		return Reserved{Denial: host.Denial(arg), Unknown: unknown}
	case "regened":
		gen, _ := strconv.ParseInt(arg, 10, 64)
		return Regened{Gen: gen, Failed: failed}
	case "settled":
		return Settled{Row: s.row, OK: arg == "yes", Failed: failed}
	case "no-roomed":
		return NoRoomed{Result: pool.Claimed{Verdict: pool.Verdict(arg), Row: s.row}, Failed: failed}
	case "kept":
		return s.kept(arg)
	case "vacated":
		return Vacated{Running: arg == "running", Unknown: unknown}
	case "moved":
		return Moved{Row: s.row, OK: arg == "yes", Failed: failed}
	case "heard":
		return Heard{Row: s.row, OK: arg == "yes", Failed: failed}
	case "stand-picked":
		if arg == "none" {
			arg = ""
		}
		return StandPicked{Host: arg}
	case "stood":
		return Stood{OK: arg == "yes"}
	case "stand-noted":
		return StandNoted{}
	case "read":
		return RowRead{Row: s.row, Found: arg != "missing", Failed: failed}
	case "swept":
		return Swept{}
	case "paused":
		return Paused{}
	}
	return nil
}

func (s *script) kept(arg string) Event {
	k := Kept{Row: s.row, Gone: arg == "gone", Silent: arg == "silent", Unknown: arg == "unknown", Failed: arg == "failed"}
	switch arg {
	case "running":
		k.Answer.Running = true
	case "draining":
		k.Answer.Verdict.Intake = host.IntakeDraining
	case "lapsed":
		k.Answer.Denial = host.LapsedOrNever
	case "other-life":
		k.Answer.Denial = host.OtherLife
	}
	return k
}

func rowOf(words []string) pool.Row {
	r := pool.Row{ID: "a1", Consumer: "c", Key: "k", Pool: "p", State: pool.State(words[0]), Mode: pool.Queue}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch name {
		case "gen":
			r.Gen = n
		case "epoch":
			r.Epoch = n
		case "host":
			r.Host = value
		case "stateful":
			r.Stateful = true
		case "for":
			r.Audience = value
		case "hold-on-exit":
			r.HoldOnExit = true
		case "stands":
			r.StandAt = value
		case "starving":
			r.PresentUntil, r.HostlessSince, r.HostlessAt = 1, 1, pool.Time(1).Add(pool.StandAfter)
		case "booted":
			r.RunningAt = 1
		case "until":
			r.ReservedUntil = pool.Time(n)
		}
	}
	return r
}

func (s *script) show(step Step) string {
	out := ""
	if d := step.Detached; d != nil {
		out = "detached: release " + d.ID + "/" + strconv.FormatInt(d.Gen, 10) + " at " + d.Host + "\n"
	}
	return out + showEffect(step.Effect)
}

func showEffect(e Effect) string {
	if e.Do == Reply {
		return showAnswer(*e.Reply)
	}
	out := e.Do.String()
	if e.ID != "" {
		out += " " + e.ID
	}
	if e.Gen != 0 {
		out += "/" + strconv.FormatInt(e.Gen, 10)
	}
	if e.Host != "" {
		out += " at " + e.Host
	}
	if len(e.Exclude) > 0 {
		out += " without " + strings.Join(slices.Clone(e.Exclude), ",")
	}
	if e.Acked {
		out += ", acknowledged"
	}
	if e.Last {
		out += ", the last time"
	}
	return out
}

func showAnswer(a Answer) string {
	kind := [...]string{"yes", "wait", "no", "gone", "going"}[a.Kind]
	out := "reply " + kind
	if a.New {
		out += ", new"
	}
	if a.Code != "" {
		out += " " + string(a.Code)
	}
	if a.Kind == Yes {
		out += fmt.Sprintf(" %s/%d at %s", a.Row.ID, a.Row.Epoch, a.Row.Host+a.Row.Audience)
	}
	if len(a.Tally) > 0 {
		out += fmt.Sprint(" ", map[string][]string(a.Tally))
	}
	return out
}
