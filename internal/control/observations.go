package control

import (
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/hindsight"
	"github.com/plimsoll-project/plimsoll/table"
)

// past is what this replica remembers of hosts' words, once somebody compares decisions with
// them: nobody else pays for that.
type past struct {
	mu    sync.Mutex // guards what follows
	book  *hindsight.Book
	since time.Time
}

// MostObservations is how many one report may hold.
const MostObservations = 256

// How far from now a decision may have been.
const (
	aheadMost  = 30 * time.Second // clocks differ
	behindMost = time.Hour
)

// remember keeps a host's word, where words are kept.
func (p *past) remember(now time.Duration, v *table.Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.book != nil {
		p.book.Hear(now, *v)
	}
}

// begin has words kept from now on; the newest of each host is the first.
func (g *Gateway) begin() {
	g.past.mu.Lock()
	defer g.past.mu.Unlock()
	if g.past.book != nil {
		return
	}
	g.past.book, g.past.since = hindsight.New(g.Table), g.Wall().UTC()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.hosts {
		if a.heard {
			g.past.book.Hear(a.heardAt, tableVerdict(a.verdict))
		}
	}
}

// Observe takes decisions of another scheduler, and what came of them.
func (g *Gateway) Observe(who *config.Consumer, q api.ObservationBatch) (api.ObservationsTaken, error) {
	if n := len(q.Observations); n == 0 || n > MostObservations {
		return api.ObservationsTaken{}, api.Refuse(api.InvalidRequest, "observations: %d of them; send 1 to %d", n, MostObservations)
	}
	for i := range q.Observations {
		if field, why := malformed(&q.Observations[i]); field != "" {
			return api.ObservationsTaken{}, api.Refuse(api.InvalidRequest, "observations[%d].%s: %s", i, field, why)
		}
	}
	g.begin()
	out := api.ObservationsTaken{Refused: []api.ObservationRefused{}}
	for i := range q.Observations {
		judged, err := g.observation(who, &q.Observations[i])
		if err != nil {
			out.Refused = append(out.Refused, api.ObservationRefused{Index: int64(i), Why: detailOf(err)})
			continue
		}
		out.Taken++
		if judged {
			out.Judged++
		}
	}
	return out, nil
}

// malformed names a field that the contract does not allow, and why: then nothing of the report
// is taken, for whoever wrote it did not mean any of it.
func malformed(o *api.Observation) (field, why string) {
	const name = "write 1 to 128 of A-Z a-z 0-9 . _ : -"
	switch {
	case !isName(o.Key):
		return "key", name
	case !isName(o.Host):
		return "host", name
	case o.Class != "" && !isName(o.Class):
		return "class", name
	case o.Decision != "" && !o.Decision.Valid():
		return "decision", "write yes or no"
	case o.Outcome != "" && !o.Outcome.Valid():
		return "outcome", "write fitted, failed or oom"
	case len(o.Labels) > mostLabels:
		return "labels", "write at most 32"
	}
	for _, value := range o.Labels {
		if len(value) > longestLabel {
			return "labels", "write values of at most 256 bytes"
		}
	}
	return "", ""
}

const (
	mostLabels   = 32
	longestLabel = 256
)

func detailOf(err error) string {
	if r, ok := api.AsRefusal(err); ok {
		return r.Detail
	}
	return err.Error()
}

func (g *Gateway) observation(who *config.Consumer, o *api.Observation) (judged bool, err error) {
	id := hindsight.ID{Consumer: who.Name, Key: o.Key, Host: o.Host}
	switch {
	case o.Decision == "" && o.Outcome == "":
		return false, api.Refuse(api.InvalidRequest, "say a decision, or an outcome, or both")
	case o.Decision == "" && (o.At != nil || o.Class != "" || o.MemoryMB != nil || o.CPU != nil || o.Stateful || len(o.Labels) > 0):
		return false, api.Refuse(api.InvalidRequest, "at, class, memory_mb, cpu, stateful and labels belong to a decision")
	case o.Decision == api.YesNoNo && o.Outcome != "":
		return false, api.Refuse(api.InvalidRequest, "outcome: %s", hindsight.ErrNoYes)
	}
	if o.Decision != "" {
		if judged, err = g.decision(id, o); err != nil || !judged {
			return judged, err
		}
	}
	if o.Outcome == "" {
		return judged, nil
	}
	g.past.mu.Lock()
	defer g.past.mu.Unlock()
	return judged, g.past.book.End(id, outcomeOf[o.Outcome])
}

var outcomeOf = map[api.Outcome]hindsight.Outcome{
	api.OutcomeFitted: hindsight.Fitted, api.OutcomeFailed: hindsight.Failed, api.OutcomeOom: hindsight.OOM,
}

func (g *Gateway) decision(id hindsight.ID, o *api.Observation) (judged bool, err error) {
	ask, err := g.askObserved(o)
	if err != nil {
		return false, err
	}
	now := g.Now()
	d := hindsight.Decision{ID: id, Class: o.Class, Ask: ask, Yes: o.Decision == api.YesNoYes, At: now}
	if o.At != nil {
		age := g.Wall().Sub(*o.At)
		if age < -aheadMost || age > behindMost {
			return false, api.Refuse(api.InvalidRequest, "at: %s is not within the last hour by this replica's clock", o.At.UTC().Format(time.RFC3339))
		}
		d.At = now - max(age, 0)
	}
	g.past.mu.Lock()
	defer g.past.mu.Unlock()
	return g.past.book.Decide(d)
}

// askObserved is what was decided about: one of a class, or of a size.
func (g *Gateway) askObserved(o *api.Observation) (gate.Ask, error) {
	if o.Class != "" {
		if o.Stateful {
			return gate.Ask{}, api.Refuse(api.InvalidRequest, "stateful: the class says that")
		}
		if _, err := g.askOfClass(o.Class); err != nil {
			return gate.Ask{}, err
		}
		c, _ := g.Fleet().Class(o.Class)
		ask, _, err := c.Ask(o.MemoryMB, o.CPU, "", o.Labels)
		return ask, err
	}
	const mostMB, mostCPU = 1 << 30, 1 << 20
	switch {
	case o.MemoryMB == nil || *o.MemoryMB < 1 || *o.MemoryMB > mostMB:
		return gate.Ask{}, api.Refuse(api.InvalidRequest, "memory_mb: without a class write 1 to %d", mostMB)
	case o.CPU != nil && !(*o.CPU >= 0 && *o.CPU <= mostCPU):
		return gate.Ask{}, api.Refuse(api.InvalidRequest, "cpu: write cores from 0 to %d", mostCPU)
	}
	rule, size := gate.DefaultReserveRule(), gate.FromMiB(*o.MemoryMB)
	c := config.Class{
		Name: "observed", Template: "observed", Memory: size, MinMemory: size, MaxMemory: size, Stateful: o.Stateful,
		ReserveFraction: config.Milli(rule.Permille), ReserveFloor: rule.Floor, SettleAfter: rule.SettleAfter,
	}
	ask, _, err := c.Ask(nil, nil, "", o.Labels) // cpu scores, and refuses nothing
	return ask, err
}

// Comparison is what is known of another scheduler's decisions beside ours.
func (g *Gateway) Comparison() api.Comparison {
	g.past.mu.Lock()
	defer g.past.mu.Unlock()
	out := api.Comparison{Since: g.Wall().UTC(), Cells: []api.ComparisonCell{}, Examples: []api.ComparedDecision{}}
	c := hindsight.New(g.Table).Compare()
	if g.past.book != nil {
		c, out.Since = g.past.book.Compare(), g.past.since
	}
	for _, they := range []int{1, 0} {
		for _, we := range []int{1, 0} {
			cell := c.Cells[they][we]
			out.Cells = append(out.Cells, api.ComparisonCell{
				They: yesNo(they == 1), We: yesNo(we == 1), Decisions: cell.Total(),
				Fitted: cell[hindsight.Fitted], Failed: cell[hindsight.Failed], Oom: cell[hindsight.OOM],
			})
		}
	}
	out.Decisions, out.Unjudged, out.Late = c.Decisions(), c.Unjudged, c.Late
	out.WrongYes, out.WrongNo, out.Prevented = c.Count(hindsight.WrongYes), c.Count(hindsight.WrongNo), c.Count(hindsight.Prevented)
	out.TheirWrongYes, out.Conclusions = out.WrongYes+out.Prevented, c.Conclusions()
	now, wall := g.Now(), g.Wall()
	for _, kind := range []hindsight.Kind{hindsight.WrongYes, hindsight.WrongNo, hindsight.Prevented} {
		for i := range c.Wrong[kind] {
			out.Examples = append(out.Examples, compared(&c.Wrong[kind][i], wall.Add(-now)))
		}
	}
	return out
}

func yesNo(yes bool) api.YesNo {
	if yes {
		return api.YesNoYes
	}
	return api.YesNoNo
}

// compared shows a decision; zero is the wall clock when the replica's own was 0.
func compared(j *hindsight.Judged, zero time.Time) api.ComparedDecision {
	out := api.ComparedDecision{
		Key: j.ID.Key, Host: j.ID.Host, Class: j.Class, At: zero.Add(j.At).UTC().Truncate(time.Millisecond),
		They: yesNo(j.Yes), We: yesNo(j.We), NeedMB: j.Need.CeilMiB(),
		AdmittableMB: j.Word.Admittable.FloorMiB(), SetAsideMB: j.SetAside.CeilMiB(),
		Intake: host.Intake(j.Word.Intake).String(), HeardMSBefore: (j.At - j.Heard).Milliseconds(),
		Stamp: api.Stamp{Incarnation: j.Word.Incarnation, Sequence: j.Word.Sequence},
	}
	if !j.We {
		out.WhyNot = j.WhyNot.String()
	}
	for word, o := range outcomeOf {
		if o == j.Outcome {
			out.Outcome = word
		}
	}
	return out
}
