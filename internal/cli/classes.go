package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) classesCommand() *cobra.Command {
	ofHost := false
	cmd := &cobra.Command{
		Use:   "classes",
		Short: "List the classes: what was learned of their runs, and what each policy would admit",
		Long: `Lists what is reserved of each template's sandboxes, and why.

  RUNS       "prior; 12 of 30 runs": the class's rule (reserve_fraction, reserve_floor) until
             enough runs were seen; then learned, unless the class says reserve: fixed
  RESERVE    MiB that the next one is charged at least, however little it touches
  RESIDENT   what they held of what they were configured with, on average
  ABOVE      runs that peaked above the learned reserve, as predicted and as seen
  COMMITTED, RULE, LEARNED
             how many of them the hosts would hold by each policy, if they held nothing else:
             what each could promise, divided by what one of them counts for, which is
             COMMITTED  its configured size
             RULE       the class's rule, or what they held on average if that is more
             LEARNED    what was learned, or what they held on average if that is more

RULE is the essay's rule, a quarter of the configured size and at least 512 MiB where the
class says nothing else, in the form in which a host charges it: for life. As the essay has
it, only until a sandbox has been seen, it is the policy "essay" of plimsoll sim density, which
plays bursts; an average cannot tell by how much that would pass a host's memory.

A template whose runs peak above their reserve more often than was predicted is broken: the
class's rule is in force again until enough runs ended anew.

With --host it asks the agent of this machine at its socket, and no replica: what that has
learned by itself of what it admitted by itself (plimsoll gate, client/boot).`,
		Example: `  plimsoll classes
  plimsoll classes --host
  plimsoll classes -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := a.classes(cmd.Context(), ofHost)
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, list)
			}
			if len(list.Classes) == 0 && ofHost {
				_, err = fmt.Fprintln(a.stdout, "no run that this host admitted by itself has ended yet")
				return err
			}
			return drawClasses(a.stdout, list)
		},
	}
	cmd.Flags().BoolVar(&ofHost, "host", false, "ask the agent of this machine, and no replica")
	return cmd
}

func (a *app) classes(ctx context.Context, ofHost bool) (*api.ClassList, error) {
	if ofHost {
		seam, err := a.seam()
		if err != nil {
			return nil, err
		}
		list, err := seam.Classes(ctx)
		return &list, atSeam(seam, err)
	}
	c, _, err := a.connect()
	if err != nil {
		return nil, err
	}
	return c.Classes(ctx)
}

func drawClasses(w io.Writer, list *api.ClassList) error {
	if len(list.Classes) == 0 {
		_, err := fmt.Fprintln(w, "no class is placed on hosts")
		return err
	}
	t := newTable("CLASS", "TEMPLATE", "RUNS", ">CONFIGURED", ">RESERVE", ">RESIDENT", "ABOVE", ">COMMITTED", ">RULE", ">LEARNED")
	for i := range list.Classes {
		c := &list.Classes[i]
		for j := range c.Templates {
			s := &c.Templates[j]
			t.row(c.Name, s.Template, runsOf(s), grouped(s.ConfiguredMB), grouped(s.ReserveMB), partOf(s.ResidentRatio), aboveOf(s),
				grouped(s.WouldAdmit.Committed), grouped(s.WouldAdmit.Rule), numberOf(s.WouldAdmit.Learned))
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
