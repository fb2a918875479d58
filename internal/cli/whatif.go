package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) whatIfCommand() *cobra.Command {
	var (
		q      api.WhatIfRequest
		size   string
		cpu    float64
		labels map[string]string
	)
	cmd := &cobra.Command{
		Use:   "whatif --class NAME --count N",
		Short: "Say how many would be admitted now, and what stops the next one",
		Long: `Runs the rules of pool, quota and hosts on copies: how many of a class would be admitted now, one
after the other, on which hosts, and what stops the next one. Nothing is claimed, and no host is
asked. What somebody else asks for meanwhile is not in it. Needs the role operator.`,
		Example: `  plimsoll whatif --class small --count 50
  plimsoll whatif --class small --count 50 --without-host host-3
  plimsoll whatif --class build --count 4 --memory 8GiB --consumer ci -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fillWhatIf(cmd, &q, size, cpu, labels); err != nil {
				return err
			}
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			out, err := c.WhatIf(cmd.Context(), q)
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, out)
			}
			return drawWhatIf(a.stdout, out)
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Class, "class", "", "of which class")
	f.Int64Var(&q.Count, "count", 0, "how many, 1 to 1000")
	f.StringVar(&q.Consumer, "consumer", "", "whose requests they would be, since shares count by it; default: your own")
	f.StringVar(&q.Tenant, "tenant", "", "on whose behalf; default: the consumer's own")
	f.StringVar(&size, "memory", "", "another `size` than the class's, as in 2GiB")
	f.Float64Var(&cpu, "cpu", 0, "other cores than the class's")
	f.StringVar(&q.Template, "template", "", "another template than the class's")
	f.StringToStringVar(&labels, "label", nil, "a `name=value` that the host must carry besides, as in zone=a")
	f.Lookup("label").DefValue = "" // else the help shows an empty map as a default
	f.StringSliceVar(&q.WithoutHosts, "without-host", nil, "as if this `host` were not there; may be said again")
	required(cmd, "class", "count")
	return cmd
}

func fillWhatIf(cmd *cobra.Command, q *api.WhatIfRequest, size string, cpu float64, labels map[string]string) error {
	if q.Count < 1 || q.Count > 1000 {
		return mistake(cmd, "--count %d: between 1 and 1000", q.Count)
	}
	if size != "" {
		mb, err := parseMemory(size)
		if err != nil {
			return mistake(cmd, "--memory: %s", err)
		}
		q.MemoryMB = &mb
	}
	if cmd.Flags().Changed("cpu") {
		q.CPU = &cpu
	}
	if len(labels) > 0 {
		q.Labels = labels
	}
	return nil
}

func drawWhatIf(w io.Writer, out *api.WhatIf) error {
	what := grouped(out.Fits) + " of " + grouped(out.Count) + " of class " + plain(out.Class) + " would be admitted now"
	if out.Fits == out.Count {
		what = "all " + grouped(out.Count) + " of class " + plain(out.Class) + " would be admitted now"
	}
	if _, err := fmt.Fprintln(w, what); err != nil {
		return err
	}
	if len(out.Hosts) > 0 {
		t := newTable("HOST", ">COUNT")
		for _, h := range out.Hosts {
			t.row(h.Host, grouped(h.Count))
		}
		if err := t.write(w, "  "); err != nil {
			return err
		}
	}
	if out.Next == nil {
		return nil
	}
	if _, err := fmt.Fprintf(w, "the next one: %s\n", plain(out.Next.Line)); err != nil {
		return err
	}
	return drawReasons(w, out.Next.Excluded, out.Next.Nearest, out.Next.Changes)
}

// drawReasons says what a no rested on, and what would have made it a yes.
func drawReasons(w io.Writer, excluded []api.DecisionExclusion, nearest string, changes []api.Change) error {
	if len(excluded) > 0 {
		t := newTable("HOSTS", ">COUNT", "WHICH")
		for _, x := range excluded {
			t.row(x.Reason, grouped(x.Count), fewOf(x.Hosts, x.Count))
		}
		if err := t.write(w, "  "); err != nil {
			return err
		}
	}
	if nearest != "" {
		if _, err := fmt.Fprintf(w, "nearest miss: %s\n", plain(nearest)); err != nil {
			return err
		}
	}
	if len(changes) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w, "what would admit it, each alone:"); err != nil {
		return err
	}
	for _, c := range changes {
		if _, err := fmt.Fprintf(w, "  %s: %s\n", c.Who, plain(changeLine(c))); err != nil {
			return err
		}
	}
	return nil
}

// changeLine is a change as somebody would do it, and why.
func changeLine(c api.Change) string {
	switch {
	case c.Command != "":
		return c.Command + "\n      " + c.Why
	case c.Patch != "":
		return "ask with " + c.Patch + "\n      " + c.Why
	}
	return c.Why
}

// fewOf names the first few, and counts the rest.
func fewOf(ids []string, all int64) string {
	text := strings.Join(ids, ", ")
	if rest := all - int64(len(ids)); rest > 0 {
		text += " and " + grouped(rest) + " more"
	}
	return text
}
