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
		fmt.Sprintf("committed, essay and learned are hosts of package host that differ in what they charge alone: the configured size; what is resident, and until a sandbox has been seen %d MiB; what is resident, and for life at least the %d MiB that %d other runs taught.", r.PriorMB, r.LearnedMB, r.TrainRuns),
		"The essay asks for a valve and for a policy for lost bets, and shows neither: its hosts have the same valve, the same reclaim and the same growth in steps after an out-of-memory kill as the learned ones.",
		"none refuses nothing and starts everybody at once; the kernel kills the largest where more is resident than the machine has.",
		"hindsight has read every life to its end, and admits whoever then fits on a host within its memory less the headroom. It takes them as they come, so that it is nearly the most that can be held, and not a proof of it.",
		"A host is measured once a second. Agents look at the limits 20 times as often, so that real ones reclaim sooner.",
		fmt.Sprintf("A start takes until the next second; a host has %d cores and lets %d start at a time.", cores, 2*cores),
		"A refused caller comes back when package backoff says, with the appointments of package hint from the measured rate of ends; at its quota it is told so once, and does not come back.",
		"Who was killed or evicted is not asked for again: what it had done is counted as lost.",
		"Memory alone is in the way: no host fails, no boot fails, nothing else runs on the hosts.",
		fmt.Sprintf("Which of %d tenants a batch is of is drawn: the k-th asks for a k-th of what the first does.", r.Tenants),
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
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "regime\tquota\tper host\tmost\tkilled\tevicted\tover physical\tasked\trefused\tmore than hindsight\twrongly\tagainst own word\tgave up\tby quota alone\tsuccess after p50\tp99\tlargest tenant\tlost work\t")
	for i := range r.Regimes {
		r.Regimes[i].print(t, r.Quota)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nat other loads, without quotas")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "load\tregime\tper host\tkilled\tevicted\tover physical\trefused\tgave up\t")
	for i := range r.Sensitivity {
		s := &r.Sensitivity[i]
		fmt.Fprintf(t, "%g\t%s\t%.1f\t%d\t%d\t%d s\t%s\t%s\t\n", s.Load, s.Regime, s.PerHost, s.Kills, s.Evicted, s.OverPhysical, percent(s.RefusedPart()), percent(part(s.GaveUp, s.Asked)))
	}
	return t.Flush()
}

func (r *Row) print(w io.Writer, quota int64) {
	name, word := r.Regime, "none"
	if r.Quota {
		name, word = "", fmt.Sprint(quota)
	}
	fmt.Fprintf(w, "%s\t%s\t%.1f\t%d\t%d\t%d\t%d s\t%d\t%s\t%s\t%d\t%d\t%s\t%d\t%.1f s\t%.1f s\t%s\t%.1f h\t\n",
		name, word, r.PerHost, r.MostPerHost, r.Kills, r.Evicted, r.OverPhysical, r.Asked, percent(r.RefusedPart()), percent(r.Excess),
		r.WrongRefusals, r.AgainstOwnWord, percent(part(r.GaveUp, r.Asked)), r.OverQuota, r.P50, r.P99, percent(r.LargestTenant), float64(r.LostWork)/3600)
}

func percent(p float64) string { return fmt.Sprintf("%.1f %%", 100*p) }
