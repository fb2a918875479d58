package config

import (
	"cmp"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pressure"
)

func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// agent is the host section, with all defaults where there is none.
func (l *Local) agent() *Host {
	if l.Host != nil {
		return l.Host
	}
	var h Host
	h.defaults()
	return &h
}

// HostID is the host's name: as stated, else the machine's.
func (l *Local) HostID() string {
	if id := l.agent().ID; id != "" {
		return id
	}
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "localhost"
	}
	id := strings.Map(func(c rune) rune {
		if namePattern.MatchString(string(c)) {
			return c
		}
		return '-'
	}, name)
	return id[:min(len(id), 128)]
}

// AgentSocket is where the boot seam listens: as stated, else in the data directory.
func (l *Local) AgentSocket() string {
	return cmp.Or(l.agent().Socket, filepath.Join(l.DataDir, "agent.sock"))
}

// AgentCgroup is the cgroup of all sandboxes: as stated, else plimsoll/ and the host's id.
func (l *Local) AgentCgroup() string {
	return cmp.Or(l.agent().CgroupParent, "plimsoll/"+l.HostID())
}

// SQLitePath is where the embedded store lies; ok is false when the store is another.
func (l *Local) SQLitePath() (path string, ok bool) {
	if l.Store == "sqlite" {
		return filepath.Join(l.DataDir, "plimsoll.db"), true
	}
	return strings.CutPrefix(l.Store, "sqlite:")
}

// PostgresURL is where the PostgreSQL store is reached; ok is false when it is another.
func (l *Local) PostgresURL() (url string, ok bool) { return l.Store, isPostgres(l.Store) }

// KeysFile is where the ticket keys lie: as stated, else in the data directory.
func (l *Local) KeysFile() string {
	return cmp.Or(l.Keys, filepath.Join(l.DataDir, "keys.json"))
}

// Address is where others reach the API that listens at an address: as stated, else there.
func (l *Local) Address(listening net.Addr) string {
	scheme := "http://"
	if l.TLS != nil {
		scheme = "https://"
	}
	return cmp.Or(l.Advertise, scheme+listening.String())
}

// HostConfig is what package host needs, on a machine with so many cores that carries these
// labels by itself; a label of the file replaces the machine's of the same name.
func (l *Local) HostConfig(cores int, machine map[string]string) host.Config {
	h, c := l.agent(), host.DefaultConfig(l.HostID(), cores)
	c.Enforcement = h.Enforcement
	c.Mode, c.Headroom, c.BootWithin = h.Mode, h.Headroom, h.BootWithin
	c.MaxStarts, c.MaxWaitingStarts = cmp.Or(h.MaxStarts, c.MaxStarts), h.MaxWaitingStarts
	c.StreamRestore, c.Reclaim = h.StreamRestore, h.reclaim()
	labels := maps.Clone(machine)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, h.Labels)
	c.Labels, c.Dims = labelsOf(labels), dimsOf(h.Dimensions)
	c.Marks = pressure.Marks{
		SomeShut: int64(h.PSI.SomeShut), SomeOpen: int64(h.PSI.SomeOpen), FullLost: int64(h.PSI.FullLost),
		Dwell: h.Dwell, MaxDwell: h.MaxDwell,
	}
	return c
}

// reclaim is what is done when a bet is lost: as stated, else on where the host enforces and
// promises more than it has, and off where nobody can lose a bet.
func (h *Host) reclaim() host.Reclaim {
	switch {
	case h.Reclaim != nil:
		return *h.Reclaim
	case h.Enforcement == host.Enforce && h.Mode == gate.WorkingSet:
		return host.ReclaimOn
	}
	return host.ReclaimOff
}

// labelsOf returns labels sorted by name.
func labelsOf(m map[string]string) []gate.Label {
	var labels []gate.Label
	for _, name := range sortedKeys(m) {
		labels = append(labels, gate.Label{Name: name, Value: m[name]})
	}
	return labels
}

// dimsOf returns dimensions sorted by name.
func dimsOf(m map[string]int64) []gate.Dim {
	var dims []gate.Dim
	for _, name := range sortedKeys(m) {
		dims = append(dims, gate.Dim{Name: name, N: m[name]})
	}
	return dims
}
