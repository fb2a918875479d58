package control

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/explain"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
)

// This file finds decisions again, and says what there is to say of them.

// Decision is GET /v1/decisions/{id}. Whether somebody else's is there is nobody's business. While
// the store is away, what is still here is told, without what happened since.
func (g *Gateway) Decision(ctx context.Context, who *config.Consumer, id string) (api.Decision, error) {
	d, err := g.noted(ctx, id)
	if d == nil {
		var errRow error
		d, errRow = g.decisionOfRow(ctx, id)
		err = cmp.Or(err, errRow)
	}
	switch {
	case d == nil && err != nil:
		return api.Decision{}, g.unreadable(err, who)
	case d == nil || d.Told.Consumer != who.Name && !who.Has(config.RoleOperator):
		return api.Decision{}, g.Refused(api.Refuse(api.NotFound, "no decision has the id %q; they are kept for a day, and a yes for as long as its key is not asked for anew", short(id)), who)
	}
	out := d.explained()
	if out.Key == "" {
		return out, nil
	}
	story, err := g.story(ctx, out.Consumer, out.Key)
	if err != nil {
		g.unread(err)
		return out, nil
	}
	story.tell(&out)
	return out, nil
}

// short bounds a text that a caller made up.
func short(s string) string { return s[:min(len(s), 64)] }

// noted finds one that was noted, here or by another replica; nil for none.
func (g *Gateway) noted(ctx context.Context, id string) (*Decision, error) {
	if here := g.keeper.find(id); here != nil {
		return here, nil
	}
	kept, ok, err := g.Store.Decision(ctx, id)
	if err != nil || !ok {
		return nil, err
	}
	return kept, nil
}

// decisionOfRow finds a yes that its admission's row tells of; nil for none.
func (g *Gateway) decisionOfRow(ctx context.Context, id string) (*Decision, error) {
	of, epoch, ok := parseYesID(id)
	if !ok {
		return nil, nil
	}
	row, found, err := g.rowByID(ctx, of)
	if err != nil || !found || row.Epoch != epoch || row.AdmittedAt == 0 {
		return nil, err
	}
	return YesOf(&row), nil
}

// rowByID finds an admission, whoever records it.
func (g *Gateway) rowByID(ctx context.Context, id string) (pool.Row, bool, error) {
	if _, ok := admission.ByHost(id); !ok {
		return g.Store.ByID(ctx, id)
	}
	var row pool.Row
	g.own.with(func(rows *admission.Book) { row, _ = rows.ByID(id) })
	if placed, at, err := g.placed(ctx, id); err == nil && placed.Epoch != 0 {
		row = g.rowOf(id, at, &placed, row)
	}
	return row, row.ID != "", nil
}

// Decisions is GET /v1/decisions: what a key was told, the newest first.
func (g *Gateway) Decisions(ctx context.Context, who *config.Consumer, key string, limit int) (api.DecisionList, error) {
	consumer := who.Name
	if who.Has(config.RoleOperator) {
		consumer = "" // anybody's
	}
	s, err := g.toldOf(ctx, consumer, key)
	for _, name := range g.askers(consumer, &s) {
		if err == nil {
			err = g.addRow(ctx, &s, name, key)
		}
	}
	if err != nil {
		return api.DecisionList{}, g.unreadable(err, who)
	}
	slices.SortStableFunc(s.decisions, func(a, b *Decision) int { return b.Told.At.Compare(a.Told.At) })
	out := api.DecisionList{Decisions: []api.Decision{}}
	for _, d := range s.decisions[:min(limit, len(s.decisions))] {
		out.Decisions = append(out.Decisions, d.explained())
	}
	return out, nil
}

// askers are the consumers of whom a key may be: one, or all that are known.
func (g *Gateway) askers(consumer string, s *story) []string {
	if consumer != "" {
		return []string{consumer}
	}
	var names []string
	if fleet := g.Fleet(); fleet != nil {
		for i := range fleet.Consumers {
			names = append(names, fleet.Consumers[i].Name)
		}
	}
	if g.Local != nil { // whom no configuration names
		names = append(names, g.Local.Name)
	}
	for _, d := range s.decisions {
		names = append(names, d.Told.Consumer)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// story is all that is known of a consumer's key: the newest decision first, and its row.
type story struct {
	decisions []*Decision
	row       pool.Row
	found     bool
}

const mostOfAKey = 1000 // decisions of one key that are looked at

func (g *Gateway) story(ctx context.Context, consumer, key string) (story, error) {
	s, err := g.toldOf(ctx, consumer, key)
	if err == nil {
		err = g.addRow(ctx, &s, consumer, key)
	}
	return s, err
}

// toldOf is what was noted of a key, here or by any replica.
func (g *Gateway) toldOf(ctx context.Context, consumer, key string) (story, error) {
	s := story{decisions: g.keeper.of(consumer, key)}
	kept, err := g.Store.Decisions(ctx, consumer, key, mostOfAKey)
	for _, d := range kept {
		s.add(d)
	}
	return s, err
}

// addRow adds a consumer's row of the key, and the yes that it tells of.
func (g *Gateway) addRow(ctx context.Context, s *story, consumer, key string) (err error) {
	if s.row, s.found = g.own.get(consumer, key); !s.found {
		s.row, s.found, err = g.Store.Get(ctx, consumer, key)
	}
	if s.found && s.row.AdmittedAt != 0 && s.row.Epoch != 0 {
		s.add(YesOf(&s.row))
	}
	return err
}

// add takes a decision in that is not in it already: what was just written is in two places.
func (s *story) add(d *Decision) {
	if !slices.ContainsFunc(s.decisions, func(have *Decision) bool { return have.Told.ID == d.Told.ID }) {
		s.decisions = append(s.decisions, d)
	}
}

// tell adds to a decision what happened before it and since.
func (s *story) tell(d *api.Decision) {
	first := d.At
	if d.FirstRefusedAt != nil {
		first = *d.FirstRefusedAt
	}
	noes := int64(0)
	for _, other := range s.decisions {
		t := &other.Told
		yes := t.Outcome == api.DecisionOutcomeAdmitted
		switch {
		case t.ID == d.ID && !yes, !yes && !t.At.After(d.At) && !t.At.Before(first):
			noes++ // up to this one
		case t.ID == d.ID, t.At.Before(d.At), !yes && !t.At.After(d.At):
		default:
			d.Since = append(d.Since, eventOf(t))
		}
		if yes && t.ID != d.ID && !t.At.Before(d.At) {
			succeeded(d, t.At.Sub(first))
		}
	}
	d.Attempts = max(d.Attempts, noes)
	s.tellRow(d)
	slices.SortStableFunc(d.Since, func(a, b api.DecisionEvent) int { return a.At.Compare(b.At) })
}

// succeeded notes after how long a request that was told no was admitted: by the first yes.
func succeeded(d *api.Decision, after time.Duration) {
	ms := after.Milliseconds()
	if d.Outcome != api.DecisionOutcomeAdmitted && (d.ToSuccessMS == nil || ms < *d.ToSuccessMS) {
		d.ToSuccessMS = &ms
	}
}

func eventOf(t *api.Decision) api.DecisionEvent {
	e := api.DecisionEvent{At: t.At, What: api.DecisionEventWhatAsked, DecisionID: t.ID, Outcome: t.Outcome, Code: t.Code, Detail: t.Detail}
	if t.Outcome == api.DecisionOutcomeAdmitted {
		e.What = api.DecisionEventWhatAdmitted
		if t.Host != "" {
			e.Detail = "on host " + t.Host
		}
	}
	return e
}

// tellRow adds what became of the admission that the key stands for.
func (s *story) tellRow(d *api.Decision) {
	if !s.found {
		return
	}
	event := func(at pool.Time, what api.DecisionEventWhat, detail string) {
		if at != 0 && !at.Wall().Before(d.At) {
			d.Since = append(d.Since, api.DecisionEvent{At: at.Wall(), What: what, Detail: detail})
		}
	}
	r := &s.row
	event(r.RunningAt, api.DecisionEventWhatStarted, at(r))
	if r.State.Ended() {
		event(r.EndedAt, api.DecisionEventWhat(r.State), r.Reason)
	}
}

// at says where an admission is.
func at(r *pool.Row) string {
	if where := cmp.Or(r.Host, r.Audience); where != "" {
		return "on " + where
	}
	return ""
}

// explained says a decision with all that follows from what it rests on.
func (d *Decision) explained() api.Decision {
	out := d.Told
	if d.Facts == nil {
		out.Line = d.line()
		return out
	}
	f := *d.Facts
	if e := d.Evidence; e != nil {
		f.Excluded, f.Near = e.Excluded, e.Near
		for _, x := range e.Excluded {
			out.Excluded = append(out.Excluded, api.DecisionExclusion{Reason: x.Reason, Count: int64(x.Count), Hosts: x.Hosts})
		}
	}
	x := explain.Of(&f)
	out.Line, out.Nearest = x.Line, x.Nearest
	for _, c := range x.Changes {
		out.Changes = append(out.Changes, api.Change{
			Kind: string(c.Kind), Who: string(c.Who), Target: c.Target, From: c.From, To: c.To,
			Command: c.Command, Patch: c.Patch, Why: c.Why,
		})
	}
	return out
}

// line is that of a yes.
func (d *Decision) line() string {
	t := &d.Told
	line := "admitted"
	if t.Host != "" {
		line += " on host " + t.Host
	}
	if t.ToSuccessMS != nil {
		line += ", " + explain.About(time.Duration(*t.ToSuccessMS)*time.Millisecond) + " after the first no or its place"
	}
	return line
}
