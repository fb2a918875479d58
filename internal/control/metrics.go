package control

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/pool"
)

// Metrics are what a replica counts. No key, tenant or sandbox id is a label.
type Metrics struct {
	Refusals        *prometheus.CounterVec
	WouldRefuse     *prometheus.CounterVec
	Admissions      *prometheus.CounterVec
	ToSuccess       prometheus.Histogram
	HintErrors      *prometheus.HistogramVec
	Rejections      *prometheus.CounterVec
	Reserves        *prometheus.CounterVec
	InvalidReports  prometheus.Counter
	StoreErrors     prometheus.Counter
	TemplatesBroken *prometheus.CounterVec

	DecisionsDropped prometheus.Counter
	DecisionsEarly   prometheus.Counter
}

// NewMetrics registers the counters.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		Refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plimsoll_refusals_total",
			Help: "Refusals by reason; each reason is another page with another response, so they are never summed into one.",
		}, []string{"reason", "pool", "class", "consumer"}),
		WouldRefuse: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plimsoll_would_refuse_total",
			Help: "Refusals that were only counted, because the pool, the quotas or the host are in shadow.",
		}, []string{"reason", "pool", "class", "consumer"}),
		Admissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plimsoll_admissions_total",
			Help: "Admissions placed on a host.",
		}, []string{"pool", "class", "consumer"}),
		ToSuccess: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "plimsoll_first_refusal_to_success_seconds",
			Help:    "Time from a request's first refusal, or its place in a queue, to its admission, over all its attempts.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600},
		}),
		HintErrors: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "plimsoll_retry_after_error_ratio",
			Help:    "How far what a caller was first told is from when it was admitted, as a part of what it was told, without a sign: turn says whether it came sooner than that or later.",
			Buckets: []float64{0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 2, 5, 10, 30},
		}, []string{"pool", "mode", "turn"}),
		Rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plimsoll_tickets_rejected_total",
			Help: "Tickets that substrates presented and that admitted no boot, by reason.",
		}, []string{"reason"}),
		Reserves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plimsoll_host_reserves_total",
			Help: "Hosts that were asked to reserve, by what they said: reserved, denied, or unknown when no answer came; an admission takes one.",
		}, []string{"answer"}),
		InvalidReports: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plimsoll_invalid_reports_total",
			Help: "Reports of host agents that cannot be true; their host is no candidate until a true one comes.",
		}),
		StoreErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plimsoll_store_errors_total",
			Help: "Store transitions whose outcome is unknown.",
		}),
		TemplatesBroken: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plimsoll_templates_broken_total",
			Help: "Times that runs of a template peaked higher than was predicted, so that its reserve is the rule's again: an alarm.",
		}, []string{"class"}),
		DecisionsDropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plimsoll_decisions_dropped_total",
			Help: "Decisions that nobody can have explained, because more were made than could be written behind their answers.",
		}),
		DecisionsEarly: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plimsoll_decisions_forgotten_early_total",
			Help: "Decisions that were forgotten before their day was over, because too many were made within it.",
		}),
	}
	r.MustRegister(m.Refusals, m.WouldRefuse, m.Admissions, m.ToSuccess, m.HintErrors, m.Rejections, m.Reserves, m.InvalidReports, m.StoreErrors, m.TemplatesBroken, m.DecisionsDropped, m.DecisionsEarly)
	return m
}

// begin has what may happen to a class counted from zero: of a series that begins with its first
// event nothing says that it has risen.
func (m *Metrics) begin(fleet *config.Fleet) {
	for i := range fleet.Classes {
		if c := &fleet.Classes[i]; !fleet.WithoutHosts(c) {
			m.TemplatesBroken.WithLabelValues(c.Name)
		}
	}
}

// Refused is what stands before every no that leaves, once for each: it names, counts and
// logs it, and sees to it that no "not now" goes without an appointment. who is nil for a
// caller that nobody knows.
func (g *Gateway) Refused(r *api.Refusal, who *config.Consumer) *api.Refusal {
	if r.DecisionID == "" {
		g.tell(r, who, &about{})
	}
	return r
}

// refused is Refused where class and pool are known.
func (g *Gateway) refused(err error, who *config.Consumer, class, poolName string) error {
	return g.refusedFor(err, who, &about{class: class, pool: poolName})
}

// refusedFor is Refused where more is known.
func (g *Gateway) refusedFor(err error, who *config.Consumer, a *about) error {
	if r, ok := api.AsRefusal(err); ok && r.DecisionID == "" {
		g.tell(r, who, a)
	}
	return err
}

func (g *Gateway) tell(r *api.Refusal, who *config.Consumer, a *about) {
	r.DecisionID = newID("dec")
	if r.Code.Meaning().Retryable() && r.RetryAfter == 0 {
		r.RetryAfter = g.later()
	}
	// What a caller makes up must not become a label: the store of the metrics never forgets.
	class := a.class
	if fleet := g.Fleet(); fleet == nil {
		class = ""
	} else if _, known := fleet.Class(class); !known {
		class = ""
	}
	consumer := ""
	if who != nil {
		consumer = who.Name
	}
	g.Metrics.Refusals.WithLabelValues(string(r.Code), a.pool, class, consumer).Inc()
	g.Log.Info("refused", "decision", r.DecisionID, "code", r.Code, "detail", r.Detail, "pool", a.pool, "class", class, "consumer", consumer)
	g.decide(r, who, a)
}

// admitted counts a yes, and how long its caller waited for it.
func (g *Gateway) admitted(c call, r pool.Row) {
	g.Metrics.Admissions.WithLabelValues(r.Pool, r.Class, r.Consumer).Inc()
	if waited, ok := c.waitedFor(r); ok {
		g.Metrics.ToSuccess.Observe(waited.Seconds())
		c.judgeHint(r)
	}
	if !g.Log.Enabled(context.Background(), slog.LevelDebug) {
		return // its words cost as much as the counting
	}
	g.Log.Debug("admitted", "id", r.ID, "epoch", r.Epoch, "host", r.Host, "class", r.Class, "consumer", r.Consumer)
}

// hostGauges reads the hosts when they are scraped.
type hostGauges struct{ g *Gateway }

var (
	perHost = []string{"host"}
	perPool = []string{"pool"}

	descResident   = prometheus.NewDesc("plimsoll_host_resident_bytes", "Memory that the sandboxes of a host hold.", perHost, nil)
	descCommitted  = prometheus.NewDesc("plimsoll_host_committed_bytes", "Memory that the sandboxes of a host are configured with.", perHost, nil)
	descReserved   = prometheus.NewDesc("plimsoll_host_reserved_bytes", "Memory promised to boots that have not happened; zero on an idle fleet.", perHost, nil)
	descAside      = prometheus.NewDesc("plimsoll_host_set_aside_bytes", "Memory that is set aside, as it frees, for a waiter that needs much; promised to nobody.", perHost, nil)
	descOpen       = prometheus.NewDesc("plimsoll_host_reservations", "Open reservations; zero on an idle fleet.", perHost, nil)
	descAdmittable = prometheus.NewDesc("plimsoll_host_admittable_bytes", "What a host can still promise.", perHost, nil)
	descHeadroom   = prometheus.NewDesc("plimsoll_host_headroom_bytes", "Memory that is never promised.", perHost, nil)
	descFree       = prometheus.NewDesc("plimsoll_host_free_bytes", "Least room under any limit.", perHost, nil)
	descSandboxes  = prometheus.NewDesc("plimsoll_host_sandboxes", "Sandboxes that are charged.", perHost, nil)
	descFileCache  = prometheus.NewDesc("plimsoll_host_file_cache_bytes", "File cache that the kernel charges to sandboxes, and can drop; in no other figure.", perHost, nil)
	descRefaults   = prometheus.NewDesc("plimsoll_host_file_refaults_total", "Pages of files that were read again soon after they had been dropped for want of memory: of sandboxes with a cgroup, since the agent started, and of the whole machine, since it did. Absent for a machine whose kernel does not count them.", []string{"host", "of"}, nil)
	descEvictions  = prometheus.NewDesc("plimsoll_host_evictions_total", "Sandboxes that had to go because the host ran out of memory, since its agent started: evicted, killed by the kernel, or only told in a dry-run.", []string{"host", "how"}, nil)
	descLost       = prometheus.NewDesc("plimsoll_host_lost_bets_total", "Times that a host was about to run out of memory, since its agent started: what it promised was asked of it all at once.", perHost, nil)
	descRamp       = prometheus.NewDesc("plimsoll_host_ramping", "1 while a host promises little, and more by steps, because the kernel has killed for want of its memory.", perHost, nil)
	descPSI        = prometheus.NewDesc("plimsoll_host_psi_percent", "Time in which some of what runs on a host, or all of it (full), stalled for want of memory, of the last second or by avg10, whichever is more: what the valve goes by. Absent where the kernel does not say.", []string{"host", "stalled"}, nil)
	descStrays     = prometheus.NewDesc("plimsoll_host_out_of_gate", "Sandboxes that run on a host without a ticket: an alarm, unless it is 0.", perHost, nil)
	descOutside    = prometheus.NewDesc("plimsoll_host_out_of_gate_bytes", "Memory that those hold, and are charged.", perHost, nil)
	descShut       = prometheus.NewDesc("plimsoll_host_intake_shut", "1 while the valve keeps a host's intake shut.", perHost, nil)
	descQuarantine = prometheus.NewDesc("plimsoll_host_quarantined", "1 while this replica places nothing on a host that it hears, since its reserves went unanswered or its boots failed.", []string{"host", "reason"}, nil)
	descDeaf       = prometheus.NewDesc("plimsoll_hosts_mostly_silent", "1 while more than half of the hosts are silent, so that none is taken for dead: an alarm. Those that are gone for good have to be buried.", nil, nil)
	descBusy       = prometheus.NewDesc("plimsoll_pool_busy_slots", "Slots held.", perPool, nil)
	descCap        = prometheus.NewDesc("plimsoll_pool_cap_slots", "Slots in all; absent without a cap.", perPool, nil)
	descOutOfGate  = prometheus.NewDesc("plimsoll_out_of_gate", "What ran without a slot when this replica was last told what runs; absent when it was not told within the life of a slot.", perPool, nil)
	descRunning    = prometheus.NewDesc("plimsoll_pool_running_slots", "Slots whose sandbox was booted; zero for long while all are held is an alarm: nothing is there that could end.", perPool, nil)
	descTemplates  = prometheus.NewDesc("plimsoll_templates", "Templates of a class of which runs were seen, by what is reserved of its sandboxes: stateful, fixed, prior, learned or broken, of which the last is an alarm.", []string{"class", "state"}, nil)
	descWaiting    = prometheus.NewDesc("plimsoll_pool_waiting", "Admissions that wait.", perPool, nil)
)

// Gauges returns what is read at each scrape.
func (g *Gateway) Gauges() prometheus.Collector { return hostGauges{g} }

// Describe sends what Collect may send.
func (c hostGauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descResident, descCommitted, descReserved, descOpen, descAdmittable, descHeadroom,
		descAside, descFree, descFileCache, descRefaults, descEvictions, descLost, descRamp, descPSI, descStrays, descOutside, descSandboxes, descShut, descQuarantine, descDeaf, descBusy, descRunning, descCap, descWaiting, descOutOfGate, descTemplates,
	} {
		out <- d
	}
}

// Collect asks each host for its arithmetic, and the store for its pools.
func (c hostGauges) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, link := range c.g.links() {
		if v, err := link.View(ctx); err == nil {
			collectHost(out, link.ID(), v)
		}
		if why, _ := c.g.heldAgainst(link.ID()); why != "" {
			out <- prometheus.MustNewConstMetric(descQuarantine, prometheus.GaugeValue, 1, link.ID(), string(why))
		}
	}
	out <- prometheus.MustNewConstMetric(descDeaf, prometheus.GaugeValue, oneIf(c.g.deaf.Load()))
	c.g.collectTemplates(out)
	lines, err := c.g.Store.Lines(ctx)
	if err != nil {
		c.g.Log.Warn("pools not read for the metrics", "err", err)
		return
	}
	for _, l := range lines {
		out <- gauge(descBusy, float64(l.Busy), l.Name)
		out <- gauge(descRunning, float64(l.Running), l.Name)
		out <- gauge(descWaiting, float64(l.Waiting), l.Name)
		if l.Limits.Cap != pool.Unlimited {
			out <- gauge(descCap, float64(l.Limits.Cap), l.Name)
		}
		if n := c.g.reports.count(l.Name, c.g.Now()); n != nil {
			out <- gauge(descOutOfGate, float64(*n), l.Name)
		}
	}
}

func collectHost(out chan<- prometheus.Metric, id string, v host.View) {
	bytes := func(d *prometheus.Desc, b gate.Bytes) { out <- gauge(d, float64(b), id) }
	bytes(descResident, v.Resident)
	bytes(descCommitted, v.Committed)
	bytes(descReserved, v.Account.Reserved)
	bytes(descAside, v.Standing.Need)
	bytes(descAdmittable, v.Verdict.Admittable)
	bytes(descHeadroom, v.Account.Headroom)
	bytes(descFree, v.Account.Free)
	var cache gate.Bytes
	for i := range v.Sandboxes {
		cache = cache.Add(v.Sandboxes[i].FileCache)
	}
	bytes(descFileCache, cache)
	count := func(d *prometheus.Desc, n int64, kind string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), id, kind)
	}
	count(descRefaults, v.Refaults, "sandboxes")
	if v.AllRefaults.Known {
		count(descRefaults, v.AllRefaults.N, "machine")
	}
	count(descEvictions, v.Tally.Evicted, "evicted")
	count(descEvictions, v.Tally.Killed, "kernel")
	count(descEvictions, v.Tally.WouldEvict, "dry-run")
	out <- prometheus.MustNewConstMetric(descLost, prometheus.CounterValue, float64(v.Tally.Lost), id)
	if r := &v.Reading; r.PSI {
		out <- prometheus.MustNewConstMetric(descPSI, prometheus.GaugeValue, float64(r.Some)/100, id, "some")
		out <- prometheus.MustNewConstMetric(descPSI, prometheus.GaugeValue, float64(r.Full)/100, id, "full")
	}
	out <- gauge(descRamp, oneIf(v.RampNext > 0), id)
	bytes(descOutside, v.Outside)
	out <- gauge(descStrays, float64(len(v.OutOfGate)), id)
	out <- gauge(descOpen, float64(v.Reservations), id)
	out <- gauge(descSandboxes, float64(len(v.Sandboxes)), id)
	out <- gauge(descShut, oneIf(v.Verdict.Intake == host.IntakePressure), id)
}

// HostGauges are those of one host, for whoever serves them without a replica.
func HostGauges(id string, view func(context.Context) (host.View, error)) prometheus.Collector {
	return oneHost{id, view}
}

type oneHost struct {
	id   string
	view func(context.Context) (host.View, error)
}

// Describe sends what Collect may send.
func (h oneHost) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descResident, descCommitted, descReserved, descOpen, descAdmittable, descHeadroom, descAside, descFree, descFileCache, descRefaults, descEvictions, descLost, descRamp, descPSI, descStrays, descOutside, descSandboxes, descShut,
	} {
		out <- d
	}
}

// Collect asks the host for its arithmetic.
func (h oneHost) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if v, err := h.view(ctx); err == nil {
		collectHost(out, h.id, v)
	}
}

func gauge(d *prometheus.Desc, v float64, label string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label)
}

func oneIf(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

// links returns every agent that is connected, by id.
func (g *Gateway) links() []Link {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Link, 0, len(g.hosts))
	for _, id := range sortedKeys(g.hosts) {
		if a := g.hosts[id]; a.link != nil && !g.isBuried(id) {
			out = append(out, a.link)
		}
	}
	return out
}
