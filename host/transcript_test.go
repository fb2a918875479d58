package host_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/transcript"
)

// Cases that cannot happen here: T09 (a host refuses; nobody counts beside it), T10, T58
// and T109 (there are no warm sandboxes), T20 (one level), T50 (a host knows its holders by
// id alone), T60 (that draining is final is the store's rule), T86 (nothing is preempted).

func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t *testing.T) func(string) string {
		s := session{t: t}
		return s.do
	})
}

// session plays one file. Its first command makes the host:
//
//	host [size=4096] [mode=committed] [starts=2] [waiting=2] [dims=gpu:2] [labels=zone:a] [enforcement=observe] [unmeasured]
//
// All others take at=, the time of the host's clock. "restart" makes a new host of what is
// on the disk, under another configuration if it says so.
type session struct {
	t    *testing.T
	rig  *rig
	size int64
	used int64
}

func (s *session) do(command string) string {
	l := transcript.Parse(command)
	if l.Verb == "host" {
		s.create(l)
		l.Verb = "sample"
		if l.Has("unmeasured") {
			l.Verb = "tick"
		}
	}
	r := s.rig
	if at, ok := l.Set["at"]; ok {
		r.now = s.duration(at)
	}
	var out strings.Builder
	if l.Verb == "restart" {
		r.cfg.MaxStarts = int(s.number(l, "starts", int64(r.cfg.MaxStarts)))
		r.cfg.MaxWaitingStarts = int(s.number(l, "waiting", int64(r.cfg.MaxWaitingStarts)))
		if dims, ok := l.Set["dims"]; ok {
			r.cfg.Dims = s.dims(dims)
		}
		r.h = r.restore()
		l.Verb = "tick"
	}
	if l.Verb == "lore" {
		return s.lore(s.number(l, "after", 0))
	}
	fx := r.step(s.event(l))
	effects(&out, l.Verb, fx)
	s.state(&out)
	return out.String()
}

func (s *session) create(l transcript.Line) {
	cfg := config()
	if l.Set["mode"] == "committed" {
		cfg.Mode = gate.Committed
	}
	cfg.MaxStarts = int(s.number(l, "starts", 2))
	cfg.MaxWaitingStarts = int(s.number(l, "waiting", 2))
	cfg.Enforcement, _ = host.EnforcementOf(l.Set["enforcement"])
	cfg.Reclaim = reclaims[l.Set["reclaim"]]
	cfg.Dims = s.dims(l.Set["dims"])
	cfg.Labels = labels(l.Set["labels"])
	s.rig, s.size = newRig(s.t, cfg), s.number(l, "size", 4096)
}

func (s *session) event(l transcript.Line) host.Event {
	var id string
	var gen int64
	if len(l.Words) >= 1 {
		id = l.Words[0]
	}
	if len(l.Words) >= 2 {
		gen, _ = strconv.ParseInt(l.Words[1], 10, 64)
	}
	until := s.rig.now + time.Minute
	if u, ok := l.Set["until"]; ok {
		until = s.duration(u)
	}
	life := s.number(l, "life", incarnation)
	switch l.Verb {
	case "reserve":
		return host.Reserve{ID: id, Gen: gen, Ask: s.ask(l), Until: until, Incarnation: life}
	case "renew":
		return host.Renew{ID: id, Epoch: gen, Until: until, Incarnation: life}
	case "release":
		return host.Release{ID: id, Gen: gen}
	case "redeem":
		return host.Redeem{ID: id, Epoch: gen}
	case "track":
		return host.Track{ID: id, Epoch: gen, Process: host.Process{Pid: 1}}
	case "done":
		return host.Done{
			ID: id, Epoch: gen, Evicted: l.Has("evicted"), Reason: l.Set["reason"],
			By: host.Means(l.Set["by"]), OutOfMemory: l.Has("oom"),
		}
	case "ack":
		return host.Acked{ID: id, Epoch: gen}
	case "stand":
		return host.Stand{ID: id, Ask: s.ask(l), Until: until, Incarnation: life}
	case "unstand":
		return host.Unstand{ID: id}
	case "intake":
		return host.SetIntake{Intake: intakes[l.Words[0]]}
	case "enforcement":
		to, _ := host.EnforcementOf(id)
		return host.SetEnforcement{To: to}
	case "boot":
		return host.Boot{ID: id, Ask: s.ask(l), Ticket: host.Denial(cmp.Or(l.Set["ticket"], string(host.NoTicket)))}
	case "bypass":
		return host.SetBypass{For: s.duration(cmp.Or(l.Set["for"], "0s")), By: "uid-0", Reason: l.Set["reason"]}
	case "audited":
		return host.AckedDeed{N: s.rig.h.Held().Deeds[0].N}
	case "sample":
		return s.sample(l)
	case "outside":
		return s.outside(l)
	case "kills":
		return host.KillCount{N: s.number(l, "n", 0), Away: l.Has("away")}
	case "close":
		return host.Closing{}
	case "tick":
		return host.Tick{}
	}
	s.t.Fatalf("unknown command %q", l.Verb)
	return nil
}

var reclaims = map[string]host.Reclaim{"dry-run": host.ReclaimDryRun, "on": host.ReclaimOn}

var intakes = map[string]host.Intake{
	"open": host.IntakeOpen, "pressure": host.IntakePressure, "cordoned": host.IntakeCordoned, "draining": host.IntakeDraining,
}

func (s *session) ask(l transcript.Line) gate.Ask {
	a := ask(s.number(l, "mem", 512))
	a.Stateful, a.HoldOnExit = l.Has("stateful"), l.Has("hold")
	a.CPUMilli = s.number(l, "cpu", 1000)
	a.Priority = int(s.number(l, "prio", 0))
	if l.Has("settles") {
		a.Rule.Until = gate.UntilSettled
	}
	a.Dims, a.Labels = s.dims(l.Set["dims"]), labels(l.Set["labels"])
	a.Template, a.Rule.Learned = l.Set["template"], gate.FromMiB(s.number(l, "learned", 0))
	return a
}

// outside reads "a:100" as what runs out of gate, and "lost/a:100" as what once had a ticket.
func (s *session) outside(l transcript.Line) host.OutOfGate {
	var ev host.OutOfGate
	for _, word := range l.Words {
		id, mib, _ := strings.Cut(word, ":")
		id, lost := strings.CutPrefix(id, "lost/")
		ev.Strays = append(ev.Strays, host.Stray{ID: id, Lost: lost, Resident: gate.FromMiB(s.parse(mib))})
	}
	return ev
}

// lore is what the host tells of runs.
func (s *session) lore(after int64) string {
	var out strings.Builder
	l := s.rig.h.Lore(after)
	for i := range l.Seen {
		n := &l.Seen[i]
		fmt.Fprintf(&out, "template %q at %d: %d runs of up to %s, half of them above %s; %d s, on average %s of %s\n", n.Template, n.Sequence,
			n.Runs.N(), n.Size, n.Runs.PeakOf(500, gate.PiB), n.Runs.Seconds(), per(n.Held, n.Runs.Seconds()), per(n.Committed, n.Runs.Seconds()))
	}
	return out.String()
}

func per(mib, seconds int64) gate.Bytes {
	if seconds == 0 {
		return 0
	}
	return gate.FromMiB(mib) / gate.Bytes(seconds)
}

// sample reads "a:100" as sandbox a seen at 100 MiB, "a:100:5s" as that after 5 s of work in all;
// used= is kept until it is said again.
func (s *session) sample(l transcript.Line) host.Sample {
	s.used = s.number(l, "used", s.used)
	ev := machine(s.number(l, "size", s.size), s.used)
	ev.Full = !l.Has("limits")
	for _, word := range l.Words {
		if id, figures, ok := strings.Cut(word, ":"); ok {
			mib, work, known := strings.Cut(figures, ":")
			r := host.Resident{ID: id, Bytes: gate.FromMiB(s.parse(mib)), CPU: -1}
			if known {
				r.CPU = s.duration(work)
			}
			ev.Sandboxes = append(ev.Sandboxes, r)
		}
	}
	ev.Budget, ev.Under, ev.Grown = gate.FromMiB(s.number(l, "budget", 0)), l.Set["under"], gate.FromMiB(s.number(l, "grown", 0))
	ev.Some, ev.FullPSI = 100*s.number(l, "some", 0), 100*s.number(l, "full", 0)
	ev.PSI = ev.Some+ev.FullPSI > 0
	return ev
}

func effects(out *strings.Builder, verb string, fx host.Effects) {
	a := fx.Answer
	switch {
	case a.Would != "":
		fmt.Fprintf(out, "yes, and would be denied %s\n", a.Would)
	case a.Denial != "":
		fmt.Fprintf(out, "denied %s\n", strings.TrimSpace(string(a.Denial)+" "+a.Detail))
	case verb == "reserve" || verb == "stand" || verb == "renew" && !a.Running:
		fmt.Fprintf(out, "yes, %s until %v\n", a.Need, a.Until)
	case a.Running:
		fmt.Fprintln(out, "yes, it runs")
	case a.InLine:
		fmt.Fprintln(out, "yes, in line")
	}
	for _, r := range fx.Reopens {
		fmt.Fprintf(out, "re-opened %s/%d, %s until %v\n", r.ID, r.Epoch, a.Need, a.Until)
	}
	for _, e := range fx.Ends {
		fmt.Fprintf(out, "ended %s/%d %s %s\n", e.ID, e.Epoch, e.How, e.Reason)
	}
	for _, r := range fx.Starts {
		fmt.Fprintf(out, "start %s/%d\n", r.ID, r.Epoch)
	}
	for _, r := range fx.Stops {
		fmt.Fprintf(out, "stop %s/%d\n", r.ID, r.Epoch)
	}
	if fx.Lost {
		fmt.Fprintln(out, "the bet is lost")
	}
	if fx.Measure {
		fmt.Fprintln(out, "a full sample is wanted")
	}
	for _, e := range fx.Evictions {
		fmt.Fprintf(out, "%s/%d has to go, %s: %s\n", e.ID, e.Epoch, e.By, e.Why())
	}
	if fx.Publish {
		fmt.Fprintln(out, "published")
	}
}

func (s *session) state(out *strings.Builder) {
	v := s.rig.h.View()
	for i, b := range v.Sandboxes {
		fmt.Fprintf(out, "%s/%d %s%s%s, charged %s, resident %s\n", b.ID, b.Epoch, b.Phase, waiver(b.Waiver), going(&b), v.Charges[i], b.Usage.Resident)
	}
	for _, stray := range v.OutOfGate {
		fmt.Fprintf(out, "%s out of gate, resident %s\n", stray.ID, stray.Resident)
	}
	for _, e := range s.rig.h.Unwritten() {
		fmt.Fprintf(out, "to be written: %s/%d %s\n", e.ID, e.Epoch, e.How)
	}
	for _, d := range s.rig.h.Held().Deeds {
		fmt.Fprintf(out, "to be audited: %s by %s at %v: %s\n", d.What, d.By, d.At, d.Reason)
	}
	intake := v.Verdict.Intake.String()
	if v.Shut != "" {
		intake += " (" + string(v.Shut) + ")"
	}
	if v.Verdict.Enforcement != host.Enforce {
		intake += ", " + v.Verdict.Enforcement.String()
	}
	a := v.Account
	fmt.Fprintf(out, "at %v: %s, %d = %d free - %d headroom - %d unresident - %d reserved in %d", s.rig.now, intake,
		v.Verdict.Admittable.FloorMiB(), a.Free.FloorMiB(), a.Headroom.FloorMiB(), a.Unresident.FloorMiB(), a.Reserved.FloorMiB(), v.Reservations)
	if v.Reopened > 0 {
		fmt.Fprintf(out, ", %d again", v.Reopened)
	}
	if v.Starting+v.InLine > 0 {
		fmt.Fprintf(out, "; %d starting, %d in line", v.Starting, v.InLine)
	}
	if st := v.Standing; st.ID != "" {
		fmt.Fprintf(out, "; %s set aside for %s until %v", st.Need, st.ID, st.Until)
	}
	if b := v.Bypass; b.Until > 0 {
		fmt.Fprintf(out, "; bypass until %v, %d booted", b.Until, b.Booted)
	}
	if v.RampNext > 0 {
		fmt.Fprintf(out, "; %s more until %v", v.RampLeft, v.RampNext)
	}
	for _, w := range v.Waived {
		fmt.Fprintf(out, "; %d × would be %s", w.N, w.Denial)
	}
	for _, d := range v.Verdict.Dims {
		fmt.Fprintf(out, "; %d %s left", d.N, d.Name)
	}
	fmt.Fprintln(out)
}

func going(s *host.Sandbox) string {
	if s.Evicting == "" {
		return ""
	}
	return ", has to go"
}

func waiver(w host.Waiver) string {
	if w == "" {
		return ""
	}
	return " by " + string(w)
}

func (s *session) dims(text string) (out []gate.Dim) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		name, n, _ := strings.Cut(word, ":")
		out = append(out, gate.Dim{Name: name, N: s.parse(n)})
	}
	return out
}

func labels(text string) (out []gate.Label) {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(word, ":")
		out = append(out, gate.Label{Name: name, Value: value})
	}
	slices.SortFunc(out, func(a, b gate.Label) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (s *session) number(l transcript.Line, name string, otherwise int64) int64 {
	if text, ok := l.Set[name]; ok {
		return s.parse(text)
	}
	return otherwise
}

func (s *session) parse(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *session) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}
