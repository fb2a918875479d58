package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/workload"
)

// kept is how long the control plane keeps what has ended.
const kept = 24 * time.Hour

func (a *app) auditExport() *cobra.Command {
	var only api.ListAdmissionsParams
	since := kept
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write what was admitted as arrivals that plimsoll sim plays",
		Long: `Writes what ran within the last 24 hours as CSV, for --arrivals of plimsoll sim:
arrival_ms,batch,vcpu,configured_mib,lifetime_ms,censored. Needs the role operator. There are no
names in it: no key, tenant, class or host.

The record begins --since before now, or with the first arrival if that is later, and is complete
from there on: what ran already when it began is at 0 ms, with the rest of its life. What one
tenant asked for of one class within one second is a batch. censored is 1 of what still runs, was
evicted or lost with its host: it lives for at least that long.

Not in it: what was refused, waits or never ran; what hosts alone record (record: host) and has
ended; of a key that was used again all but the newest; and what has no memory (of pools without
hosts). What was left out is told on stderr.`,
		Example: `  plimsoll audit export > arrivals.csv
  plimsoll audit export --since 6h --class agent > arrivals.csv
  plimsoll sim regimes --arrivals arrivals.csv --report regimes.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case a.json():
				return mistake(cmd, "-o json: arrivals are CSV, for --arrivals of plimsoll sim; leave it out")
			case since < time.Minute || since > kept:
				return mistake(cmd, "--since %v: from 1m to %v, for which ended admissions are kept", since, kept)
			}
			return a.export(cmd.Context(), only, since)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&since, "since", since, "how far back the record begins")
	flags.StringVar(&only.Class, "class", "", "only this class")
	flags.StringVar(&only.Pool, "pool", "", "only this pool")
	return cmd
}

func (a *app) export(ctx context.Context, only api.ListAdmissionsParams, since time.Duration) error {
	c, _, err := a.connect()
	if err != nil {
		return err
	}
	if err := operator(ctx, c); err != nil {
		return err
	}
	list, err := everything(ctx, c, only, Progress(a.stderr))
	if err != nil {
		return err
	}
	r := recordOf(list, since)
	if err := workload.WriteArrivals(a.stdout, r.arrivals); err != nil {
		return err
	}
	return r.explain(a.stderr)
}

// operator proves that everybody's admissions are listed: a consumer's own alone would look like
// a whole fleet's.
func operator(ctx context.Context, c *client.Client) error {
	me, err := c.Whoami(ctx)
	sees := func(r api.Role) bool { return r == api.RoleOperator || r == api.RoleAdmin }
	if err == nil && !slices.ContainsFunc(me.Roles, sees) {
		err = api.Refuse(api.Forbidden, "%s may list its own admissions only", me.Consumer)
	}
	return err
}

// everything reads all admissions, page by page; they are as they were when the first page was
// read, or later.
func everything(ctx context.Context, c *client.Client, only api.ListAdmissionsParams, progress func(bool, string, ...any)) (*api.AdmissionList, error) {
	page := int64(1000)
	only.Order, only.Limit = api.AdmissionOrderID, &page
	var all *api.AdmissionList
	for {
		list, err := c.Admissions(ctx, only)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = &api.AdmissionList{At: list.At}
		}
		all.Admissions = append(all.Admissions, list.Admissions...)
		progress(!list.Truncated, "%d admissions", len(all.Admissions))
		if !list.Truncated || len(list.Admissions) == 0 {
			break
		}
		only.After = list.Admissions[len(list.Admissions)-1].ID
	}
	if all.At == nil {
		return nil, errors.New("the server does not say when its list was so: it is an older one; bring it up to date first")
	}
	return all, nil
}

// record is what becomes of a list.
type record struct {
	arrivals []workload.Arrival
	lasts    time.Duration

	neverRan, unsized, byHosts int // left out; and those whose like are forgotten when they end
}

func (r *record) explain(w io.Writer) error {
	parts := []string{fmt.Sprintf("%s over %s", plural(int64(len(r.arrivals)), "arrival", "arrivals"), age(r.lasts))}
	for _, p := range []struct {
		n    int
		what string
	}{
		{r.neverRan, "not in it since they did not run, or not yet"},
		{r.unsized, "not in it since nobody knows their memory"},
		{r.byHosts, "in it of classes that hosts alone record: what ended of those is not known any more"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", grouped(int64(p.n)), p.what))
		}
	}
	_, err := fmt.Fprintln(w, strings.Join(parts, "; "))
	return err
}
