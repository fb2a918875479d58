package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/api"
)

func (a *app) admissionsCommand() *cobra.Command {
	var (
		state, class, pool, host string
		limit                    int64
	)
	cmd := &cobra.Command{
		Use:   "admissions",
		Short: "List admissions and where each is on its passage",
		Long:  "Lists your admissions, newest first; everybody's with the role operator. Ended ones stay for 24 hours.",
		Example: `  plimsoll admissions
  plimsoll admissions --state waiting_capacity --class small
  plimsoll admissions --host host-3 --state running
  plimsoll admissions -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			only := api.ListAdmissionsParams{State: api.AdmissionState(state), Class: class, Pool: pool, Host: host, Limit: &limit}
			if state != "" && !only.State.Valid() {
				return mistake(cmd, "--state %s: there is no such state; see plimsoll admissions --help", state)
			}
			if limit < 1 || limit > 1000 {
				return mistake(cmd, "--limit %d: from 1 to 1000", limit)
			}
			return a.admissions(cmd, only)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&state, "state", "", "only this: waiting_capacity, placing, admitted, running, releasing,\nreleased, timed_out, expired, evicted or lost")
	flags.StringVar(&class, "class", "", "only this class")
	flags.StringVar(&pool, "pool", "", "only this pool")
	flags.StringVar(&host, "host", "", "only what is on this host")
	flags.Int64Var(&limit, "limit", 100, "how many at most")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func states() []string {
	return []string{
		string(api.AdmissionStateWaitingCapacity), string(api.AdmissionStatePlacing), string(api.AdmissionStateAdmitted),
		string(api.AdmissionStateRunning), string(api.AdmissionStateReleasing), string(api.AdmissionStateReleased),
		string(api.AdmissionStateTimedOut), string(api.AdmissionStateExpired), string(api.AdmissionStateEvicted),
		string(api.AdmissionStateLost),
	}
}

func (a *app) admissions(cmd *cobra.Command, only api.ListAdmissionsParams) error {
	c, _, err := a.connect()
	if err != nil {
		return err
	}
	list, err := c.Admissions(cmd.Context(), only)
	switch {
	case err != nil:
		return err
	case a.json():
		return writeJSON(a.stdout, list)
	case len(list.Admissions) == 0:
		_, err = fmt.Fprintln(a.stdout, "no admissions")
		return err
	}
	if err := a.admissionTable(list.Admissions, time.Now()).write(a.stdout, ""); err != nil {
		return err
	}
	if list.Truncated {
		_, err = fmt.Fprintf(a.stdout, "… and more: --limit %d is reached\n", *only.Limit)
	}
	return err
}

func (a *app) admissionTable(list []api.Admission, now time.Time) *table {
	t := newTable("KEY", "CLASS", "TENANT", "STATE", "HOST", ">MIB", ">AGE", "WHY")
	for _, m := range list {
		why := m.Reason
		if m.Waiting != nil {
			why = placeOf(*m.Waiting)
		}
		t.row(short(m.Key, 32), m.Class, dash(m.Tenant), string(m.State), dash(m.Host), mib(m.MemoryMB), age(now.Sub(m.CreatedAt)), short(why, 60))
	}
	return t
}

// dash stands for what is not there.
func dash(text string) string { return first(text, "-") }

func mib(n int64) string {
	if n == 0 {
		return "-"
	}
	return grouped(n)
}
