package density

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/report"
	"github.com/plimsoll-project/plimsoll/internal/svg"
)

// assumptions are what was simplified, each a sentence.
func assumptions(o Options, source string) []string {
	all := []string{
		fmt.Sprintf("Every sandbox is configured with %s MiB, every host has %s MiB, and one of each policy is played at a time, by the rules that a real host's agent runs.", count(o.ConfiguredMB), count(o.HostMB)),
		"A host is always full: somebody waits outside at every moment. A fleet that is less busy holds fewer.",
		"What lives is drawn at random from the runs (" + source + "), and each draw is independent of the others, except that a batch starts together.",
		"Nobody is killed. A second in which more is resident than the machine has is counted, and life goes on; a real kernel would have killed somebody.",
		"Memory alone is limited: neither processors nor disks are.",
	}
	if o.AllAtOnce {
		all = append(all, "A start takes no time, so that a whole batch starts within one second.")
	} else {
		all = append(all, "A start takes a second, and a host of 8 cores lets 16 start at a time.")
	}
	return append(all, fmt.Sprintf("Each host is empty again every %s s.", count(int64(o.Renew/time.Second))))
}

func count(n int64) string { return svg.Amount(float64(n)) }

func many(perHost float64) string { return fmt.Sprintf("%.1f", perHost) }

// hostsFor is how many hosts so many sandboxes take.
const hostsFor = 1000

func (p *Policy) hosts() string {
	if p.PerHost == 0 {
		return "none can"
	}
	return svg.Amount(math.Ceil(hostsFor / p.PerHost))
}

// named is the policy of this name.
func (r *Result) named(name string) *Policy {
	return &r.Policies[slices.IndexFunc(r.Policies, func(p Policy) bool { return p.Policy == name })]
}

// Page is the result for whoever decides by it.
func (r *Result) Page() *report.Page {
	return &report.Page{
		Title:   r.finding(),
		Lead:    r.lead(),
		Figures: r.large(),
		Sections: []report.Section{
			{Title: "How many a host holds", Text: []string{
				"The mean over the seconds from when a host was full for the first time. What differs is what a sandbox is charged:",
			}, Points: []string{
				"committed: what it was configured with.",
				"essay: what is resident in it; until it has been seen a quarter of what it was configured with, at least 512 MiB.",
				"learned: what is resident in it, and for life at least the reserve that other runs taught.",
			}, Charts: []report.Chart{r.heldBars()}},
			{Title: "How full the fullest second was", Text: []string{
				"The most that was resident on a host in any second. Beyond the mark the machine has no memory left, and the kernel would have killed.",
			}, Charts: []report.Chart{r.fullestBars()}, Tables: []report.Table{r.secondsTable()}},
			{Title: "By the size of the batch", Text: []string{
				"Sandboxes that one caller asks for together start together, and peak together more often than strangers do.",
			}, Tables: []report.Table{r.batchTable()}},
			{Title: "What was learned", Text: r.early(), Tables: []report.Table{r.lessonTable()}},
		},
		Risks:   r.risks(),
		Assumed: r.Assumed,
	}
}

func (r *Result) finding() string {
	ours, committed := r.named(learnedPolicy), r.named(committedPolicy)
	return fmt.Sprintf("By what was learned a host holds %.0f sandboxes, by what is configured %.0f", ours.PerHost, committed.PerHost)
}

func (r *Result) lead() string {
	ours := r.named(learnedPolicy)
	words := fmt.Sprintf("Sandboxes of %s MiB on hosts of %s MiB that are always full, %s seconds for each policy. ", count(r.ConfiguredMB), count(r.HostMB), count(ours.HostSeconds))
	if ours.OverPhysical > 0 {
		return words + fmt.Sprintf("By what was learned they were over physical memory for %s of these seconds: do not switch on this evidence.", count(ours.OverPhysical))
	}
	return words + fmt.Sprintf("By what was learned they were never over physical memory: the fullest second left %s MiB.", count(r.HostMB-ours.Most))
}

func (r *Result) large() []report.Figure {
	ours, committed, essay := r.named(learnedPolicy), r.named(committedPolicy), r.named(essayPolicy)
	return []report.Figure{
		{Value: many(ours.PerHost), Label: "sandboxes on a host, learned", Note: "committed: " + many(committed.PerHost) + "; essay: " + many(essay.PerHost), Color: report.Orange},
		{Value: ours.hosts(), Label: "hosts for 1,000 sandboxes, learned", Note: "committed: " + committed.hosts() + "; essay: " + essay.hosts(), Color: report.Orange},
		{Value: count(ours.OverPhysical) + " s", Label: "over physical memory, learned", Note: "committed: " + count(committed.OverPhysical) + " s; essay: " + count(essay.OverPhysical) + " s", Color: harm(ours.OverPhysical > 0)},
	}
}

func harm(there bool) report.Color {
	if there {
		return report.Red
	}
	return report.Green
}

func colorOf(policy string) report.Color {
	switch policy {
	case learnedPolicy:
		return report.Orange
	case essayPolicy:
		return report.Purple
	}
	return report.Grey
}

func (r *Result) heldBars() report.Bars {
	b := report.Bars{Title: "Sandboxes on a host, mean", Unit: "a host"}
	for _, p := range r.Policies {
		b.Bars = append(b.Bars, report.Bar{Label: p.Policy, Value: p.PerHost, Text: many(p.PerHost), Color: colorOf(p.Policy)})
	}
	return b
}

func (r *Result) fullestBars() report.Bars {
	b := report.Bars{Title: "Most resident on a host in any second, MiB", Unit: "MiB", Mark: &report.Mark{At: float64(r.HostMB), Label: "the machine has " + count(r.HostMB) + " MiB"}}
	for _, p := range r.Policies {
		bar := report.Bar{Label: p.Policy, Value: float64(p.Most), Text: count(p.Most), Color: colorOf(p.Policy)}
		if p.Most > r.HostMB {
			bar.Color = report.Red
			bar.Text += ", over"
		}
		b.Bars = append(b.Bars, bar)
	}
	return b
}

func (r *Result) secondsTable() report.Table {
	t := report.Table{
		Columns: []string{"policy", "seconds played", "over physical memory", "valve shut", "for its dwell alone"}, Ours: learnedPolicy,
		Note: "The valve shuts the intake while memory runs short. For its dwell alone: the next would have fitted and all was calm again, only not for long enough.",
	}
	for _, p := range r.Policies {
		t.Rows = append(t.Rows, []string{p.Policy, count(p.HostSeconds), count(p.OverPhysical) + " s", count(p.Shut) + " s", count(p.Dwelt) + " s"})
	}
	return t
}

func (r *Result) batchTable() report.Table {
	t := report.Table{Columns: []string{"policy", "batch", "per host", "over physical memory", "most resident"}, Ours: learnedPolicy}
	for _, p := range r.Policies {
		for _, by := range p.ByCohort {
			t.Rows = append(t.Rows, []string{p.Policy, count(int64(by.Cohort)), many(by.PerHost), count(by.OverPhysical) + " s", count(by.Most) + " MiB"})
		}
	}
	return t
}

func (r *Result) lessonTable() report.Table {
	t := report.Table{
		Columns: []string{"the reserve", "runs it was learned from", "runs judged", "predicted to peak above it", "did"},
		Note:    "Who peaks above the reserve is charged what it holds; the reserve is not what a sandbox is limited to.",
	}
	for _, l := range r.Learned {
		name := count(l.ReserveMB) + " MiB"
		if !l.Learned {
			name += " (the prior: too few runs)"
		}
		t.Rows = append(t.Rows, []string{name, count(int64(l.TrainRuns)), count(int64(l.JudgedRuns)), percent(l.Predicted), percent(l.Seen)})
	}
	return t
}

func percent(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) }

func (r *Result) early() []string {
	if e := r.After30; e != nil {
		return []string{fmt.Sprintf("After the first %d runs of a class alone (%d choices of them) a host held %s, which is %s of what it held after all; the worst choice %s.", e.Runs, e.Choices, many(e.PerHost), percent(e.OfFinal), percent(e.LeastFinal))}
	}
	return []string{"How soon that is reached was not played: there are fewer runs to learn from than a class needs."}
}

// risks are what each way to be wrong costs.
func (r *Result) risks() (all []string) {
	ours, committed := r.named(learnedPolicy), r.named(committedPolicy)
	all = append(all, fmt.Sprintf("To stay with what is configured costs machines: %s sandboxes take %s hosts, and %s by what was learned.", count(hostsFor), committed.hosts(), ours.hosts()))
	if essay := r.named(essayPolicy); essay.PerHost > ours.PerHost && essay.Most > ours.Most {
		all = append(all, fmt.Sprintf("The essay's rule holds more, %s, by keeping less: %s MiB were resident in its fullest second and %s by what was learned, of %s there are. It gives its reserve up before a sandbox peaks.", many(essay.PerHost), count(essay.Most), count(ours.Most), count(r.HostMB)))
	}
	for _, p := range r.Policies {
		if p.OverPhysical > 0 {
			all = append(all, fmt.Sprintf("%s was over physical memory in %s of %s seconds: in each of them the kernel kills a sandbox with its work, and chooses which.", p.Policy, count(p.OverPhysical), count(p.HostSeconds)))
		}
	}
	all = append(all,
		"If sandboxes come to hold more than those that taught, each is charged what it holds from the next sample on, so that the host takes fewer. If memory still runs short, the valve shuts the intake, and where reclaim is on a sandbox without state is stopped before the kernel has to choose.",
		"If the prediction breaks (more peak above the reserve than chance explains), the class goes back to its prior, a quarter of what is configured, until it has been learned again.",
	)
	for _, l := range r.Learned {
		if l.Broken {
			all = append(all, fmt.Sprintf("It did break here: of the judged runs %s peaked above a reserve of %s MiB, and %s were predicted to.", percent(l.Seen), count(l.ReserveMB), percent(l.Predicted)))
		}
	}
	return all
}
