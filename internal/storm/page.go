package storm

import (
	"fmt"
	"math"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/report"
	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// colors are the clients' on the page; the essay's two share theirs.
var colors = map[string]report.Color{
	fixedName: report.Grey, exponentialName: report.Green, essayName: report.Blue, retryAfterName: report.Purple, sdkName: report.Orange,
}

// Page is the result for whoever decides by it.
func (r *Result) Page() *report.Page {
	p := &report.Page{
		Title:    "When far more is asked for than is freed",
		Lead:     r.lead(),
		Figures:  r.large(),
		Assumed:  r.Assumed,
		Sections: []report.Section{r.compared()},
		Risks:    risks(),
	}
	if r.client(sdkName).Waiters > 0 {
		p.Sections = append(p.Sections, r.cost(), r.overTime())
	}
	p.Sections = append(p.Sections, r.figures())
	return p
}

// named is a client's name, with its deadline where that is not everybody's.
func (r *Result) named(c *Client) string {
	if c.DeadlineS != r.DeadlineS {
		return fmt.Sprintf("%s, %g s", c.Client, c.DeadlineS)
	}
	return c.Client
}

// client returns one that has everybody's deadline.
func (r *Result) client(name string) *Client {
	for i := range r.Clients {
		if c := &r.Clients[i]; c.Client == name && c.DeadlineS == r.DeadlineS {
			return c
		}
	}
	return &Client{}
}

func (r *Result) lead() string {
	ours, every, essay := r.client(sdkName), r.client(fixedName), r.client(essayName)
	if ours.Waiters == 0 {
		return "In this storm nobody had to wait: there is nothing to tell clients apart by."
	}
	return fmt.Sprintf("With %g times as many callers as slots for %g s, ours makes %.2f calls for each caller that has to wait, "+
		"%s of them give up, and the last is served %s the moment when the backlog could first be empty. Who asks every second makes %.1f calls. "+
		"The essay's SDK makes %.1f, and its last caller is served %s that moment.",
		r.Load, r.StormS, ours.Attempts, percent(ours.GaveUp), after(ours.Recovery), every.Attempts, essay.Attempts, after(essay.Recovery))
}

func percent(x float64) string {
	if x == 0 {
		return "none"
	}
	return fmt.Sprintf("%.2g %%", 100*x)
}

// after says how long after a moment something is.
func after(s float64) string {
	switch s = math.Round(s); {
	case s < 0:
		return fmt.Sprintf("%.0f s before", -s)
	case s == 0:
		return "at"
	}
	return fmt.Sprintf("%.0f s after", s)
}

func (r *Result) large() []report.Figure {
	ours, essay := r.client(sdkName), r.client(essayName)
	beside := func(format string, x float64) string { return essayName + ": " + fmt.Sprintf(format, x) }
	return []report.Figure{
		{Value: fmt.Sprintf("%.2f", ours.Attempts), Label: "calls by ours for each who waits; 2 is the least", Note: beside("%.2f", essay.Attempts), Color: report.Orange},
		{Value: fmt.Sprintf("%.2g %%", 100*ours.GaveUp), Label: "of those who wait give up", Note: beside("%.2g %%", 100*essay.GaveUp), Color: report.Orange},
		{Value: fmt.Sprintf("%.0f s", ours.Recovery), Label: "from when the backlog could be empty to when nobody waits", Note: beside("%.0f s", essay.Recovery), Color: report.Orange},
		{Value: ours.right(), Label: "of what it is told is right within a fifth", Note: essayName + ": " + essay.right(), Color: report.Orange},
	}
}

func (r *Result) compared() report.Section {
	return report.Section{
		Title: "What is compared",
		Text: []string{fmt.Sprintf("A pool of %d slots whose sandboxes live for %s on average frees %s in a second. For %g s %g times as many callers come, and then none. "+
			"Each wants one slot and waits for it in the way of its client:", r.Cap, long(r.LifeS), svg.Amount(r.FreedPerS), r.StormS, r.Load)},
		Points: []string{
			"fixed: asks every second.",
			"exponential: waits a quarter of a second, then twice as long each time, up to 8 s, without jitter.",
			"essay_sdk: sleeps exactly as long as Retry-After says, in whole seconds.",
			"retry_after: comes back to the millisecond when it was told to.",
			"sdk: ours. It takes a place in the line, comes back shortly before its turn, and holds on.",
		},
	}
}

// long is a time in the unit that reads best.
func long(s float64) string {
	if s >= 120 {
		return fmt.Sprintf("%g minutes", s/60)
	}
	return fmt.Sprintf("%g s", s)
}

func (r *Result) cost() report.Section {
	bars := func(title, unit, note string, of func(*Client) (float64, string)) report.Bars {
		b := report.Bars{Title: title, Unit: unit, Note: note}
		for i := range r.Clients {
			c := &r.Clients[i]
			value, text := of(c)
			b.Bars = append(b.Bars, report.Bar{Label: r.named(c), Value: max(value, 0), Text: text, Color: colors[c.Client]})
		}
		return b
	}
	return report.Section{
		Title: "What each costs",
		Charts: []report.Chart{
			bars("Calls for each caller that waits", "", "", func(c *Client) (float64, string) { return c.Attempts, fmt.Sprintf("%.2f", c.Attempts) }),
			bars("Of those who wait give up", "%", "", func(c *Client) (float64, string) { return 100 * c.GaveUp, fmt.Sprintf("%.2g %%", 100*c.GaveUp) }),
			bars("Slots that were free while somebody waited", "", "Slots × seconds in one storm: capacity that was there, and that nobody came for.",
				func(c *Client) (float64, string) { return c.IdleSlots, svg.Amount(c.IdleSlots) }),
		},
	}
}

func (r *Result) overTime() report.Section {
	charts := chartsOf(r.StormS, r.first().couldBeEmpty)
	for i := range r.Clients {
		if c := &r.Clients[i]; c.DeadlineS == r.DeadlineS {
			charts.add(c.Client, colors[c.Client], c.first)
		}
	}
	return report.Section{Title: "One storm, second by second", Charts: []report.Chart{charts.waiting, charts.calls}}
}

// charts are of a storm, second by second.
type charts struct{ waiting, calls report.Lines }

func chartsOf(stormS float64, couldBeEmpty time.Duration) *charts {
	x := report.Axis{Name: "seconds from the beginning of the storm"}
	return &charts{
		waiting: report.Lines{
			Title: "Who waits", X: x, Y: report.Axis{Name: "callers"},
			At:   []report.Mark{{At: stormS, Label: "the storm is over"}, {At: seconds(couldBeEmpty), Label: "could be empty"}},
			Note: "The straight way down is as fast as slots are freed.",
		},
		calls: report.Lines{
			Title: "Calls in each second", X: x, Y: report.Axis{Name: "calls a second", Log: true},
			Note: "A wave is a herd: callers who were told the same, or wait alike, and come back together.",
		},
	}
}

func (c *charts) add(name string, color report.Color, h *history) {
	c.calls.Series = append(c.calls.Series, series(name, color, h.calls))
	c.waiting.Series = append(c.waiting.Series, series(name, color, h.waiting))
	for _, n := range h.waiting {
		c.waiting.Y.To = max(c.waiting.Y.To, math.Ceil(1.15*float64(n)))
	}
}

func (r *Result) first() *history { return r.Clients[0].first }

// series are a client's figures, of each second or, where those are many, the most of several.
func series(name string, color report.Color, each []int) report.Series {
	s := report.Series{Name: name, Color: color}
	step := len(each)/300 + 1
	for from := 0; from < len(each); from += step {
		most := 0
		for _, n := range each[from:min(from+step, len(each))] {
			most = max(most, n)
		}
		s.X, s.Y = append(s.X, float64(from)), append(s.Y, float64(most))
	}
	return s
}

func (r *Result) figures() report.Section {
	t := report.Table{
		Columns: []string{"client", "deadline", "waiters", "calls each", "gave up", "recovery", "told right", "most a second", "p50", "p99", "idle"},
		Ours:    sdkName,
		Note: fmt.Sprintf("Of %d storms with %d callers. A waiter is a caller whose first call was no yes; it waits from that call to its yes, for so long at p50 and p99. A call counts once, however long it is held. "+
			"Recovery is from when the backlog could first be empty, had each slot been taken in the instant in which it was freed, to when nobody waits; the longest of all storms, and below zero where callers gave up, or where others' sandboxes ended sooner. "+
			"Told right is the part of what waiters were told that was within a fifth of the time that it then took. Idle are slots × seconds that were free while somebody waited, in one storm.", r.Plays, r.Clients[0].Callers),
	}
	for i := range r.Clients {
		c := &r.Clients[i]
		t.Rows = append(t.Rows, append([]string{c.Client, fmt.Sprintf("%g s", c.DeadlineS)}, c.cells()...))
	}
	return report.Section{Title: "All figures", Tables: []report.Table{t}}
}

// cells are its figures in a table, from the waiters on.
func (c *Client) cells() []string {
	return []string{
		fmt.Sprint(c.Waiters), fmt.Sprintf("%.2f", c.Attempts),
		fmt.Sprintf("%.2f %%", 100*c.GaveUp), fmt.Sprintf("%.1f s", c.Recovery), c.right(), fmt.Sprint(c.Most),
		fmt.Sprintf("%.1f s", c.WaitP50), fmt.Sprintf("%.1f s", c.WaitP99), fmt.Sprintf("%.0f", c.IdleSlots),
	}
}

func risks() []string {
	return []string{
		"Clients that do not go by what they are told cost calls, not capacity: size what is in front of the replicas for the most in a second. Who asks often is also served before who asks seldom, since in refuse mode nobody keeps a place.",
		"Clients that are told too late a time leave slots free that others could have: the idle slots are work that was refused in vain. In refuse mode that cannot be helped altogether, for who was refused may never come back, and its place is a guess.",
		"Ours relies on the rate that was measured. Where slots are freed faster than before, who is away comes back later than it could, by at most two minutes; where slower, it makes a few more calls. With few slots a second chance moves each turn, and more of what is told is wrong by more than a fifth.",
		"Patience is an assumption. Callers who wait for less than the backlog lasts give up, whatever client they have; a longer line does not help them, more slots do.",
	}
}
