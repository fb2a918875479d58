package regimes

import (
	"fmt"
	"math"

	"github.com/plimsoll-project/plimsoll/internal/report"
	"github.com/plimsoll-project/plimsoll/internal/svg"
)

func count(n int64) string { return svg.Amount(float64(n)) }

func many(perHost float64) string { return fmt.Sprintf("%.1f", perHost) }

func seconds(s float64) string { return fmt.Sprintf("%.1f s", s) }

func hours(seconds int64) string { return fmt.Sprintf("%.1f h", float64(seconds)/3600) }

// find returns a regime's row.
func find(rows []Row, regime string, quota bool, load float64) *Row {
	for i := range rows {
		if r := &rows[i]; r.Regime == regime && r.Quota == quota && r.Load == load {
			return r
		}
	}
	return &Row{Regime: regime}
}

// plain is a regime without quotas, at the load that was asked for.
func (r *Result) plain(regime string) *Row { return find(r.Regimes, regime, false, r.Load) }

var order = []string{None, Committed, Essay, Learned, Hindsight}

func colorOf(regime string) report.Color {
	return map[string]report.Color{None: report.Red, Committed: report.Grey, Essay: report.Purple, Learned: report.Orange, Hindsight: report.Green}[regime]
}

// ended is who was killed or evicted.
func (f *Figures) ended() int64 { return f.Kills + f.Evicted }

// Page is the result for whoever decides by it.
func (r *Result) Page() *report.Page {
	p := &report.Page{
		Title: r.finding(), Lead: r.lead(), Figures: r.large(),
		Sections: []report.Section{r.density(), r.losses(), r.refusalsSection(), r.quotas(), r.loads()},
		Risks:    r.risks(), Assumed: r.Assumed,
	}
	if len(r.Together) > 0 {
		p.Sections = append(p.Sections, r.together())
	}
	return p
}

func (r *Result) finding() string {
	ours, committed := r.plain(Learned), r.plain(Committed)
	words := fmt.Sprintf("By what was learned a host holds %.0f sandboxes, by what is configured %.0f", ours.PerHost, committed.PerHost)
	if ours.ended() > 0 {
		return words + fmt.Sprintf("; %s were ended for it", count(ours.ended()))
	}
	return words + "; nobody was killed for it"
}

func (r *Result) lead() string {
	words := fmt.Sprintf("One fleet, %s hosts of %s MiB for %.4g h, under each way to admit, with the same %s creates at the same times and with the same lives (%s): if all came, %.4g sandboxes would live on each host. ",
		count(int64(r.Hosts)), count(r.HostMB), r.Hours, count(r.plain(Learned).Asked), r.Source, r.Load)
	ours, committed := r.plain(Learned), r.plain(Committed)
	return words + fmt.Sprintf("By what was learned %s of them gave up after their patience of %.4g s; by what is configured %s did.", percent(part(ours.GaveUp, ours.Asked)), r.PatienceS, percent(part(committed.GaveUp, committed.Asked)))
}

func (r *Result) large() []report.Figure {
	ours, committed, essay, none, best := r.plain(Learned), r.plain(Committed), r.plain(Essay), r.plain(None), r.plain(Hindsight)
	harm := report.Green
	if ours.ended() > 0 {
		harm = report.Red
	}
	return []report.Figure{
		{Value: many(ours.PerHost), Label: "sandboxes on a host, learned", Note: fmt.Sprintf("committed: %s; essay: %s; hindsight: %s", many(committed.PerHost), many(essay.PerHost), many(best.PerHost)), Color: report.Orange},
		{Value: count(ours.ended()), Label: "killed or evicted, learned", Note: fmt.Sprintf("none: %s; committed: %s; essay: %s", count(none.ended()), count(committed.ended()), count(essay.ended())), Color: harm},
		{Value: percent(part(ours.GaveUp, ours.Asked)), Label: "gave up, learned", Note: fmt.Sprintf("committed: %s; essay: %s; hindsight: %s", percent(part(committed.GaveUp, committed.Asked)), percent(part(essay.GaveUp, essay.Asked)), percent(part(best.GaveUp, best.Asked))), Color: report.Orange},
		{Value: count(r.against()), Label: "answers against a host's own word", Note: fmt.Sprintf("refused though it said that it fits, or admitted though not: of %s noes and every yes", count(r.noes())), Color: report.Green},
	}
}

// against counts over all plays what must be 0.
func (r *Result) against() (n int64) {
	for _, rows := range r.all() {
		for i := range rows {
			n += rows[i].AgainstOwnWord + rows[i].OverAdmissions
		}
	}
	return n
}

// noes counts those that hosts gave, by their own arithmetic.
func (r *Result) noes() (n int64) {
	for _, rows := range r.all() {
		for i := range rows {
			if f := &rows[i].Refusals; rows[i].Regime != Hindsight {
				n += f.NoRoom + f.Pressure + f.StartsFull
			}
		}
	}
	return n
}

func (r *Result) density() report.Section {
	b := report.Bars{Title: "Sandboxes on a host, mean", Unit: "a host"}
	for _, name := range order {
		b.Bars = append(b.Bars, report.Bar{Label: name, Value: r.plain(name).PerHost, Text: many(r.plain(name).PerHost), Color: colorOf(name)})
	}
	return report.Section{
		Title: "How many a host holds",
		Text: []string{
			"On average over the seconds in which somebody was refused or waited. Where nobody ever was, the fleet was not full, and it is the mean of the second half: it could have held more.",
			"What differs is what a sandbox is charged for, and who says no:",
		},
		Points: []string{
			"none: nobody is refused. The kernel kills the largest when a host is full.",
			"committed: what was configured. It cannot lose, and leaves idle what is not touched.",
			fmt.Sprintf("essay: what is resident; until a sandbox has been seen a quarter of what was configured, at least 512 MiB (here %s MiB).", count(r.PriorMB)),
			fmt.Sprintf("learned: what is resident, and for life at least what %s other runs taught (here %s MiB).", count(int64(r.TrainRuns)), count(r.LearnedMB)),
			"hindsight: an oracle that has read every life to its end and admits whoever will fit. Nobody can have it; it says how much there was to be had.",
		},
		Charts: []report.Chart{b},
	}
}

func (r *Result) losses() report.Section {
	b := report.Bars{Title: "Most resident on a host in any second, MiB", Unit: "MiB", Mark: &report.Mark{At: float64(r.HostMB), Label: "the machine has " + count(r.HostMB) + " MiB"}}
	t := report.Table{
		Columns: []string{"regime", "killed by the kernel", "evicted by the host", "work lost", "over physical memory", "in the headroom", "valve shut"}, Ours: Learned,
		Note: "Seconds are those of one host, of " + count(r.plain(None).HostSeconds) + " in each play. In the headroom: less was left than is never promised. An evicted one was told to go by its host before the kernel had to choose; never one that keeps state.",
	}
	for _, name := range order {
		row := r.plain(name)
		bar := report.Bar{Label: name, Value: float64(row.MostResident), Text: count(row.MostResident), Color: colorOf(name)}
		if row.MostResident > r.HostMB {
			bar.Text += ", over"
		}
		b.Bars = append(b.Bars, bar)
		t.Rows = append(t.Rows, []string{name, count(row.Kills), count(row.Evicted), hours(row.LostWork), count(row.OverPhysical) + " s", count(row.InHeadroom) + " s", count(row.Shut) + " s"})
	}
	return report.Section{
		Title:  "Who pays when too much was admitted",
		Text:   []string{"The fullest second of any host, before anybody was killed for it, and what came of it."},
		Charts: []report.Chart{b}, Tables: []report.Table{t},
	}
}

func (r *Result) refusalsSection() report.Section {
	t := report.Table{
		Columns: []string{"regime", "refused at least once", "more than hindsight", "wrongly, in hindsight", "against own word", "gave up", "success after, p50", "p99"}, Ours: Learned,
		Note: "Of what was asked for. Wrongly, in hindsight: some host would have held it over its whole life, beside what ran there. Nobody who does not know the future can make that 0. Against own word: while a host's own newest word said that it fits; the command fails if that ever happens. Success after: from the first refusal until it was admitted, of those that were refused first.",
	}
	reasons := report.Table{
		Title: "Every no, by its reason", Columns: []string{"regime", "no room", "valve shut", "starts full"}, Ours: Learned,
		Note: "Each try that was refused counts. Valve shut: some host's intake was shut, since memory ran short or grew too fast; the others had no room.",
	}
	for _, name := range order {
		row := r.plain(name)
		p50, p99 := row.waits()
		t.Rows = append(t.Rows, []string{name, percent(row.RefusedPart()), percent(row.Excess), percent(part(row.WrongRefusals, row.Asked)), count(row.AgainstOwnWord), percent(part(row.GaveUp, row.Asked)), p50, p99})
		reasons.Rows = append(reasons.Rows, []string{name, count(row.Refusals.NoRoom), count(row.Refusals.Pressure), count(row.Refusals.StartsFull)})
	}
	return report.Section{
		Title: "Who is told no",
		Text: []string{
			fmt.Sprintf("A refused caller comes back as the SDK does, for %.4g s. So a no is a wait for most, and a loss for those that gave up.", r.PatienceS),
		},
		Tables: []report.Table{t, reasons},
	}
}

func (r *Result) quotas() report.Section {
	t := report.Table{
		Ours: Learned, Columns: []string{"regime", "quota", "per host", "largest tenant's share", "refused by quota", "of them with room on a host", "gave up", "killed or evicted"},
	}
	for _, name := range order {
		for _, quota := range []bool{false, true} {
			row, word := find(r.Regimes, name, quota, r.Load), "none"
			if quota {
				word = count(r.Quota)
			}
			t.Rows = append(t.Rows, []string{name, word, many(row.PerHost), percent(row.LargestTenant), count(row.Refusals.Quota), count(row.OverQuota), percent(part(row.GaveUp, row.Asked)), count(row.ended())})
		}
	}
	return report.Section{
		Title: "With a quota for each tenant beside it",
		Text: []string{
			fmt.Sprintf("%s tenants, a few large and many small, and at most %s sandboxes of each at a time. A quota bounds what one tenant can do to the others. It says nothing about whether a host has room: who is over it is refused on an empty fleet, too, and is not told to come back.", count(int64(r.Tenants)), count(r.Quota)),
		},
		Tables: []report.Table{t},
	}
}

// at are a regime's rows over the loads, in order.
func (r *Result) at(regime string) (rows []*Row) {
	for i := range r.Sensitivity {
		if row := &r.Sensitivity[i]; row.Regime == regime {
			if len(rows) > 0 && rows[len(rows)-1].Load < r.Load && row.Load > r.Load {
				rows = append(rows, r.plain(regime))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func (r *Result) loads() report.Section {
	held := report.Lines{Title: "Sandboxes on a host, by how many are asked for", X: report.Axis{Name: "asked for per host, if all came"}, Y: report.Axis{Name: "sandboxes on a host"}}
	lost := report.Lines{Title: "Never came, or ended before their time", X: held.X, Y: report.Axis{Name: "% of what was asked for"}}
	t := report.Table{Title: "Every way to admit at every load", Fold: true, Ours: Learned, Columns: []string{"regime", "asked for per host", "per host", "refused", "gave up", "killed by the kernel", "evicted", "most resident"}}
	for _, name := range order {
		h, l := report.Series{Name: name, Color: colorOf(name)}, report.Series{Name: name, Color: colorOf(name)}
		for _, row := range r.at(name) {
			h.X, h.Y = append(h.X, row.Load), append(h.Y, row.PerHost)
			l.X, l.Y = append(l.X, row.Load), append(l.Y, math.Round(1000*row.LostPart())/10)
			t.Rows = append(t.Rows, []string{name, fmt.Sprintf("%.4g", row.Load), many(row.PerHost), percent(row.RefusedPart()), percent(part(row.GaveUp, row.Asked)), count(row.Kills), count(row.Evicted), count(row.MostResident) + " MiB"})
		}
		held.Series, lost.Series = append(held.Series, h), append(lost.Series, l)
	}
	first := r.at(Learned)
	from, to := first[0].Load, first[len(first)-1].Load
	held.X.From, held.X.To, lost.X.From, lost.X.To = from, to, from, to
	for _, row := range first {
		held.X.Ticks = append(held.X.Ticks, row.Load)
	}
	lost.X.Ticks = held.X.Ticks
	return report.Section{
		Title:  "At other loads",
		Text:   []string{fmt.Sprintf("The same fleet without quotas, asked for from %.4g to %.4g sandboxes per host: how much the answer hangs on how full it is. Who refuses now and then is counted in those seconds alone, and may so be above what is asked for on average.", from, to)},
		Charts: []report.Chart{held, lost}, Tables: []report.Table{t},
	}
}

func (r *Result) together() report.Section {
	b := report.Bars{Title: "Killed or evicted, of the same creates", Unit: "sandboxes"}
	t := report.Table{
		Ours: Learned, Columns: []string{"regime", "quota", "per host", "killed by the kernel", "evicted by the host", "work lost", "most resident", "gave up", "refused by quota"},
	}
	for i := range r.Together {
		row, word := &r.Together[i], "none"
		name := row.Regime
		if row.Quota {
			word, name = count(r.Quota), name+", quota "+count(r.Quota)
		}
		b.Bars = append(b.Bars, report.Bar{Label: name, Value: float64(row.ended()), Color: colorOf(row.Regime)})
		t.Rows = append(t.Rows, []string{row.Regime, word, many(row.PerHost), count(row.Kills), count(row.Evicted), hours(row.LostWork), count(row.MostResident) + " MiB", percent(part(row.GaveUp, row.Asked)), count(row.Refusals.Quota)})
	}
	return report.Section{
		Title: "If sandboxes of a batch peak together",
		Text: []string{
			"Every way to admit more than is configured bets that not all peak at once. Here it is made to lose: sandboxes come in batches of one tenant's, some of them of hundreds, and all of a batch live the very same life, so that they peak in the same second. At most 8 of a tenant's that start within a minute are put on one host while others fit, which is all the fleet can do by placement.",
			"A quota bounds how many of one tenant's there are, and so what it can do to the others.",
		},
		Charts: []report.Chart{b}, Tables: []report.Table{t},
	}
}
