package herd

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/plimsoll-project/plimsoll/internal/cli"
)

// Print writes the table for people.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d hosts of %d slots, %d creates a row, seed %d\n\n", r.Hosts, r.Slots, r.Requests, r.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\treplicas\tlife\tload\trefused\tErlang-B\texcess\t± \tof pooled\t± \tover\twrong refusals\tdenied\tcalls a create\t")
	for i := range r.Rows {
		row := &r.Rows[i]
		fmt.Fprintf(t, "%s\t%d\t%gs\t%g %%\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%.3f\t\n", row.Policy, row.Replicas, row.LifeS, 100*row.Load,
			part(row.Refused), part(row.ErlangB), part(row.Excess), part(row.ExcessSE), part(row.Over), part(row.OverSE),
			row.OverAdmissions, row.WrongRefusals, row.Denied, row.Calls)
	}
	return t.Flush()
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
func (r *Result) broken() error {
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
	fmt.Fprintf(w, "%d creates within %gs, %d hosts of %d slots, %d replicas, seed %d\n\n", r.Creates, r.WithinS, r.Hosts, r.Slots, r.Replicas, r.Seed)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tadmitted\trefused\twrong refusals\tover\tmax/mean\ton a host\tcalls a create\t")
	for _, b := range r.all() {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%.3f\t%d to %d\t%.4f\t\n", b.Policy, b.Admitted, b.Refused, b.WrongRefusals, b.OverAdmissions, b.MaxOverMean, b.Fewest, b.Most, b.Calls)
	}
	return t.Flush()
}

func (r *BurstResult) all() []Burst { return append([]Burst{r.Burst}, r.Peers...) }

func (r *BurstResult) broken() error {
	if r.OverAdmissions+r.WrongRefusals > 0 {
		return violated(r.OverAdmissions, r.WrongRefusals)
	}
	return nil
}
