package regimes

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// assumed is what the figures rest on, a sentence each.
func (s *stage) assumed(r *Result) []string {
	all := []string{
		"In each regime the same creates are asked for at the same times, and would live the same lives.",
		"Which host is asked is the same in each regime, too: by package table, the emptiest that takes it by words that are never late, over one replica. Stale views and several replicas are what plimsoll sim herd plays.",
		fmt.Sprintf("The hosts of committed, essay and learned are of package host and differ in what they charge alone: the configured size; what is resident, and until a sandbox has been seen %s MiB; what is resident, and for life at least the %s MiB that %s other runs taught.", count(r.PriorMB), count(r.LearnedMB), count(int64(r.TrainRuns))),
		"The essay asks for a valve and for a policy for lost bets, and shows neither: its hosts have the same valve, the same reclaim and the same growth in steps after an out-of-memory kill as the learned ones.",
		"Under none nobody is refused and everybody starts at once; the kernel kills the largest where more is resident than the machine has.",
		"The oracle of hindsight has read every life to its end, and admits whoever then fits on a host within its memory less the headroom. It takes them as they come, so that it is nearly the most that can be held, and not a proof of it.",
		"A host is measured once a second. Agents look at the limits 20 times as often, so that real ones reclaim sooner.",
		fmt.Sprintf("A start takes until the next second; a host has %d cores and lets %d start at a time.", cores, 2*cores),
		"A refused caller comes back when package backoff says, with the appointments of package hint from the measured rate of ends; at its quota it is told so once, and does not come back.",
		"Who was killed or evicted is not asked for again: what it had done is counted as lost.",
		"Memory alone is in the way: no host fails, no boot fails, nothing else runs on the hosts.",
		fmt.Sprintf("Which of %d tenants a batch is of is drawn: the k-th asks for a k-th of what the first does.", r.Tenants),
	}
	if s.Alike {
		all = append(all, "Sandboxes of one batch live the same life, and peak in the same second if they started in the same.")
	} else {
		all = append(all, "Each sandbox lives a life of its own, those of one batch, too. Ones that peak together are harder on a host: --batched --alike plays them.")
	}
	if s.in.arrivals == nil {
		return append(all, "What is asked for has the same mean rate throughout; a sandbox lives and holds what one of the runs did.")
	}
	return append(all,
		"What a sandbox of the file holds is what one of the runs did, drawn out over its life and in proportion to its size; one that still ran when the record ended lives to the end of the play.",
		"Another load is the same file with some batches left out, or twice.",
	)
}

// Print writes the table for people.
func (r *Result) Print(w io.Writer) error {
	fmt.Fprintf(w, "%d hosts of %d MiB for %.4g h, %.4g sandboxes asked for per host; %s, seed %d\n\n", r.Hosts, r.HostMB, r.Hours, r.Load, r.Source, r.Seed)
	held, told := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight), tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(held, "regime\tquota\tper host\tmost\tkilled\tevicted\tlost work\tover physical\tin headroom\tvalve shut\tmost resident\tlargest tenant\t")
	fmt.Fprintln(told, "regime\tquota\trefused\tmore than hindsight\twrongly\tagainst own word\tgave up\tby quota alone\tsuccess after p50\tp99\t")
	for i := range r.Regimes {
		r.Regimes[i].print(held, told, r.Quota)
	}
	if err := held.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nof %d creates\n", r.Regimes[0].Asked)
	if err := told.Flush(); err != nil {
		return err
	}
	if err := rest(w, "at other loads, without quotas", r.Sensitivity, 0); err != nil || len(r.Together) == 0 {
		return err
	}
	return rest(w, "in batches that peak together", r.Together, r.Quota)
}

// rest writes rows with what matters most of each.
func rest(w io.Writer, title string, rows []Row, quota int64) error {
	fmt.Fprintf(w, "\n%s\n", title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "load\tregime\tquota\tper host\tkilled\tevicted\tlost work\tmost resident\trefused\tgave up\t")
	for i := range rows {
		r, word := &rows[i], "none"
		if r.Quota {
			word = fmt.Sprint(quota)
		}
		fmt.Fprintf(t, "%.4g\t%s\t%s\t%.1f\t%d\t%d\t%s\t%d MiB\t%s\t%s\t\n", r.Load, r.Regime, word, r.PerHost, r.Kills, r.Evicted,
			hours(r.LostWork), r.MostResident, percent(r.RefusedPart()), percent(part(r.GaveUp, r.Asked)))
	}
	return t.Flush()
}

func (r *Row) print(held, told io.Writer, quota int64) {
	name, word := r.Regime, "none"
	if r.Quota {
		name, word = "", fmt.Sprint(quota)
	}
	fmt.Fprintf(held, "%s\t%s\t%.1f\t%d\t%d\t%d\t%s\t%d s\t%d s\t%d s\t%d MiB\t%s\t\n",
		name, word, r.PerHost, r.MostPerHost, r.Kills, r.Evicted, hours(r.LostWork), r.OverPhysical, r.InHeadroom, r.Shut, r.MostResident, percent(r.LargestTenant))
	p50, p99 := r.waits()
	fmt.Fprintf(told, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\t%s\t%s\t\n",
		name, word, percent(r.RefusedPart()), percent(r.Excess), percent(part(r.WrongRefusals, r.Asked)), r.AgainstOwnWord,
		percent(part(r.GaveUp, r.Asked)), r.OverQuota, p50, p99)
}

// waits are how long those took who were refused first: of nobody nothing is said.
func (r *Row) waits() (p50, p99 string) {
	if r.Waited == 0 {
		return "-", "-"
	}
	return seconds(r.P50), seconds(r.P99)
}

func percent(p float64) string { return fmt.Sprintf("%.1f %%", 100*p) }
