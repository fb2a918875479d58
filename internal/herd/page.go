package herd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll-project/plimsoll/internal/report"
	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// colors are the policies' on every page.
var colors = map[string]report.Color{
	Deltas: report.Orange, Heartbeats: report.Blue, SharedLedger: report.Purple, BestOf3: report.Green, NoShare: report.Grey,
}

// how is what each policy knows of the hosts, and how it chooses.
func how() []string {
	return []string{
		"heartbeats: each host reports every 10 s, each replica remembers what it placed itself, and takes the host that was emptiest (the essay's loop).",
		"shared_ledger: the same, and all replicas remember together.",
		"best_of_3: each replica polls the hosts every 20 s, draws three that seem to fit, and takes the least loaded (E2B's shape).",
		"deltas: ours. Each host says at once what moved, and checks and reserves in one step.",
	}
}

// Page is the result for whoever decides by it.
func (r *Result) Page() *report.Page {
	p := &report.Page{
		Title:   r.finding(),
		Lead:    r.lead(),
		Figures: r.large(),
		Sections: []report.Section{{
			Title: "What is compared",
			Text: []string{fmt.Sprintf(
				"%s hosts with room for %d sandboxes each, and replicas among which creates are dealt out at random. One pool that knew of every free slot at every moment would refuse a few creates all the same, when all slots are taken; Erlang's formula says how many. What a way of deciding refuses beyond that is the price of views that are old, and of replicas that do not know of each other.",
				svg.Amount(float64(r.Hosts)), r.Slots)},
			Points: how(),
		}},
		Risks:   risks(),
		Assumed: r.Assumed,
	}
	for _, life := range distinct(r.Rows, func(row *Row) float64 { return row.LifeS }) {
		for _, load := range distinct(r.Rows, func(row *Row) float64 { return row.Load }) {
			p.Sections = append(p.Sections, r.section(life, load))
		}
	}
	return p
}

// of are the rows of a policy.
func (r *Result) of(policy string) (rows []*Row) {
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Policy == policy {
			rows = append(rows, row)
		}
	}
	return rows
}

// beyond is the least and the most that a policy refused beyond one pool of the same creates.
func beyond(rows []*Row) (least, most float64) {
	for i, row := range rows {
		if i == 0 {
			least, most = row.Over, row.Over
		}
		least, most = min(least, row.Over), max(most, row.Over)
	}
	return least, most
}

// finding is the title: what ours costs, beside the dearest other way.
func (r *Result) finding() string {
	words := "What it costs that many replicas decide"
	if ours := r.of(Deltas); len(ours) > 0 {
		_, most := beyond(ours)
		words += fmt.Sprintf(": ours refuses %s beyond one pool", share(max(most, 0)))
	}
	if rows := r.of(Heartbeats); len(rows) > 0 {
		_, most := beyond(rows)
		words += fmt.Sprintf(", reports alone up to %s", share(max(most, 0)))
	}
	return words
}

// between is from the least to the most that is refused.
func between(least, most float64) string {
	least, most = max(least, 0), max(most, 0)
	if share(least) == share(most) {
		return share(most)
	}
	return share(least) + " to " + share(most)
}

func (r *Result) lead() string {
	var said []string
	if ours := r.of(Deltas); len(ours) > 0 {
		_, most := beyond(ours)
		said = append(said, fmt.Sprintf("With %s replicas ours refuses at most %s of all creates beyond what one pool of all slots would.", numbers(r.Rows), share(max(most, 0))))
	}
	for _, peer := range []struct{ policy, words string }{
		{Heartbeats, "Reports every 10 s cost %s"},
		{SharedLedger, "with one ledger for all replicas %s"},
		{BestOf3, "the best of three at random %s, and up to %.2f questions to hosts for each create"},
	} {
		rows := r.of(peer.policy)
		if len(rows) == 0 {
			continue
		}
		least, most := beyond(rows)
		args := []any{between(least, most)}
		if peer.policy == BestOf3 {
			args = append(args, mostCalls(rows))
		}
		said = append(said, fmt.Sprintf(peer.words, args...)+";")
	}
	return strings.TrimSuffix(strings.Join(said, " "), ";") + "."
}

// numbers says how many replicas were played.
func numbers(rows []Row) string {
	all := distinct(rows, func(row *Row) float64 { return float64(row.Replicas) })
	if len(all) == 1 {
		return fmt.Sprint(all[0])
	}
	return fmt.Sprintf("%v to %v", slices.Min(all), slices.Max(all))
}

func mostCalls(rows []*Row) (most float64) {
	for _, row := range rows {
		most = max(most, row.Calls)
	}
	return most
}

// share is a part of all creates as a page has it.
func share(x float64) string {
	switch {
	case x == 0:
		return "0 %"
	case x < 0.0001:
		return "less than 0.01 %"
	}
	return fmt.Sprintf("%.2g %%", 100*x)
}

func (r *Result) large() []report.Figure {
	var out []report.Figure
	for _, p := range []struct{ name, label string }{
		{Deltas, "refused by ours beyond one pool, at most"},
		{BestOf3, "by the best of three"},
		{SharedLedger, "with a ledger for all"},
		{Heartbeats, "by reports alone"},
	} {
		if rows := r.of(p.name); len(rows) > 0 {
			least, most := beyond(rows)
			out = append(out, report.Figure{Value: share(max(most, 0)), Label: p.label, Note: "at least " + share(max(least, 0)), Color: colors[p.name]})
		}
	}
	return out
}

// section shows one traffic: what each policy refuses beyond the pool, over the replicas.
func (r *Result) section(life, load float64) report.Section {
	l := report.Lines{
		Title:  fmt.Sprintf("Refused beyond one pool: sandboxes live %g s, load %g %%", life, 100*load),
		X:      report.Axis{Name: "replicas", Log: true, Ticks: distinct(r.Rows, func(row *Row) float64 { return float64(row.Replicas) })},
		Y:      report.Axis{Name: "part of all creates", Log: true, From: 1e-6, To: 1},
		Limits: []report.Mark{{At: target(load), Label: "the target of ours at this load"}},
	}
	var erlang float64
	for _, name := range distinct(r.Rows, func(row *Row) string { return row.Policy }) {
		s := report.Series{Name: name, Color: colors[name]}
		for _, row := range r.of(name) {
			if row.LifeS == life && row.Load == load {
				s.X, s.Y = append(s.X, float64(row.Replicas)), append(s.Y, max(row.Over, 0))
				erlang = row.ErlangB
			}
		}
		l.Series = append(l.Series, s)
	}
	return report.Section{
		Title:  fmt.Sprintf("Lives of %g s at %g %% of the slots", life, 100*load),
		Text:   []string{fmt.Sprintf("One pool refuses %s of these creates by Erlang's formula.", share(erlang))},
		Charts: []report.Chart{l},
		Tables: []report.Table{r.details(life, load)},
	}
}

// target is what ours may refuse beyond Erlang-B: a hundred-thousandth where one pool would refuse
// hardly anything, and 0.05 % near the brim.
func target(load float64) float64 {
	if load <= 0.8 {
		return 1e-5
	}
	return 5e-4
}

func (r *Result) details(life, load float64) report.Table {
	t := report.Table{
		Columns: []string{"policy", "replicas", "refused", "excess", "±", "of pooled", "±", "over", "wrong", "unsaid", "denied", "questions"},
		Ours:    Deltas, Title: "Every row of this traffic", Fold: true,
		Note: fmt.Sprintf("Of %s creates, after ten lives' worth that do not count. Excess is refused less Erlang-B; of pooled is refused less what one pool refused of the very same creates, "+
			"where chance is nearly the same, so that it is the sharper figure; ± is one standard error, from twenty parts of the play and, for the excess, from twenty such plays of one pool; where nothing was refused, the true part is below 3 by the number of creates with 95 %%. Over is what a host took beyond its slots. Wrong refusals stood beside room that its host had said, or would have by our rule; unsaid beside room that was too fresh for it. Denied are questions that hosts answered no, and questions are those for each create.",
			svg.Amount(float64(r.Requests))),
	}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.LifeS == life && row.Load == load {
			words := row.words()
			t.Rows = append(t.Rows, slices.Concat(words[:2], words[4:5], words[6:]))
		}
	}
	return t
}

func risks() []string {
	return []string{
		"A create that is refused although there is room is a caller who waits, or leaves, beside machines that are paid for and free. At a refusal of 20 % a fifth of the demand meets a no that nothing was behind.",
		"A yes to what does not fit would be a sandbox that the kernel kills. Every policy here is stopped from that by the host's own check, which a fleet without it does not have: then each denied question would have been one.",
		"The play has no failures, no lost frames and no slow hosts. What those cost ours is the subject of plimsoll sim faults; the more often replicas and hosts cannot hear each other, the more their views are like reports every 10 s.",
		"Sandboxes of many sizes do not fill hosts to the last slot: then all policies refuse more, and one pool is no bound that can be reached.",
	}
}

// distinct are the values that rows have, in their order.
func distinct[T comparable](rows []Row, of func(*Row) T) (out []T) {
	for i := range rows {
		if v := of(&rows[i]); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
