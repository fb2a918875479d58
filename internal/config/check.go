package config

import (
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/plimsoll-project/plimsoll/gate"
)

// The patterns of the API: what is named here must be nameable there.
var (
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)
	templatePattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	labelName       = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,64}$`)
	labelValue      = regexp.MustCompile(`^[A-Za-z0-9._:/@+=-]{0,256}$`)
)

const maxLabels = 32

// checkLocal proves the relations between local settings.
func (r *report) checkLocal(l *Local) {
	if !isAbsolute(l.DataDir) {
		r.relation([]string{"data_dir"}, "%q is no absolute path; write it from the root, as in /var/lib/plimsoll", short(l.DataDir))
	}
	if text := listenFault(l.Listen); text != "" {
		r.relation([]string{"listen"}, "%q %s; write host:port, as in 127.0.0.1:7070", short(l.Listen), text)
	}
	if l.Advertise != "" && !isAddress(l.Advertise) {
		r.relation([]string{"advertise"}, "%q is no address of an API; write it as others reach it, as in http://10.0.0.1:7070", short(l.Advertise))
	}
	if l.ReplicaID != "" || r.lines["replica_id"] > 0 {
		r.checkName("replica_id", l.ReplicaID)
	}
	if l.Keys != "" && !isAbsolute(l.Keys) {
		r.relation([]string{"keys"}, "%q is no absolute path; write it from the root, as in /etc/plimsoll/keys.json", short(l.Keys))
	}
	if !knownStore(l.Store) {
		// It may hold a password, so it is not repeated.
		r.relation([]string{"store"}, "is no store; write sqlite, sqlite:/absolute/path or postgres://user@host/database")
	}
	if text := listenFault(l.Metrics); l.Metrics != "" && text != "" {
		r.relation([]string{"metrics"}, "%q %s; write host:port, as in 127.0.0.1:7074", short(l.Metrics), text)
	} else if l.Metrics != "" && l.TLS == nil && !l.Plaintext && beyondLoopback(l.Metrics) {
		r.relation([]string{"metrics"}, "%q is beyond this machine; set tls.cert, tls.key and tls.ca, or plaintext: true, or serve them on 127.0.0.1", short(l.Metrics))
	}
	r.checkWire(l)
	if l.Host != nil {
		r.checkHost(l)
		r.checkSizes(l.Host)
		r.checkTimes(l.Host)
	}
}

// isAddress says whether a text is the address of an API, and nothing else.
func isAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

func isAbsolute(path string) bool {
	return filepath.IsAbs(path) && !strings.ContainsFunc(path, unicode.IsControl)
}

// isCgroup says whether a path names a cgroup below the root, and not by way of "..".
func isCgroup(path string) bool {
	clean := filepath.Clean("/" + path)
	return clean != "/" && clean == "/"+strings.Trim(path, "/") && !strings.ContainsFunc(path, unicode.IsControl)
}

func listenFault(s string) string {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return "is no address"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "has no port between 0 and 65535"
	}
	return ""
}

func knownStore(s string) bool {
	if path, ok := strings.CutPrefix(s, "sqlite:"); ok {
		return isAbsolute(path)
	}
	return s == "sqlite" || isPostgres(s)
}

func isPostgres(s string) bool {
	return strings.HasPrefix(s, "postgres://") || strings.HasPrefix(s, "postgresql://")
}

// maxSocket is what the kernel takes for the path of a Unix socket.
const maxSocket = 107

func (r *report) checkHost(l *Local) {
	h := l.Host
	if h.ID != "" || r.lines["host.id"] > 0 {
		r.checkName("host.id", h.ID)
	}
	r.checkLabels("host.labels", h.Labels)
	r.checkCounts("host.dimensions", h.Dimensions)
	if h.Socket != "" && !isAbsolute(h.Socket) {
		r.relation([]string{"host.socket"}, "%q is no absolute path; write it from the root, as in /run/plimsoll/agent.sock", short(h.Socket))
	}
	if h.ReserveGroup != "" {
		r.checkName("host.reserve_group", h.ReserveGroup)
	}
	r.checkObserve(&h.Observe)
	if o := h.Observe; h.OutOfGate == StopOutOfGate && o.CgroupParent == "" && o.Match == "" {
		r.relation([]string{"host.out_of_gate"}, "stop stops what host.observe finds and nobody tracked, and that finds nothing; state host.observe.cgroup_parent or host.observe.match, or write alarm")
	}
	r.checkReclaim(h)
	if n := len(l.AgentSocket()); n > maxSocket {
		r.relation([]string{"host.socket", "data_dir"}, "the agent's socket has a path of %d bytes and the kernel takes %d; set host.socket to a shorter one", n, maxSocket)
	}
	if p := h.CgroupParent; p != "" && !isCgroup(p) {
		r.relation([]string{"host.cgroup_parent"}, "%q is no cgroup of its own; write one below the root, as in plimsoll/host-1", short(p))
	}
}

func (r *report) checkObserve(o *Observe) {
	if o.CgroupParent != "" && !isCgroup(o.CgroupParent) {
		r.relation([]string{"host.observe.cgroup_parent"}, "%q is no cgroup; write one below the root, as in /machine.slice", short(o.CgroupParent))
	}
	for _, p := range []struct{ path, pattern string }{
		{"host.observe.match", o.Match}, {"host.observe.stateful_match", o.Stateful}, {"host.observe.size_pattern", o.SizePattern},
	} {
		re, err := regexp.Compile(p.pattern)
		switch {
		case err != nil || strings.ContainsRune(p.pattern, 0):
			r.relation([]string{p.path}, "%q is no regular expression; write one, as in firecracker|qemu", short(p.pattern))
		case p.path == "host.observe.size_pattern" && p.pattern != "" && re.NumSubexp() != 1:
			r.relation([]string{p.path}, "%q has no one group for the size; write it in parentheses, as in mem=([0-9]+[MG])", short(p.pattern))
		}
	}
}

func (r *report) checkSizes(h *Host) {
	budgetStated := r.stated("host.budget", h.Budget != 0)
	if budgetStated && h.Budget == 0 {
		r.relation([]string{"host.budget"}, "is zero, so nothing would ever fit; write a size, or leave it out for what the machine has")
	}
	if r.stated("host.headroom", h.Headroom != 0) && h.Headroom == 0 {
		r.relation([]string{"host.headroom"}, "is zero, so the kernel would run out of memory first; write a size, or leave it out for the larger of 5 %% and 256MiB")
	}
	if h.Budget > 0 {
		headroom := h.Headroom
		if headroom == 0 {
			headroom = gate.DefaultHeadroom([]gate.Limit{{Size: h.Budget}})
		}
		if headroom >= h.Budget {
			r.relation([]string{"host.headroom", "host.budget"}, "the headroom %s leaves nothing of the budget %s; lower the headroom or raise the budget", formatBytes(headroom), formatBytes(h.Budget))
		}
	}
	if h.MaxStarts < 0 || (r.stated("host.max_starts", false) && h.MaxStarts == 0) {
		r.relation([]string{"host.max_starts"}, "is %d, so nothing would ever start; write at least 1, or leave it out for twice the cores", h.MaxStarts)
	}
	if h.MaxWaitingStarts < 0 {
		r.relation([]string{"host.max_waiting_starts"}, "is below zero; write 0 or more")
	}
}

// stated says whether a setting was written down.
func (r *report) stated(path string, otherwise bool) bool {
	return otherwise || r.lines[path] > 0 || r.names[path] != ""
}

func (r *report) checkTimes(h *Host) {
	r.between("host.boot_within", h.BootWithin, 5*time.Second, 10*time.Minute)
	r.between("host.stop_grace", h.StopGrace, 0, 10*time.Minute)
	r.between("host.sample_limits", h.SampleLimits, time.Millisecond, 10*time.Second)
	r.between("host.sample_sandboxes", h.SampleSandboxes, 10*time.Millisecond, time.Minute)
	r.between("host.dwell", h.Dwell, time.Second, time.Hour)
	r.between("host.max_dwell", h.MaxDwell, time.Second, 24*time.Hour)
	if h.SampleLimits > h.SampleSandboxes {
		r.relation([]string{"host.sample_limits", "host.sample_sandboxes"}, "limits are sampled every %s, sandboxes every %s; sample the limits at least as often", formatDuration(h.SampleLimits), formatDuration(h.SampleSandboxes))
	}
	if eaten, half := growsWithin(h.SampleLimits), h.leastHeadroom()/2; eaten > half {
		r.relation([]string{"host.sample_limits", "host.headroom"}, "memory can grow by %s between two samples %s apart, and half the headroom is %s, so the kernel could run out of it unseen; sample the limits more often, or raise the headroom", formatBytes(eaten), formatDuration(h.SampleLimits), formatBytes(half))
	}
	if h.Dwell > h.MaxDwell {
		r.relation([]string{"host.dwell", "host.max_dwell"}, "dwell %s is longer than max_dwell %s; lower the one or raise the other", formatDuration(h.Dwell), formatDuration(h.MaxDwell))
	}
	r.percent("host.psi.some_shut", h.PSI.SomeShut)
	r.percent("host.psi.some_open", h.PSI.SomeOpen)
	r.percent("host.psi.full_lost", h.PSI.FullLost)
	if h.PSI.SomeOpen >= h.PSI.SomeShut {
		r.relation([]string{"host.psi.some_open", "host.psi.some_shut"}, "the valve opens below %s %% and shuts at %s %%; some_open must be less than some_shut, or it would flap", formatDecimal(int64(h.PSI.SomeOpen), 2), formatDecimal(int64(h.PSI.SomeShut), 2))
	}
}

// growsWithin is what a host may lose meanwhile at 1 GiB a second, as fast as one process fills
// memory.
func growsWithin(d time.Duration) gate.Bytes {
	return gate.FromMiB(gate.GiB.Scale(d.Milliseconds(), 1000).CeilMiB()) // whole, to be read by people
}

// leastHeadroom is what is never promised, at least, on whatever machine.
func (h *Host) leastHeadroom() gate.Bytes {
	switch {
	case h.Headroom > 0:
		return h.Headroom
	case h.Budget > 0:
		return gate.DefaultHeadroom([]gate.Limit{{Size: h.Budget}})
	}
	return gate.DefaultHeadroom(nil)
}

func (r *report) between(path string, d, least, most time.Duration) {
	if d < least || d > most {
		r.relation([]string{path}, "%s is out of bounds; write a duration from %s to %s", formatDuration(d), formatDuration(least), formatDuration(most))
	}
}

func (r *report) percent(path string, p Percent) {
	if p <= 0 || p > 100_00 {
		r.relation([]string{path}, "%s is no mark; write a percentage above 0 and up to 100", formatDecimal(int64(p), 2))
	}
}

func (r *report) checkName(path, name string) {
	if !namePattern.MatchString(name) {
		r.relation([]string{path}, "%q is no name; write 1 to 128 of A-Z a-z 0-9 . _ : -", short(name))
	}
}

func (r *report) checkLabels(path string, labels map[string]string) {
	if len(labels) > maxLabels {
		r.relation([]string{path}, "are %d; keep at most %d", len(labels), maxLabels)
	}
	for _, name := range sortedKeys(labels) {
		if text := labelFault(name, labels[name]); text != "" {
			r.relation([]string{join(path, name), path}, "%s", text)
		}
	}
}

func labelFault(name, value string) string {
	if !labelName.MatchString(name) {
		return "the name is not allowed; write 1 to 64 of A-Z a-z 0-9 . _ / -"
	}
	if !labelValue.MatchString(value) {
		return "the value is not allowed; write up to 256 of A-Z a-z 0-9 . _ : / @ + = -"
	}
	return ""
}

func (r *report) checkCounts(path string, dims map[string]int64) {
	for _, name := range sortedKeys(dims) {
		at := []string{join(path, name), path}
		if !labelName.MatchString(name) {
			r.relation(at, "the name is not allowed; write 1 to 64 of A-Z a-z 0-9 . _ / -")
		}
		if dims[name] < 0 {
			r.relation(at, "%d is below zero; write 0 or more", dims[name])
		}
	}
}
