package storm

import (
	"fmt"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/report"
	"github.com/plimsoll-project/plimsoll/internal/svg"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Page is the result for whoever decides by it.
func (r *RealResult) Page() *report.Page {
	p := &report.Page{
		Title: "Real clients when far more is asked for than is freed", Lead: r.lead(), Assumed: r.Assumed,
		Sections: []report.Section{{
			Title: "What was done",
			Text: []string{fmt.Sprintf("A pool of %d slots whose sandboxes live for %s on average frees %s in a second. Within %g s %d clients came, %g times as many, and then none. "+
				"Each has connections of its own and waits as package client does, for %g s at most.", r.Cap, long(r.LifeS), svg.Amount(r.FreedPerS), r.StormS, r.Clients, r.Load, r.DeadlineS)},
		}},
		Risks: []string{
			"In refuse mode nobody keeps a place: who comes first has the slot, newcomers too, and what is told is a guess. Use queue mode where a caller can wait.",
			"A replica and its clients on one machine share its cores, and no network is between them: the times of a call are those of this machine.",
		},
	}
	waited := false
	for i := range r.Runs {
		waited = waited || r.Runs[i].Measured.Waiters > 0
	}
	if waited {
		p.Figures = r.Runs[0].large()
		p.Sections = append(p.Sections, r.secondBySecond())
	}
	p.Sections = append(p.Sections, r.table())
	return p
}

func (r *RealResult) lead() string {
	one := &r.Runs[0]
	c := &one.Measured
	if c.Waiters == 0 {
		return "In this storm nobody had to wait."
	}
	return fmt.Sprintf("In mode %s each client that had to wait made %.2f calls, %s of them gave up, and the last was served %s the moment when the backlog could first be empty. "+
		"Played in virtual time the same callers make %.2f calls.", one.Mode, c.Attempts, percent(c.GaveUp), after(c.Recovery), one.Played.Attempts)
}

func (one *RealRun) large() []report.Figure {
	c := &one.Measured
	played := func(format string, x float64) string { return "played: " + fmt.Sprintf(format, x) }
	return []report.Figure{
		{Value: fmt.Sprintf("%.2f", c.Attempts), Label: "calls by each who waits; 2 is the least", Note: played("%.2f", one.Played.Attempts), Color: report.Orange},
		{Value: fmt.Sprintf("%.2g %%", 100*c.GaveUp), Label: "of those who wait give up", Note: played("%.2g %%", 100*one.Played.GaveUp), Color: report.Orange},
		{Value: fmt.Sprintf("%.0f s", c.Recovery), Label: "from when the backlog could be empty to when nobody waits", Note: played("%.0f s", one.Played.Recovery), Color: report.Orange},
		{Value: c.right(), Label: "of what it is told is right within a fifth", Note: "played: " + one.Played.right(), Color: report.Orange},
	}
}

// modeColors are those of the modes; what was played is grey beside one of them.
var modeColors = map[string]report.Color{string(pool.Queue): report.Orange, string(pool.Refuse): report.Blue}

func (r *RealResult) secondBySecond() report.Section {
	charts := chartsOf(r.StormS, time.Duration(r.EmptyAfterS*float64(time.Second)))
	for i := range r.Runs {
		one := &r.Runs[i]
		charts.add(one.Mode, modeColors[one.Mode], one.Measured.first)
		if len(r.Runs) == 1 {
			charts.add(one.Mode+", played", report.Grey, one.Played.first)
		}
	}
	return report.Section{Title: "The storm, second by second", Charts: []report.Chart{charts.waiting, charts.calls}}
}

func (r *RealResult) table() report.Section {
	t := report.Table{
		Columns: []string{"mode", "", "waiters", "calls each", "gave up", "recovery", "told right", "most a second", "p50", "p99", "idle"},
		Note: "A waiter is a caller whose first call was no yes; it waits from that call to its yes, for so long at p50 and p99. A call counts once, however long it is held. " +
			"Recovery is from when the backlog could first be empty, had each slot been taken in the instant in which it was freed, to when nobody waits. " +
			"Told right is the part of what waiters were told that was within a fifth of the time that it then took. Idle are slots × seconds that were free while somebody waited.",
	}
	wire := report.Table{
		Columns: []string{"mode", "connections", "most at once", "a create, p50", "p99", "first told right", "errors"},
		Note:    "First told right is the part of what waiters were told first that was within a fifth, which is what plimsoll_retry_after_error_ratio has.",
	}
	for i := range r.Runs {
		one := &r.Runs[i]
		t.Rows = append(t.Rows, append([]string{one.Mode, "measured"}, one.Measured.cells()...), append([]string{one.Mode, "played"}, one.Played.cells()...))
		wire.Rows = append(wire.Rows, []string{
			one.Mode, fmt.Sprint(one.Connections), fmt.Sprint(one.MostOpen), fmt.Sprintf("%.3g ms", one.PostP50), fmt.Sprintf("%.3g ms", one.PostP99),
			fmt.Sprintf("%.1f %%", 100*one.FirstRight), fmt.Sprint(one.Errors),
		})
	}
	return report.Section{Title: "All figures", Tables: []report.Table{t, wire}}
}
