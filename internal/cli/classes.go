package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) classesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "classes",
		Short: "List the classes: what was learned of their runs, and what each rule would admit",
		Long: `Lists what is reserved of each template's sandboxes, and why.

  RUNS       "prior; 12 of 30 runs": the class's rule (reserve_fraction, reserve_floor) until
             enough runs were seen; then learned, unless the class says reserve: fixed
  RESERVE    MiB that the next one is charged at least, however little it touches
  RESIDENT   what they held of what they were configured with, on average
  ABOVE      runs that peaked above the learned reserve, as predicted and as seen
  COMMITTED, ESSAY, LEARNED
             how many of them the hosts would hold by each rule, if they held nothing else:
             each for its configured size; for the class's rule; for what was learned

A template whose runs peak above their reserve more often than was predicted is broken: the
class's rule is in force again until enough runs ended anew.`,
		Example: `  plimsoll classes
  plimsoll classes -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			list, err := c.Classes(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, list)
			}
			return drawClasses(a.stdout, list)
		},
	}
}

func drawClasses(w io.Writer, list *api.ClassList) error {
	if len(list.Classes) == 0 {
		_, err := fmt.Fprintln(w, "no class is placed on hosts")
		return err
	}
	t := newTable("CLASS", "TEMPLATE", "RUNS", ">CONFIGURED", ">RESERVE", ">RESIDENT", "ABOVE", ">COMMITTED", ">ESSAY", ">LEARNED")
	for i := range list.Classes {
		c := &list.Classes[i]
		for j := range c.Templates {
			s := &c.Templates[j]
			t.row(c.Name, s.Template, runsOf(s), grouped(s.ConfiguredMB), grouped(s.ReserveMB), partOf(s.ResidentRatio), aboveOf(s),
				grouped(s.WouldAdmit.Committed), grouped(s.WouldAdmit.Essay), numberOf(s.WouldAdmit.Learned))
			if s.BrokeAt != nil {
				t.note("its runs peaked higher than was predicted, last at " + clock(*s.BrokeAt))
			}
		}
	}
	if err := t.write(w, ""); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "MiB; of %s that promise %s MiB when they hold nothing\n", plural(list.Hosts, "host", "hosts"), grouped(list.PromisableMB))
	return err
}

func runsOf(s *api.TemplateStanding) string {
	switch {
	case s.State == api.ReserveStatePrior || s.State == api.ReserveStateBroken:
		return fmt.Sprintf("%s; %d of %d runs", s.State, s.Counted, s.Enough)
	case s.Runs == 1:
		return string(s.State) + "; 1 run"
	}
	return fmt.Sprintf("%s; %s runs", s.State, grouped(s.Runs))
}

func partOf(of *float64) string {
	if of == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", *of*100)
}

func aboveOf(s *api.TemplateStanding) string {
	if s.Predicted == nil {
		return "-"
	}
	seen := "none ended yet"
	if s.Seen != nil {
		seen = fmt.Sprintf("%.1f %% of %s", *s.Seen*100, grouped(s.Judged))
	}
	return fmt.Sprintf("%.1f %%, seen %s", *s.Predicted*100, seen)
}

func numberOf(n *int64) string {
	if n == nil {
		return "-"
	}
	return grouped(*n)
}
