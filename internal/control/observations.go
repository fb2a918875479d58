package control

import (
	"context"
	"slices"
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
	words *hindsight.Past
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
	if p.words != nil {
		p.words.Hear(now, *v)
	}
}

// at is the newest word of a host that had been heard at a time; nil: there was none.
func (p *past) at(host string, at time.Duration) *hindsight.Word {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.words.At(host, at)
}

// begin has words kept from now on; the newest of each host is the first.
func (g *Gateway) begin() {
	g.past.mu.Lock()
	defer g.past.mu.Unlock()
	if g.past.words != nil {
		return
	}
	g.past.words = hindsight.NewPast()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.hosts {
		if a.heard {
			g.past.words.Hear(a.heardAt, TableVerdict(a.verdict))
		}
	}
}

// Observe takes decisions of another scheduler, and what came of them.
func (g *Gateway) Observe(ctx context.Context, who *config.Consumer, q api.ObservationBatch) (api.ObservationsTaken, error) {
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
	refuse := func(i int, err error) {
		out.Refused = append(out.Refused, api.ObservationRefused{Index: int64(i), Why: detailOf(err)})
	}
	var told []hindsight.Told
	var index []int // of told, in the report
	for i := range q.Observations {
		one, err := g.observation(who, &q.Observations[i])
		if err != nil {
			refuse(i, err)
			continue
		}
		told, index = append(told, one), append(index, i)
	}
	if len(told) == 0 {
		return out, nil
	}
	answers, err := g.Store.Compare(ctx, g.Table, told)
	if err != nil {
		g.Log.Warn("observations not kept", "err", err)
		return out, g.Refused(api.Refuse(api.Unavailable, "the store did not answer; tell the same again, which counts nothing twice"), who)
	}
	for i, a := range answers {
		if a.Err != nil {
			refuse(index[i], a.Err)
			continue
		}
		out.Taken++
		if a.Judged {
			out.Judged++
		}
	}
	slices.SortFunc(out.Refused, func(a, b api.ObservationRefused) int { return int(a.Index - b.Index) })
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

// observation reads one of a report.
func (g *Gateway) observation(who *config.Consumer, o *api.Observation) (hindsight.Told, error) {
	told := hindsight.Told{ID: hindsight.ID{Consumer: who.Name, Key: o.Key, Host: o.Host}, Outcome: outcomeOf[o.Outcome]}
	switch {
	case o.Decision == "" && o.Outcome == "":
		return told, api.Refuse(api.InvalidRequest, "say a decision, or an outcome, or both")
	case o.Decision == "" && (o.At != nil || o.Class != "" || o.MemoryMB != nil || o.CPU != nil || o.Stateful || len(o.Labels) > 0):
		return told, api.Refuse(api.InvalidRequest, "at, class, memory_mb, cpu, stateful and labels belong to a decision")
	case o.Decision == api.YesNoNo && o.Outcome != "":
		return told, api.Refuse(api.InvalidRequest, "outcome: %s", hindsight.ErrNoYes)
	case o.Decision == "":
		return told, nil
	}
	d, err := g.decision(o)
	told.Decision = &d
	return told, err
}

var outcomeOf = map[api.Outcome]hindsight.Outcome{
	api.OutcomeFitted: hindsight.Fitted, api.OutcomeFailed: hindsight.Failed, api.OutcomeOom: hindsight.OOM,
}

// decision reads a decision, and finds what had been heard of the host when it was made.
func (g *Gateway) decision(o *api.Observation) (d hindsight.Decision, err error) {
	if d.Ask, err = g.askObserved(o); err != nil {
		return d, err
	}
	d.Class, d.Yes = o.Class, o.Decision == api.YesNoYes
	if o.At != nil {
		age := g.Wall().Sub(*o.At)
		if age < -aheadMost || age > behindMost {
			return d, api.Refuse(api.InvalidRequest, "at: %s is not within the last hour by this replica's clock", o.At.UTC().Format(time.RFC3339))
		}
		d.Age = max(age, 0)
	}
	d.Word = g.past.at(o.Host, g.Now()-d.Age)
	return d, nil
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
		g.teach(c, &ask)
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

// Comparison is what is known of another scheduler's decisions beside ours, told to whichever replica.
func (g *Gateway) Comparison(ctx context.Context, who *config.Consumer) (api.Comparison, error) {
	t, err := g.Store.Compared(ctx)
	if err != nil {
		g.Log.Warn("comparison not read", "err", err)
		return api.Comparison{}, g.Refused(api.Refuse(api.Unavailable, "the store could not be read"), who)
	}
	return g.comparison(&t), nil
}

func (g *Gateway) comparison(t *hindsight.Tally) api.Comparison {
	out := api.Comparison{Since: g.Wall().UTC(), Cells: []api.ComparisonCell{}, Examples: []api.ComparedDecision{}}
	if t.Since != 0 {
		out.Since = t.Since.Wall()
	}
	for _, they := range []int{1, 0} {
		for _, we := range []int{1, 0} {
			cell := t.Cells[they][we]
			out.Cells = append(out.Cells, api.ComparisonCell{
				They: yesNo(they == 1), We: yesNo(we == 1), Decisions: cell.Total(),
				Fitted: cell[hindsight.Fitted], Failed: cell[hindsight.Failed], Oom: cell[hindsight.OOM],
			})
		}
	}
	out.Decisions, out.Unjudged, out.Late = t.Decisions(), t.Unjudged, t.Late
	out.WrongYes, out.WrongNo, out.Prevented = t.Count(hindsight.WrongYes), t.Count(hindsight.WrongNo), t.Count(hindsight.Prevented)
	out.TheirWrongYes, out.Conclusions = out.WrongYes+out.Prevented, t.Conclusions()
	for _, kind := range []hindsight.Kind{hindsight.WrongYes, hindsight.WrongNo, hindsight.Prevented} {
		for i := range t.Wrong[kind] {
			out.Examples = append(out.Examples, compared(kind, &t.Wrong[kind][i]))
		}
	}
	return out
}

// ResetComparison begins it anew.
func (g *Gateway) ResetComparison(ctx context.Context, who *config.Consumer) (api.Comparison, error) {
	if err := g.Store.ForgetCompared(ctx, who.Name); err != nil {
		g.Log.Warn("comparison not begun anew", "err", err)
		return api.Comparison{}, g.Refused(api.Refuse(api.Unavailable, "the store did not answer; say it again, which changes nothing if it was written"), who)
	}
	return g.comparison(&hindsight.Tally{}), nil
}

func yesNo(yes bool) api.YesNo {
	if yes {
		return api.YesNoYes
	}
	return api.YesNoNo
}

func compared(kind hindsight.Kind, c *hindsight.Case) api.ComparedDecision {
	out := api.ComparedDecision{
		Kind: api.ComparedKind(kind), Key: c.Key, Host: c.Host, Class: c.Class, At: c.At.Wall(),
		They: yesNo(c.Yes), We: yesNo(c.We), WhyNot: c.WhyNot, NeedMB: c.Need.CeilMiB(),
		AdmittableMB: c.Admittable.FloorMiB(), SetAsideMB: c.SetAside.CeilMiB(),
		Intake: host.Intake(c.Intake).String(), HeardMSBefore: c.HeardBefore.Milliseconds(),
		Stamp: api.Stamp{Incarnation: c.Incarnation, Sequence: c.Sequence},
	}
	for word, o := range outcomeOf {
		if o == c.Outcome {
			out.Outcome = word
		}
	}
	return out
}
