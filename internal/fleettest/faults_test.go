package fleettest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/pgcluster"
)

const (
	faultReplicas = 3
	faultHosts    = 4
	faultCap      = 7  // of the pool that has one
	faultNeedMB   = 64 // of each sandbox
	lapse         = time.Minute
)

// faultRoom is for four sandboxes on each host.
var faultRoom = room{budgetMB: 4*faultNeedMB + 128, headroomMB: 128, machineMB: 64 << 10}

func faultDocument() string {
	return fmt.Sprintf(`fleet:
  ceiling: none
  default_quota: none
  pools: [{name: capped, cap: %d}, {name: free, cap: none}]
  classes:
    - {name: capped, pool: capped, memory: %[2]dMiB, reserve_floor: %[2]dMiB}
    - {name: free, pool: free, memory: %[2]dMiB, reserve_floor: %[2]dMiB}
    - {name: hosted, pool: free, memory: %[2]dMiB, reserve_floor: %[2]dMiB, record: host}
  consumers: [{name: jobs, token_sha256: ["%[3]x"]}, {name: operator, roles: [operator], token_sha256: ["%[4]x"]}]
`, faultCap, faultNeedMB, hashOf("jobs"), hashOf("operator"))
}

// TestFaultsKillAndCut is T29, T35, T40, T52, T57, T61 and T75 with real processes under load:
// three `plimsoll server` over a PostgreSQL of their own and four `plimsoll agent`, each
// behind a fence that can cut, hold, swallow, delay and trickle each replica's stream; all of
// them are stopped and killed, too. Sandboxes are real processes. At every moment caps hold by
// the store, each host's books are right by its own word, of one admission at most one
// sandbox runs, and every caller is answered; in the calms between the faults nothing is
// refused while a host had room; and in the end nothing is held anywhere.
//
// Its plan is drawn from PLIMSOLL_SEED before anything happens; the moments are the kernel's.
func TestFaultsKillAndCut(t *testing.T) {
	t.Parallel()
	rng := random(t)
	f := newFaulty(t, rng)
	f.begin()
	for round := range enough(3, 12) {
		f.jobs.leaving(round == 0) // what is left lapses while the test goes on
		for _, d := range f.plan(6) {
			t.Logf("round %d: %s for %v", round, d.what, d.lasts)
			f.carryOut(d)
			f.judge()
		}
		f.calm()
		if t.Failed() {
			break
		}
	}
	f.endsWell()
}

// deed is one fault and for how long it lasts.
type deed struct {
	what  string
	lasts time.Duration
	begin func()
	end   func() // also mends what begin did not
}

// faulty is the fleet of the test, and what befalls it.
type faulty struct {
	t        *testing.T
	rng      *rand.Rand
	cluster  *pgcluster.Cluster
	replicas []*replica
	agents   []*hostAgent
	fences   []*fence
	words    *words
	jobs     *jobs
	onlooker *onlooker
	counts   map[string]int // kind of fault -> times
}

func newFaulty(t *testing.T, rng *rand.Rand) *faulty {
	t.Helper()
	f := &faulty{t: t, rng: rng, cluster: newCluster(t), counts: map[string]int{}}
	for range faultReplicas {
		r := newReplicaOf(t, "server", f.cluster.URL(), faultDocument())
		r.log = "warn"
		r.start()
		f.replicas = append(f.replicas, r)
	}
	for i := range faultHosts {
		listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
		f.fences = append(f.fences, newFence(t, listen, f.replicas))
		a := newAgent(t, fmt.Sprintf("h%d", i+1), faultRoom, f.replicas, listen, f.fences[i].address())
		a.start()
		f.agents = append(f.agents, a)
	}
	f.words = newWords(t, f.agents)
	f.jobs = newJobs(t, f.replicas, f.agents, rng)
	f.onlooker = &onlooker{t: t, query: postgresQuery(f.cluster), most: map[string]int64{}, epochs: map[string]int64{}}
	f.allHeard()
	return f
}

// allHeard waits until every replica hears every host.
func (f *faulty) allHeard() {
	f.t.Helper()
	for _, r := range f.replicas {
		r.becomesReady()
		becomes(f.t, "a replica to hear every host", 90*time.Second, func() string {
			all, err := localClient(f.t, r).Hosts(within(f.t, hung))
			if err != nil {
				return err.Error()
			}
			for _, h := range all.Hosts {
				if !h.Connected || h.Quarantine != "" {
					return fmt.Sprintf("host %s: %s %s", h.ID, h.NotConnected, h.Quarantine)
				}
			}
			if len(all.Hosts) != faultHosts {
				return fmt.Sprintf("it knows %d hosts", len(all.Hosts))
			}
			return ""
		})
	}
}

// plan draws the next faults. Every part has its turn at each kind, sooner or later.
func (f *faulty) plan(n int) (all []deed) {
	for range n {
		host, replica := f.rng.IntN(faultHosts), f.rng.IntN(faultReplicas)
		lasts := 300*time.Millisecond + time.Duration(f.rng.Int64N(int64(2500*time.Millisecond)))
		all = append(all, f.draw(host, replica, lasts))
	}
	return all
}

func (f *faulty) draw(host, replica int, lasts time.Duration) deed {
	a, r := f.agents[host], f.replicas[replica]
	spoil := func(kind string, of rule, some ...int) deed {
		if len(some) == 0 {
			some = []int{0, 1, 2}
		}
		return f.deed(kind, fmt.Sprintf("of %s, replicas %v", a.id, some), lasts, func() {
			for _, i := range some {
				f.fences[host].set(i, of)
			}
		}, func() {
			for _, i := range some {
				f.fences[host].set(i, rule{})
			}
		})
	}
	switch f.rng.IntN(14) {
	case 0:
		return spoil("partition from one", rule{cut: true}, replica)
	case 1:
		return spoil("partition from all", rule{cut: true})
	case 2:
		return spoil("half-open to one", rule{swallow: true}, replica)
	case 3:
		return spoil("half-open to all", rule{swallow: true})
	case 4:
		return spoil("late from one", rule{late: 20*time.Millisecond + lasts/10}, replica)
	case 5:
		return spoil("held from one", rule{hold: true}, replica)
	case 6:
		return spoil("held from all", rule{hold: true})
	case 7:
		return spoil("trickle to all", rule{trickle: true})
	case 8:
		return f.deed("agent stopped", a.id, lasts, a.stop, a.goOn)
	case 9:
		return f.deed("replica stopped", fmt.Sprint(replica), lasts, r.stop, r.goOn)
	case 10:
		return f.deed("agent killed", a.id, lasts/2, a.kill, a.start)
	case 11:
		return f.deed("replica killed", fmt.Sprint(replica), lasts/2, r.kill, r.start)
	case 12:
		return f.deed("agent killed and back at once", a.id, 0, a.kill, a.start)
	default:
		return f.deed("PostgreSQL killed", "", lasts/2, f.cluster.Kill, func() {
			if err := f.cluster.Start(f.t.Context()); err != nil {
				f.t.Error(err)
			}
		})
	}
}

func (f *faulty) deed(kind, of string, lasts time.Duration, begin, end func()) deed {
	f.counts[kind]++
	return deed{kind + " " + of, lasts.Round(time.Millisecond), begin, end}
}

func (f *faulty) carryOut(d deed) {
	d.begin()
	time.Sleep(d.lasts) // the moment is the point
	d.end()
	time.Sleep(200 * time.Millisecond)
}

// judge holds what runs at this moment against what may.
func (f *faulty) judge() {
	f.t.Helper()
	runs := map[string]string{} // id -> host
	for _, a := range f.agents {
		h, err := a.shows()
		if err != nil {
			continue // the words' listener says what is wrong with its books
		}
		for _, s := range h.Sandboxes {
			if other, twice := runs[s.ID]; twice {
				f.t.Errorf("%s of %s runs on %s and on %s", s.ID, s.Key, other, a.id)
			}
			if runs[s.ID] = a.id; s.Waiver != "" {
				f.t.Errorf("%s runs on %s without a ticket: %s", s.ID, a.id, s.Waiver)
			}
		}
		if n := len(h.Sandboxes); int64(n)*faultNeedMB > faultRoom.mb() {
			f.t.Errorf("%d sandboxes run on %s", n, a.id)
		}
	}
	f.jobs.judge(runs)
}

// calm waits until everybody is heard, and then lets callers ask for a while in which a no
// has to be right.
func (f *faulty) calm() {
	f.t.Helper()
	f.allHeard()
	f.words.forget()
	f.jobs.refusals(true)
	time.Sleep(3 * time.Second) // of load
	no := f.jobs.refusals(false)
	time.Sleep(100 * time.Millisecond) // until the last words are in
	checked := 0
	for _, r := range no {
		why, known := f.words.hadRoom(r)
		if why != "" {
			f.t.Error(why)
		}
		if known {
			checked++
		}
	}
	f.judge()
	f.t.Logf("calm: %d refusals, %d of them held against the hosts' own words", len(no), checked)
}

// begin starts what goes on beside the faults.
func (f *faulty) begin() {
	f.jobs.begin()
	f.words.begin(20 * time.Millisecond)
	f.onlooker.limits = map[string]int64{"capped": faultCap}
	f.onlooker.begin()
}

// endsWell lets all go: one life of a reservation later nothing is held, by the hosts' and by
// the store's word.
func (f *faulty) endsWell() {
	t := f.t
	t.Helper()
	f.allHeard()
	f.jobs.stop()
	f.jobs.giveAllBack()
	took := becomes(t, "nothing is held", lapse+4*sweepEvery, func() string {
		for _, h := range f.words.shown() {
			if h.Reservations > 0 || len(h.Sandboxes) > 0 {
				return fmt.Sprintf("host %s has %d reservations and %d sandboxes", h.ID, h.Reservations, len(h.Sandboxes))
			}
			if h.AdmittableMB < faultRoom.mb() {
				return fmt.Sprintf("host %s has only %d MiB", h.ID, h.AdmittableMB)
			}
		}
		return f.onlooker.left(t.Context())
	})
	f.words.end()
	f.onlooker.end()
	t.Logf("%v; %v", f.counts, f.jobs.book.counts)
	t.Logf("nothing held %v after the last call; at most held at once %v in %d snapshots; worst outage of a caller %v",
		took.Round(time.Millisecond), f.onlooker.most, f.onlooker.snapshots, f.jobs.book.worst.Round(time.Millisecond))
	f.jobs.front.judge()
	if b := f.jobs.book; b.counts["booted"] == 0 || b.counts["left to lapse"] == 0 || b.counts["no_capacity"]+b.counts["pool_full"] == 0 || f.onlooker.most["capped"] < faultCap {
		t.Error("there was no load to speak of")
	}
}

// beside is what goes on until it is ended.
type beside struct {
	stop func()
	all  sync.WaitGroup
}
