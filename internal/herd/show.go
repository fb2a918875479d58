package herd

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/report"
)

var (
	_ report.Judged = (*Result)(nil)
	_ report.Judged = (*BurstResult)(nil)
)

// Print writes the table for people.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d hosts of %d slots, %d creates a row, seed %d\n\n", r.Hosts, r.Slots, r.Requests, r.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\treplicas\tlife\tload\trefused\tErlang-B\texcess\t± \tof pooled\t± \tover\twrong refusals\tunsaid\tdenied\tcalls a create\t")
	for i := range r.Rows {
		fmt.Fprintln(t, strings.Join(r.Rows[i].words(), "\t")+"\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.printOurs(w)
}

// printOurs says how far ours is from the bound at the most, by load.
func (r *Result) printOurs(w io.Writer) error {
	for _, load := range distinct(r.Rows, func(row *Row) float64 { return row.Load }) {
		var worst, sharp *Row
		for _, row := range r.of(Deltas) {
			if row.Load != load {
				continue
			}
			if worst == nil || row.Excess > worst.Excess {
				worst = row
			}
			if sharp == nil || row.Over > sharp.Over {
				sharp = row
			}
		}
		if worst == nil {
			return nil
		}
		_, err := fmt.Fprintf(w, "\ndeltas at %g %% of the slots: at most %s ± %s beyond Erlang-B, and %s ± %s beyond one pool of the very same creates (target %s)",
			100*load, part(worst.Excess), part(worst.ExcessSE), part(sharp.Over), part(sharp.OverSE), part(target(load)))
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

// words are a row's, as a table has them.
func (row *Row) words() []string {
	return []string{
		row.Policy, fmt.Sprint(row.Replicas), fmt.Sprintf("%gs", row.LifeS), fmt.Sprintf("%g %%", 100*row.Load),
		part(row.Refused), part(row.ErlangB), part(row.Excess), part(row.ExcessSE), part(row.Over), part(row.OverSE),
		fmt.Sprint(row.OverAdmissions), fmt.Sprint(row.WrongRefusals), fmt.Sprint(row.UnsaidRoom), fmt.Sprint(row.Denied), fmt.Sprintf("%.3f", row.Calls),
	}
}

// part is a part of all creates, in as many digits as it has something to say.
func part(x float64) string {
	switch a := max(x, -x); {
	case a < 5e-9:
		return "0"
	case a < 1e-3:
		return fmt.Sprintf("%.1e", x)
	}
	return fmt.Sprintf("%.2f %%", 100*x)
}

// broken says that ours took more than there was room for, or refused what fitted.
func (r *Result) Broken() error {
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Policy == Deltas && row.OverAdmissions+row.WrongRefusals > 0 {
			return violated(row.OverAdmissions, row.WrongRefusals)
		}
	}
	return nil
}

func violated(over, wrong int) error {
	return &cli.Failure{Status: 1, Err: fmt.Errorf("deltas: %d over-admissions and %d wrong refusals, and it promises none", over, wrong)}
}

// Print writes the table for people.
func (r *BurstResult) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d creates within %gs, %d hosts of %d slots, %d replicas, %d bursts from seed %d\n\n", r.Creates, r.WithinS, r.Hosts, r.Slots, r.Replicas, r.Bursts, r.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\trefused\twrong refusals\tunsaid\tover\tmax/mean\tat worst\ton a host\tcalls a create\t")
	for _, b := range r.all() {
		fmt.Fprintln(t, strings.Join(b.words(), "\t")+"\t")
	}
	return t.Flush()
}

// words are a burst's, as a table has them.
func (b *Burst) words() []string {
	return []string{
		b.Policy, part(b.Refused), fmt.Sprint(b.WrongRefusals), fmt.Sprint(b.UnsaidRoom), fmt.Sprint(b.OverAdmissions), fmt.Sprintf("%.3f", b.MaxOverMean),
		fmt.Sprintf("%.3f", b.Worst), fmt.Sprintf("%d to %d", b.Fewest, b.Most), fmt.Sprintf("%.4f", b.Calls),
	}
}

func (r *BurstResult) all() []Burst { return append([]Burst{r.Burst}, r.Peers...) }

func (r *BurstResult) Broken() error {
	if r.OverAdmissions+r.WrongRefusals > 0 {
		return violated(r.OverAdmissions, r.WrongRefusals)
	}
	return nil
}
