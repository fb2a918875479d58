package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll-project/plimsoll/gate"
)

// gauges read the newest report when they are scraped.
type gauges struct{ newest func() Report }

// Gauges are what an observing agent says of its host. What an agent that admits says as well
// has the same name here.
func Gauges(newest func() Report) prometheus.Collector { return gauges{newest} }

var (
	perHost = []string{"host"}
	perMode = []string{"host", "mode"}

	descResident  = prometheus.NewDesc("plimsoll_host_resident_bytes", "Memory that the sandboxes of a host hold.", perHost, nil)
	descCommitted = prometheus.NewDesc("plimsoll_host_committed_bytes", "Memory that the sandboxes of a host are configured with.", perHost, nil)
	descFree      = prometheus.NewDesc("plimsoll_host_free_bytes", "Least room under any limit.", perHost, nil)
	descHeadroom  = prometheus.NewDesc("plimsoll_host_headroom_bytes", "Memory that is never promised.", perHost, nil)
	descSandboxes = prometheus.NewDesc("plimsoll_host_sandboxes", "Sandboxes that were found.", perHost, nil)
	descUnsized   = prometheus.NewDesc("plimsoll_observed_unsized_sandboxes", "Sandboxes without a configured size; they count for what they hold.", perHost, nil)
	descPeak      = prometheus.NewDesc("plimsoll_observed_peak_resident_bytes", "The most that the sandboxes were seen to hold together.", perHost, nil)
	descSeen      = prometheus.NewDesc("plimsoll_observed_timestamp_seconds", "When the machine was last looked at; it stands while looks fail.", perHost, nil)
	descHeld      = prometheus.NewDesc("plimsoll_observed_held_bytes", "What a mode would hold for what runs.", perMode, nil)
	descCould     = prometheus.NewDesc("plimsoll_observed_admittable_bytes", "What a host could still promise in a mode.", perMode, nil)
	descOver      = prometheus.NewDesc("plimsoll_observed_over_bytes", "By how much a host is past its line in a mode.", perMode, nil)
	descFits      = prometheus.NewDesc("plimsoll_observed_fits", "How many more stateless sandboxes of the median size fit in a mode.", perMode, nil)
)

// Describe sends what Collect may send.
func (g gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descResident, descCommitted, descFree, descHeadroom, descSandboxes, descUnsized, descPeak, descSeen,
		descHeld, descCould, descOver, descFits,
	} {
		out <- d
	}
}

// Collect sends the newest report's figures.
func (g gauges) Collect(out chan<- prometheus.Metric) {
	r := g.newest()
	say := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{r.Host}, labels...)...)
	}
	bytes := func(d *prometheus.Desc, mb int64, labels ...string) { say(d, float64(gate.FromMiB(mb)), labels...) }
	bytes(descResident, r.ResidentMB)
	bytes(descCommitted, r.CommittedMB)
	bytes(descFree, r.FreeMB)
	bytes(descHeadroom, r.HeadroomMB)
	bytes(descPeak, r.Peak.ResidentMB)
	say(descSandboxes, float64(r.Found))
	say(descUnsized, float64(r.Unsized))
	say(descSeen, float64(r.At.UnixMilli())/1000)
	for _, m := range r.Modes {
		bytes(descHeld, m.HeldMB, m.Mode)
		bytes(descCould, m.AdmittableMB, m.Mode)
		bytes(descOver, m.OverMB, m.Mode)
		say(descFits, float64(m.FitsMore), m.Mode)
	}
}
