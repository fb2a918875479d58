package herd

import (
	"fmt"

	"github.com/plimsoll-project/plimsoll/internal/report"
	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// Page is the result for whoever decides by it.
func (r *BurstResult) Page() *report.Page {
	return &report.Page{
		Title: fmt.Sprintf("A burst to %d replicas at once: the fullest host has %.2f times the mean one", r.Replicas, r.MaxOverMean),
		Lead: fmt.Sprintf("%s creates come within %g s to %d replicas over %s hosts. Ours fills the fullest host to %.2f times the mean one in the median of %d bursts and %.2f in the worst, asks %.3f hosts for each create, and took %d that did not fit.",
			svg.Amount(float64(r.Creates)), r.WithinS, r.Replicas, svg.Amount(float64(r.Hosts)), r.MaxOverMean, r.Bursts, r.Worst, r.Calls, r.OverAdmissions),
		Figures: []report.Figure{
			{Value: fmt.Sprintf("%.2f", r.MaxOverMean), Label: "the fullest host by the mean one", Note: fmt.Sprintf("in the worst burst %.2f", r.Worst), Color: report.Orange},
			{Value: fmt.Sprintf("%.3f", r.Calls), Label: "questions to hosts for each create"},
			{Value: fmt.Sprint(r.OverAdmissions), Label: "taken that did not fit"},
			{Value: fmt.Sprint(r.WrongRefusals), Label: "refused although there was room"},
		},
		Sections: []report.Section{
			{
				Title:  "Who is filled",
				Text:   []string{"All replicas see the same hosts, a little late. If each took the emptiest that it sees, all would run to the same few, and fill them, while others stand empty: there a spike or a dead host takes the most along."},
				Points: append(how(), NoShare+": ours without the share of the hosts that each replica takes first."),
				Charts: []report.Chart{r.evenness()},
			},
			{
				Title:  "What is refused",
				Text:   []string{fmt.Sprintf("There is room for %s, so that nothing needs to be refused where the burst is smaller.", svg.Amount(float64(r.Hosts*r.Slots)))},
				Charts: []report.Chart{r.refusals()},
				Tables: []report.Table{r.details()},
			},
		},
		Risks: []string{
			"A host that is filled beyond the others is where memory runs short first, where a restore competes with the most others, and what takes the most along when it dies.",
			"Each question in vain is a wait for a caller, just when most of them wait.",
			"The replicas' views are as old as a frame here, and as 20 ms for a host that has just spoken. Processes that share too few processors hear later: internal/herd plays that in its tests, where the load ends a few sandboxes apart.",
		},
		Assumed: r.Assumed,
	}
}

// evenness leaves out who refused so much more than ours that there is no load to compare.
func (r *BurstResult) evenness() report.Bars {
	b := report.Bars{
		Title: "The fullest host by the mean one, in the median burst",
		Mark:  &report.Mark{At: 1, Label: "every host alike"},
	}
	for _, p := range r.all() {
		if p.Refused > r.Refused+0.01 {
			b.Note = p.Policy + " is left out: it refused " + share(p.Refused) + ", so that its load is another one."
			continue
		}
		b.Bars = append(b.Bars, report.Bar{Label: p.Policy, Value: p.MaxOverMean, Text: fmt.Sprintf("%.2f, in the worst %.2f", p.MaxOverMean, p.Worst), Color: colors[p.Policy]})
	}
	return b
}

func (r *BurstResult) refusals() report.Bars {
	b := report.Bars{Title: "Refused, of all creates"}
	for _, p := range r.all() {
		b.Bars = append(b.Bars, report.Bar{Label: p.Policy, Value: 100 * p.Refused, Text: share(p.Refused), Color: colors[p.Policy]})
	}
	return b
}

func (r *BurstResult) details() report.Table {
	t := report.Table{
		Columns: []string{"policy", "refused", "wrong", "unsaid", "over", "max/mean", "at worst", "on a host", "questions"},
		Note:    "Wrong refusals stood beside room that its host had said, or would have by our rule; unsaid beside room that was too fresh for it. Over is what a host took beyond its slots; questions are those for each create.",
		Ours:    Deltas,
	}
	for _, b := range r.all() {
		t.Rows = append(t.Rows, b.words())
	}
	return t
}
