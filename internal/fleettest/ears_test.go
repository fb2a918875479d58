package fleettest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// heard is what one replica said of one host between two instants: well, that it has a
// connection by which the host answers, and holds nothing against it.
type heard struct {
	asked, told time.Time
	well        bool
}

// spell is a time in which a fault stood between some.
type spell struct {
	spoils
	from, to time.Time
}

// ears are what the replicas say of whom they hear.
type ears struct {
	t        *testing.T
	replicas []*replica
	agents   []*hostAgent
	spoiled  []spell // of the test's own goroutine
	beside   beside

	mu   sync.Mutex         // guards what follows
	said map[[2]int][]heard // replica and host -> in the order of time
}

// begin asks every replica for every host until end.
func (e *ears) begin(every time.Duration) {
	ctx, stop := context.WithCancel(e.t.Context())
	e.beside.stop = stop
	for i := range e.replicas {
		for k := range e.agents {
			e.beside.all.Go(func() {
				for ctx.Err() == nil {
					e.look(ctx, i, k)
					sleep(ctx, every)
				}
			})
		}
	}
}

func (e *ears) end() {
	e.beside.stop()
	e.beside.all.Wait()
}

func (e *ears) look(ctx context.Context, replica, host int) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	said := heard{asked: time.Now()}
	if c, err := localClientOf(e.replicas[replica]); err == nil {
		h, err := c.Host(ctx, e.agents[host].id)
		said.well = err == nil && h.Connected && h.Quarantine == "" && h.UnansweredReserves == 0 && h.Intake == api.IntakeOpen
	}
	said.told = time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	at := [2]int{replica, host}
	e.said[at] = append(e.said[at], said)
}

// forget drops what was said, and what befell.
func (e *ears) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.said, e.spoiled = map[[2]int][]heard{}, nil
}

// heard says whether a replica heard a host all the time of a refusal, by its own word before,
// during and after it, and no fault of ours stood between the two from the one to the other.
func (e *ears) heard(replica, host int, r refused) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	from, to := r.asked, time.Time{}
	well := false
	for _, s := range e.said[[2]int{replica, host}] {
		if s.told.Before(r.asked) {
			from, well = s.asked, s.well
			continue
		}
		well = well && s.well
		if s.asked.After(r.told) {
			to = s.told
			break
		}
	}
	if !well || to.IsZero() {
		return false
	}
	for _, s := range e.spoiled {
		if s.between(replica, host) && s.from.Before(to) && s.to.After(from) {
			return false
		}
	}
	return true
}

// TestEars holds the judge of refusals during faults to what it must see, and what it must not
// take for wrong.
func TestEars(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(1_000_000 + ms)) }
	no := refused{asked: at(100), told: at(200), needMB: 64}
	said := func(all ...int) (out []heard) { // asked at, and for 10 ms; negative: not well
		for _, ms := range all {
			out = append(out, heard{at(max(ms, -ms)), at(max(ms, -ms) + 10), ms >= 0})
		}
		return out
	}
	cut := func(replica, host, from, to int) []spell { return []spell{{spoils{host, replica}, at(from), at(to)}} }
	for _, c := range []struct {
		what    string
		said    []heard
		spoiled []spell
		want    bool
	}{
		{"heard before, meanwhile and after", said(0, 50, 150, 250), nil, true},
		{"not heard of before", said(150, 250), nil, false},
		{"not heard of after", said(0, 50, 150), nil, false},
		{"not well before", said(0, -50, 150, 250), nil, false},
		{"not well meanwhile", said(50, -150, 250), nil, false},
		{"not well after", said(50, 150, -250), nil, false},
		{"well again long before", said(-10, 50, 250), nil, true},
		{"a fault of these two meanwhile", said(50, 250), cut(1, 2, 120, 130), false},
		{"a fault of the host and everybody", said(50, 250), cut(everybody, 2, 0, 60), false},
		{"a fault of the replica and everybody", said(50, 250), cut(1, everybody, 0, 60), false},
		{"a fault of others", said(50, 250), cut(0, 2, 0, 1000), true},
		{"a fault of nobody's", said(50, 250), cut(nobody, nobody, 0, 1000), true},
		{"a fault that was over", said(50, 250), cut(1, 2, 0, 40), true},
	} {
		e := ears{said: map[[2]int][]heard{{1, 2}: c.said}, spoiled: c.spoiled}
		if got := e.heard(1, 2, no); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// TestWords likewise for what a host's own word says of a refusal.
func TestWords(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(1_000_000 + ms)) }
	no := refused{asked: at(100), told: at(200), needMB: 64}
	said := func(ms int, mb, sequence int64) word { return word{at(ms), at(ms + 10), mb, sequence, 1} }
	for _, c := range []struct {
		what         string
		all          []word
		wrong, known bool
	}{
		{"room for two all the time", []word{said(50, 128, 1), said(150, 192, 2), said(250, 128, 3)}, true, true},
		{"room for one, and nothing moved", []word{said(50, 64, 7), said(250, 64, 7)}, true, true},
		{"room for one, and something moved", []word{said(50, 64, 7), said(250, 64, 8)}, false, true},
		{"full for a moment", []word{said(50, 128, 1), said(150, 0, 2), said(250, 128, 3)}, false, true},
		{"not looked at before", []word{said(150, 128, 1), said(250, 128, 1)}, false, false},
		{"not looked at after", []word{said(50, 128, 1), said(150, 128, 1)}, false, false},
	} {
		w := words{t: t, said: map[string][]word{"h": c.all}}
		if why, known := w.hadRoom("h", no); (why != "") != c.wrong || known != c.known {
			t.Errorf("%s: %q %v", c.what, why, known)
		}
	}
}
