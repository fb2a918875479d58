package herd

import (
	"fmt"

	"github.com/plimsoll-project/plimsoll/internal/report"
	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// Page is the result for whoever decides by it.
func (r *BurstResult) Page() *report.Page {
	return &report.Page{
		Title: "A burst that comes to many replicas at once",
		Lead: fmt.Sprintf("%s creates come within %g s to %d replicas over %s hosts. Ours fills the fullest host to %.2f times the mean one in the median of %d bursts and %.2f in the worst, asks %.3f hosts for each create, and takes nothing that does not fit.",
			svg.Amount(float64(r.Creates)), r.WithinS, r.Replicas, svg.Amount(float64(r.Hosts)), r.MaxOverMean, r.Bursts, r.Worst, r.Calls),
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
				Charts: []report.Chart{r.bars("The fullest host by the mean one, in the median burst", func(b *Burst) (float64, string) { return b.MaxOverMean, fmt.Sprintf("%.2f", b.MaxOverMean) })},
			},
			{
				Title:  "What is refused",
				Text:   []string{fmt.Sprintf("There is room for %s, so that nothing needs to be refused where the burst is smaller.", svg.Amount(float64(r.Hosts*r.Slots)))},
				Charts: []report.Chart{r.bars("Refused, of all creates", func(b *Burst) (float64, string) { return 100 * b.Refused, share(b.Refused) })},
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

func (r *BurstResult) bars(title string, of func(*Burst) (float64, string)) report.Bars {
	b := report.Bars{Title: title}
	all := r.all()
	for i := range all {
		value, text := of(&all[i])
		b.Bars = append(b.Bars, report.Bar{Label: all[i].Policy, Value: value, Text: text, Color: colors[all[i].Policy]})
	}
	return b
}

func (r *BurstResult) details() report.Table {
	t := report.Table{
		Columns: []string{"policy", "refused", "wrong refusals", "over-admissions", "max/mean", "at worst", "on a host", "questions a create"},
		Ours:    Deltas,
	}
	for _, b := range r.all() {
		t.Rows = append(t.Rows, b.words())
	}
	return t
}
