package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) admittableCommand() *cobra.Command {
	class := ""
	cmd := &cobra.Command{
		Use:   "admittable",
		Short: "List what each host can still promise, as a scheduler of your own would read it",
		Long: `Lists what each host can still promise, as one replica last heard it: GET /v1/admittable,
which a scheduler of your own may read as often as it likes. Apply no ratio to it: the host has
done so. It is a view, and so a bit in the past; the host's agent has the last word.`,
		Example: "  plimsoll admittable\n  plimsoll admittable --class small -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			list, err := c.Admittable(cmd.Context(), class)
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, list)
			case len(list.Hosts) == 0:
				_, err = fmt.Fprintln(a.stdout, "no hosts: start an agent, or plimsoll up")
				return err
			}
			t := newTable("HOST", ">ADMITTABLE", ">FITS", "INTAKE", "HEARD", "TAKES MORE")
			for _, h := range list.Hosts {
				fits, more := "-", "yes"
				if h.Fits != nil {
					fits = grouped(*h.Fits)
				}
				if !h.Candidate {
					more = "no: " + h.WhyNot
				}
				t.row(h.ID, grouped(h.AdmittableMB), fits, string(h.Intake), heard(h.HeardMSAgo), more)
			}
			return t.write(a.stdout, "")
		},
	}
	cmd.Flags().StringVar(&class, "class", "", "say how many of this class fit, too")
	return cmd
}

func (a *app) shadowCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "shadow",
		Short: "Compare another scheduler's decisions with what Plimsoll would have said",
		Long: `Compares another scheduler's decisions with what Plimsoll would have said of the same host at
the same time, by what it had heard by then. Nothing is reserved, refused or placed.`,
		Example: "  plimsoll shadow tell decisions.json\n  plimsoll shadow report\n  plimsoll shadow reset",
	}, a.shadowTell(), a.shadowReport(), a.shadowReset())
}

func (a *app) shadowTell() *cobra.Command {
	return &cobra.Command{
		Use:   "tell FILE",
		Short: "Tell decisions and outcomes from a file, as POST /v1/observations takes them",
		Long: `Tells decisions and outcomes from a file, or from standard input for -, as POST
/v1/observations takes them:

  {"observations": [{"key": "vm-1", "host": "host-1", "decision": "yes", "memory_mb": 4096}]}
  {"observations": [{"key": "vm-1", "host": "host-1", "outcome": "fitted"}]}

An outcome is fitted, failed (no boot, or moved away, for want of room) or oom.`,
		Example: "  plimsoll shadow tell decisions.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			batch, err := readObservations(cmd, args[0])
			if err != nil {
				return err
			}
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			taken, err := c.Observe(cmd.Context(), batch.Observations...)
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, taken)
			}
			fmt.Fprintf(a.stdout, "%s taken, %s judged\n", grouped(taken.Taken), grouped(taken.Judged))
			for _, no := range taken.Refused {
				fmt.Fprintf(a.stdout, "  number %d was not taken: %s\n", no.Index+1, plain(no.Why))
			}
			return nil
		},
	}
}

// maxObservations bounds the file, as the API does its body.
const maxObservations = 1 << 20

func readObservations(cmd *cobra.Command, name string) (b api.ObservationBatch, err error) {
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return b, &Failure{ExitUsage, fmt.Errorf("read the observations: %w", err), "name a readable file, or - for standard input"}
		}
		defer f.Close()
		in = f
	}
	d := json.NewDecoder(io.LimitReader(in, maxObservations))
	d.DisallowUnknownFields()
	if err = d.Decode(&b); err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the document, or it is too long")
		}
	}
	if err != nil {
		return b, &Failure{ExitUsage, fmt.Errorf("read the observations of %s: %w", name, err), "plimsoll shadow tell --help shows the form"}
	}
	return b, nil
}

func (a *app) shadowReport() *cobra.Command {
	return &cobra.Command{
		Use:   "report",
		Short: "Show the table of two by two, with its wrong yeses and wrong noes",
		Long: `Shows how another scheduler's decisions compare with what Plimsoll would have said, of all
that any replica was told:

  wrong yes   Plimsoll would have admitted it, and it failed or ran out of memory
  wrong no    Plimsoll would have refused it, and it fitted
  prevented   the other scheduler admitted it, Plimsoll would not have, and it failed

Who is wrong is said by outcomes alone: a no that nobody tried has none. Needs the role
operator.`,
		Example: "  plimsoll shadow report\n  plimsoll shadow report -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			r, err := c.Comparison(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, r)
			}
			return drawComparison(a.stdout, r, time.Now())
		},
	}
}

func (a *app) shadowReset() *cobra.Command {
	return &cobra.Command{
		Use:   "reset",
		Short: "Begin the comparison anew",
		Long: `Forgets what was compared so far, at every replica: say it after a change of the reserves
or the headroom that is to be judged by itself. Written into the audit. Needs the role operator.`,
		Example: "  plimsoll shadow report -o json > before.json\n  plimsoll shadow reset",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			r, err := c.ResetComparison(cmd.Context())
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, r)
			}
			_, err = fmt.Fprintln(a.stdout, "begun anew: nothing is compared yet")
			return err
		},
	}
}

func drawComparison(w io.Writer, r *api.Comparison, now time.Time) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s compared since %s\n\n", plural(r.Decisions, "decision", "decisions"), ago(r.Since, now))
	t := newTable("", ">WE YES", ">WE NO", "")
	for _, they := range []api.YesNo{api.YesNoYes, api.YesNoNo} {
		yes, no := cellOf(r, they, api.YesNoYes), cellOf(r, they, api.YesNoNo)
		t.row("they "+string(they), grouped(yes.Decisions), grouped(no.Decisions))
		if they == api.YesNoYes {
			t.row("  fitted", grouped(yes.Fitted), grouped(no.Fitted), mark(no.Fitted, "wrong no"))
			t.row("  failed", grouped(yes.Failed), grouped(no.Failed), mark(yes.Failed, "wrong yes"))
			t.row("  out of memory", grouped(yes.Oom), grouped(no.Oom), mark(yes.Oom, "wrong yes"))
		}
	}
	if err := t.write(&b, "  "); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n  wrong yes %s, wrong no %s, prevented %s\n\n", grouped(r.WrongYes), grouped(r.WrongNo), grouped(r.Prevented))
	for _, text := range r.Conclusions {
		fmt.Fprintf(&b, "  - %s\n", plain(text))
	}
	if len(r.Examples) > 0 {
		b.WriteString("\n")
		if err := exampleTable(r.Examples).write(&b, "  "); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func mark(n int64, text string) string {
	if n == 0 {
		return ""
	}
	return text
}

func cellOf(r *api.Comparison, they, we api.YesNo) api.ComparisonCell {
	for _, c := range r.Cells {
		if c.They == they && c.We == we {
			return c
		}
	}
	return api.ComparisonCell{}
}

func exampleTable(list []api.ComparedDecision) *table {
	t := newTable("WHAT", "KEY", "HOST", "WE", "CAME OF IT", ">NEED", ">ADMITTABLE", ">SET ASIDE", ">HEARD BEFORE")
	for i, e := range list {
		if i == mostShown {
			t.note(grouped(int64(len(list)-i)) + " more: -o json")
			break
		}
		we := string(e.We)
		if e.WhyNot != "" {
			we += ", " + e.WhyNot
		}
		t.row(strings.ReplaceAll(string(e.Kind), "_", " "), short(e.Key, 20), short(e.Host, 20), we, string(e.Outcome),
			grouped(e.NeedMB), grouped(e.AdmittableMB), grouped(e.SetAsideMB), span(e.HeardMSBefore))
	}
	return t
}
