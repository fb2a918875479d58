package bench

import (
	"errors"
	"math"
	"sync"
	"time"
)

// The essay's loop, as it stands there: one pass over every heartbeat, a ledger that is asked
// for each host, floats for the score. It is the peer, and keeps its traps (design.md §13).

const (
	essayStale   = 30 * time.Second
	essayFloorMB = 512
	essayFrac    = 0.25
)

var errNoCapacity = errors.New("no host has room")

type essayAgent struct {
	id                    string
	heartbeatAt           time.Time
	cpuTotal, cpuUsed     float64
	memMBTotal, memMBUsed int64
	memAdmission          string // "committed" or "working-set"
	memMBAdmittable       int64
	streamRestore         bool
	demands               *place // what the essay's hosts do not have: labels and dimensions
}

type essayRequest struct {
	memMB    int64
	stateful bool
	whole    *request
}

func essayReserve(r essayRequest) int64 {
	if r.stateful {
		return r.memMB
	}
	return max(int64(float64(r.memMB)*essayFrac), essayFloorMB)
}

func essayFits(a essayAgent, r essayRequest, pendingMB int64) bool {
	if a.memAdmission == "working-set" && !r.stateful {
		return a.memMBAdmittable-pendingMB >= essayReserve(r)
	}
	return a.memMBTotal-a.memMBUsed-pendingMB >= r.memMB
}

func essayScore(a essayAgent) float64 {
	s := 0.6*(a.cpuTotal-a.cpuUsed) + 0.3*float64(a.memMBTotal-a.memMBUsed)/1024
	if a.streamRestore {
		s += 5
	}
	return s
}

// essayLedger is the reservations of one process: a total for each host, which is what the loop
// reads, and a release for each reservation.
type essayLedger struct {
	mu      sync.Mutex       // guards pending
	pending map[string]int64 // host id -> MiB reserved
}

func (l *essayLedger) pendingMB(id string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending[id]
}

func (l *essayLedger) reserve(id string, mb int64) (release func()) {
	l.add(id, mb)
	return sync.OnceFunc(func() { l.add(id, -mb) })
}

func (l *essayLedger) add(id string, mb int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[id] += mb; l.pending[id] == 0 {
		delete(l.pending, id)
	}
}

func essayPick(agents []essayAgent, r essayRequest, l *essayLedger) (string, func(), error) {
	now := time.Now()
	best, bestScore := "", math.Inf(-1)
	for _, a := range agents {
		if now.Sub(a.heartbeatAt) > essayStale || !essayFits(a, r, l.pendingMB(a.id)) {
			continue
		}
		if r.whole != nil && !a.demands.demands(r.whole) {
			continue
		}
		if s := essayScore(a); s > bestScore {
			best, bestScore = a.id, s
		}
	}
	if best == "" {
		return "", nil, errNoCapacity
	}
	return best, l.reserve(best, essayReserve(r)), nil
}

// scanned runs the stream over the essay's loop.
type scanned struct {
	agents []essayAgent
	asks   []essayRequest
	ledger essayLedger
	held   []func() // a ring of releases
	n      int
}

func newScanned(b *bed, o PickOptions) *scanned {
	s := &scanned{ledger: essayLedger{pending: map[string]int64{}}, held: make([]func(), o.Held)}
	fresh := time.Now().Add(time.Hour) // the run may take longer than a heartbeat is good for
	places := placesOf(b.hosts)
	for i := range b.hosts {
		v := &b.hosts[i]
		s.agents = append(s.agents, essayAgent{
			id: v.Host, heartbeatAt: fresh, cpuTotal: float64(v.CPUFreeMilli) / 1000,
			memMBTotal: v.Limit.FloorMiB(), memMBUsed: (v.Limit - v.Free).CeilMiB(), memAdmission: v.Mode.String(),
			memMBAdmittable: v.Admittable.FloorMiB(), streamRestore: v.StreamRestore, demands: &places[i],
		})
	}
	for i := range b.asks {
		a := &b.asks[i]
		r := essayRequest{memMB: a.Memory.CeilMiB(), stateful: a.Stateful}
		if len(a.Labels)+len(a.Dims)+len(a.exclude) > 0 {
			r.whole = a
		}
		s.asks = append(s.asks, r)
	}
	return s
}

func (s *scanned) op() {
	r, slot := s.asks[s.n%len(s.asks)], s.n%len(s.held)
	s.n++
	if release := s.held[slot]; release != nil {
		release()
	}
	s.held[slot] = nil
	if _, release, err := essayPick(s.agents, r, &s.ledger); err == nil {
		s.held[slot] = release
	}
}
