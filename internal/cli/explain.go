package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain DECISION|KEY",
		Short: "Say why an answer was no, and what would make it a yes",
		Long: `Says of one answer of the gate whose no it was, which hosts were left out and why, how near it was
to a yes, what would have admitted it, what its caller was told, and what happened since. A
decision's id is in every answer (decision_id); of a key the newest decision is shown, and the
earlier ones are listed. They are kept for a day. A consumer sees its own, an operator
everybody's.`,
		Example: `  plimsoll explain dec-6f1c0a9e2b7d4f5a83
  plimsoll explain task-7421
  plimsoll explain task-7421 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, err := a.connect()
			if err != nil {
				return err
			}
			d, earlier, err := explainOne(cmd.Context(), c, args[0])
			switch {
			case err != nil:
				return err
			case a.json():
				return writeJSON(a.stdout, d)
			}
			return drawDecision(a.stdout, d, earlier, time.Now())
		},
	}
}

// explainOne finds a decision by its id, or the newest of a key and what came before it. An id
// is looked up first: no key that somebody chose is likely to look like one.
func explainOne(ctx context.Context, c *client.Client, name string) (*api.Decision, []api.Decision, error) {
	if strings.HasPrefix(name, "dec-") || strings.HasPrefix(name, "yes-") {
		if d, err := c.Decision(ctx, name); !errors.Is(err, api.NotFound) {
			return d, nil, err
		}
	}
	list, err := c.Decisions(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if len(list.Decisions) == 0 {
		return nil, nil, &Failure{ExitUsage, fmt.Errorf("no decision has the id, or is of the key, %q", name), "decisions are kept for a day; the id is the decision_id of an answer"}
	}
	newest, err := c.Decision(ctx, list.Decisions[0].ID)
	if errors.Is(err, api.NotFound) { // it went meanwhile
		newest, err = &list.Decisions[0], nil
	}
	return newest, list.Decisions[1:], err
}

func drawDecision(w io.Writer, d *api.Decision, earlier []api.Decision, now time.Time) error {
	lines := []string{d.Line, "  decided   " + ago(d.At, now) + ", " + d.ID + at(d.Replica)}
	lines = append(lines, "  asked     "+askedLine(d))
	lines = append(lines, "  told      "+toldLine(d, now))
	if d.FirstRefusedAt != nil && d.Outcome != api.DecisionOutcomeAdmitted {
		lines = append(lines, fmt.Sprintf("  first no  %s, %s so far", ago(*d.FirstRefusedAt, now), plural(d.Attempts, "attempt", "attempts")))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, plain(line)); err != nil {
			return err
		}
	}
	if err := drawReasons(w, d.Excluded, d.Nearest, d.Changes); err != nil {
		return err
	}
	return drawStory(w, d, earlier)
}

func at(replica string) string {
	if replica == "" {
		return ""
	}
	return " at replica " + replica
}

func askedLine(d *api.Decision) string {
	parts := []string{}
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	add("by", d.Consumer)
	add("for tenant", d.Tenant)
	add("key", d.Key)
	add("class", d.Class)
	add("pool", d.Pool)
	if d.Ask != nil {
		parts = append(parts, askWords(d.Ask)...)
	}
	if len(parts) == 0 {
		return "by nobody that is known"
	}
	return strings.Join(parts, ", ")
}

func askWords(q *api.DecisionAsk) (parts []string) {
	if q.MemoryMB > 0 {
		text := grouped(q.MemoryMB) + " MiB"
		if q.NeedMB > 0 && q.NeedMB != q.MemoryMB {
			text += " of which " + grouped(q.NeedMB) + " reserved"
		}
		parts = append(parts, text)
	}
	if q.Stateful {
		parts = append(parts, "stateful")
	}
	if q.Mode != "" {
		parts = append(parts, "mode "+string(q.Mode))
	}
	if q.Host != nil {
		parts = append(parts, string(q.Host.Mode)+" host "+q.Host.ID)
	}
	return parts
}

func toldLine(d *api.Decision, now time.Time) string {
	text := fmt.Sprint(d.Told.Status)
	if d.Code != "" {
		text += " " + string(d.Code)
	}
	if d.Told.Position > 0 {
		text += fmt.Sprintf(", place %s in line for a %s", grouped(d.Told.Position), d.Told.WaitingFor)
	}
	if d.Told.RetryAfterMS > 0 {
		text += ", to come back after " + span(d.Told.RetryAfterMS)
	}
	if t := d.Told.RetryAt; t != nil {
		text += " (at " + t.UTC().Format("15:04:05") + past(*t, now) + ")"
	}
	return text
}

func past(t, now time.Time) string {
	if t.After(now) {
		return ", in " + age(t.Sub(now))
	}
	return ""
}

// drawStory says what happened since, how long it took in all, and what there was before.
func drawStory(w io.Writer, d *api.Decision, earlier []api.Decision) error {
	var lines []string
	if len(d.Since) > 0 {
		lines = append(lines, "since:")
	}
	for _, e := range d.Since {
		text := "  " + e.At.UTC().Format("15:04:05") + "  " + string(e.What)
		for _, more := range []string{string(e.Outcome), string(e.Code), e.Detail} {
			if more != "" {
				text += ", " + more
			}
		}
		lines = append(lines, text)
	}
	if d.ToSuccessMS != nil {
		lines = append(lines, "admitted "+span(*d.ToSuccessMS)+" after its first no")
	}
	const few = 10
	if len(earlier) > 0 {
		lines = append(lines, "earlier:")
	}
	for _, e := range earlier[:min(len(earlier), few)] {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("  %s  %s  %s %s", e.At.UTC().Format("15:04:05"), e.ID, e.Outcome, e.Code), " "))
	}
	if rest := len(earlier) - few; rest > 0 {
		lines = append(lines, fmt.Sprintf("  and %s more", grouped(int64(rest))))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, plain(line)); err != nil {
			return err
		}
	}
	return nil
}
