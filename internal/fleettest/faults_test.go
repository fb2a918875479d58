package fleettest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/pgcluster"
)

const (
	faultReplicas = 3
	faultHosts    = 4
	faultCap      = 5  // of the pool that has one
	faultNeedMB   = 64 // of each sandbox
	lapse         = time.Minute
)

// faultRoom is for four sandboxes on each host.
var faultRoom = room{budgetMB: 4*faultNeedMB + 128, headroomMB: 128, machineMB: 64 << 10}

// faultDocument has every sandbox charged what it asks for: what its runs teach would let many
// more onto a host, and the test counts them.
func faultDocument() string {
	return fmt.Sprintf(`fleet:
  ceiling: none
  default_quota: none
  pools: [{name: capped, cap: %d}, {name: free, cap: none}]
  classes:
    - {name: capped, pool: capped, memory: %[2]dMiB, reserve_floor: %[2]dMiB, reserve: fixed}
    - {name: free, pool: free, memory: %[2]dMiB, reserve_floor: %[2]dMiB, reserve: fixed}
    - {name: hosted, pool: free, memory: %[2]dMiB, reserve_floor: %[2]dMiB, reserve: fixed, record: host}
  consumers: [{name: jobs, token_sha256: ["%[3]x"]}, {name: operator, roles: [operator], token_sha256: ["%[4]x"]}]
`, faultCap, faultNeedMB, hashOf("jobs"), hashOf("operator"))
}

// TestFaultsKillAndCut is T29, T35, T40, T52, T57, T61 and T75 with real processes under load:
// three `plimsoll server` over a PostgreSQL of their own and four `plimsoll agent`, each
// behind a fence that can cut, hold, swallow, delay and trickle each replica's stream, and
// each agent's calls to join and register; all of them are stopped and killed, too. Sandboxes
// are real processes. At every moment caps hold by the store, each host's books are right by
// its own word, of one admission at most one sandbox runs, and every caller is answered. No
// replica refuses while a host that it hears had room all the time, by that host's own word:
// not in the calms between the faults, and not during those that are others'. In the end
// nothing is held anywhere.
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
	spoils
	begin func()
	end   func() // also mends what begin did not
}

// spoils says between whom a fault stands.
type spoils struct{ host, replica int } // everybody, or nobody at all

const (
	everybody = -1
	nobody    = -2
)

// between says whether a fault stands between a replica and a host.
func (s spoils) between(replica, host int) bool {
	return (s.host == host || s.host == everybody) && (s.replica == replica || s.replica == everybody)
}

// faulty is the fleet of the test, and what befalls it.
type faulty struct {
	t        *testing.T
	rng      *rand.Rand
	cluster  *pgcluster.Cluster
	replicas []*replica
	agents   []*hostAgent
	fences   []*fence // before the agents
	doors    []*fence // before the replicas, for agents alone
	words    *words
	ears     *ears
	jobs     *jobs
	onlooker *onlooker
	counts   map[string]int // kind of fault -> times
	judged   int            // refusals during faults that could be
}

func newFaulty(t *testing.T, rng *rand.Rand) *faulty {
	t.Helper()
	f := &faulty{t: t, rng: rng, cluster: newCluster(t), counts: map[string]int{}}
	for range faultReplicas {
		r := newReplicaOf(t, "server", f.cluster.URL(), faultDocument())
		r.log = "warn"
		f.doors = append(f.doors, newFence(t, r.address()))
		r.env = append(r.env, "PLIMSOLL_ADVERTISE=http://"+f.doors[len(f.doors)-1].address())
		r.start()
		f.replicas = append(f.replicas, r)
	}
	for i := range faultHosts {
		listen := fmt.Sprintf("127.0.0.1:%d", freePort(t))
		f.fences = append(f.fences, newFence(t, listen, f.replicas...))
		a := newAgent(t, fmt.Sprintf("h%d", i+1), faultRoom, f.replicas, listen, f.fences[i].address())
		f.enters(i, a)
		f.agents = append(f.agents, a)
	}
	f.words = newWords(t, f.agents)
	f.ears = &ears{t: t, replicas: f.replicas, agents: f.agents, said: map[[2]int][]heard{}}
	f.jobs = newJobs(t, f.replicas, f.agents, rng)
	f.onlooker = &onlooker{t: t, query: postgresQuery(f.cluster), most: map[string]int64{}, epochs: map[string]int64{}}
	f.allHeard()
	for i := range f.agents {
		f.register(i, rule{})
	}
	return f
}

// enters has an agent join and register through the doors while one of them is shut, one is
// slow, and one, for the first agent, loses what is said.
func (f *faulty) enters(i int, a *hostAgent) {
	var doors []string
	for k, d := range f.doors {
		d.lets(&a.replica)
		d.set(i, []rule{{cut: true}, {swallow: i == 0, trickle: true}, {late: 30 * time.Millisecond}}[k])
		doors = append(doors, "http://"+d.address())
	}
	a.env = append(a.env, "PLIMSOLL_AGENT_REPLICAS="+strings.Join(doors, ","))
	a.start()
}

// register has a rule stand between an agent and the doors of all replicas.
func (f *faulty) register(host int, of rule) {
	for _, d := range f.doors {
		d.set(host, of)
	}
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
	switch f.rng.IntN(17) {
	case 0:
		return f.spoil("partition from one", host, replica, lasts, rule{cut: true})
	case 1:
		return f.spoil("partition from all", host, everybody, lasts, rule{cut: true})
	case 2:
		return f.spoil("half-open to one", host, replica, lasts, rule{swallow: true})
	case 3:
		return f.spoil("half-open to all", host, everybody, lasts, rule{swallow: true})
	case 4:
		return f.spoil("late from one", host, replica, lasts, rule{late: 20*time.Millisecond + lasts/10})
	case 5:
		return f.spoil("held from one", host, replica, lasts, rule{hold: true})
	case 6:
		return f.spoil("held from all", host, everybody, lasts, rule{hold: true})
	case 7:
		return f.spoil("trickle to all", host, everybody, lasts, rule{trickle: true})
	case 8:
		return f.deed("agent stopped", a.id, lasts, spoils{host, everybody}, a.stop, a.goOn)
	case 9:
		return f.deed("replica stopped", fmt.Sprint(replica), lasts, spoils{everybody, replica}, r.stop, r.goOn)
	case 10:
		return f.deed("agent killed", a.id, lasts/2, spoils{host, everybody}, a.kill, a.start)
	case 11:
		return f.deed("replica killed", fmt.Sprint(replica), lasts/2, spoils{everybody, replica}, r.kill, r.start)
	case 12:
		return f.deed("agent killed and back at once", a.id, 0, spoils{host, everybody}, a.kill, a.start)
	case 13:
		return f.anew("agent back, registration cut", host, lasts, rule{cut: true})
	case 14:
		return f.anew("agent back, registration half-open", host, lasts, rule{swallow: true})
	case 15:
		return f.anew("agent back, registration slow", host, lasts, rule{late: 100 * time.Millisecond, trickle: true})
	default:
		return f.deed("PostgreSQL killed", "", lasts/2, spoils{nobody, nobody}, f.cluster.Kill, func() {
			if err := f.cluster.Start(f.t.Context()); err != nil {
				f.t.Error(err)
			}
		})
	}
}

// spoil has a rule stand between a host and one replica, or everybody.
func (f *faulty) spoil(kind string, host, replica int, lasts time.Duration, of rule) deed {
	set := func(of rule) {
		for i := range f.replicas {
			if replica == everybody || replica == i {
				f.fences[host].set(i, of)
			}
		}
	}
	what := fmt.Sprintf("of %s, replica %d", f.agents[host].id, replica)
	return f.deed(kind, what, lasts, spoils{host, replica}, func() { set(of) }, func() { set(rule{}) })
}

// anew kills an agent that starts again at once, and cannot register as it should meanwhile.
func (f *faulty) anew(kind string, host int, lasts time.Duration, of rule) deed {
	a := f.agents[host]
	return f.deed(kind, a.id, lasts, spoils{host, everybody}, func() {
		f.register(host, of)
		a.kill()
		a.start()
	}, func() { f.register(host, rule{}) })
}

func (f *faulty) deed(kind, of string, lasts time.Duration, s spoils, begin, end func()) deed {
	f.counts[kind]++
	return deed{kind + " " + of, lasts.Round(time.Millisecond), s, begin, end}
}

func (f *faulty) carryOut(d deed) {
	from := time.Now()
	d.begin()
	time.Sleep(d.lasts) // the moment is the point
	d.end()
	f.ears.spoiled = append(f.ears.spoiled, spell{d.spoils, from, time.Now()})
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

// calm judges what was refused during the faults, waits until everybody is heard, and then lets
// callers ask for a while in which each no has to be right.
func (f *faulty) calm() {
	f.t.Helper()
	f.allHeard()
	during := f.jobs.refusals()
	judged := f.judgeRefusals(during, f.ears.heard)
	f.judged += judged
	f.t.Logf("faults: %d refusals, %d of them held against the words of hosts that the replica heard", len(during), judged)
	f.words.forget()
	f.ears.forget()
	time.Sleep(3 * time.Second) // of load
	no := f.jobs.refusals()
	time.Sleep(100 * time.Millisecond) // until the last words are in
	judged = f.judgeRefusals(no, func(int, int, refused) bool { return true })
	f.judge()
	f.t.Logf("calm: %d refusals, %d of them held against the hosts' own words", len(no), judged)
}

// judgeRefusals holds each against the words of every host that its replica could hear, and
// counts those for which there were any.
func (f *faulty) judgeRefusals(all []refusedBy, heard func(replica, host int, r refused) bool) (judged int) {
	f.t.Helper()
	for _, r := range all {
		known := false
		for i, a := range f.agents {
			if !heard(r.replica, i, r.refused) {
				continue
			}
			why, some := f.words.hadRoom(a.id, r.refused)
			known = known || some
			if why != "" {
				f.t.Errorf("replica %d: %s", r.replica, why)
			}
		}
		if known {
			judged++
		}
	}
	return judged
}

// begin starts what goes on beside the faults.
func (f *faulty) begin() {
	f.jobs.begin()
	f.words.begin(20 * time.Millisecond)
	f.ears.begin(100 * time.Millisecond)
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
	f.ears.end()
	f.onlooker.end()
	t.Logf("%v; %v", f.counts, f.jobs.book.counts)
	t.Logf("nothing held %v after the last call; at most held at once %v in %d snapshots; worst outage of a caller %v",
		took.Round(time.Millisecond), f.onlooker.most, f.onlooker.snapshots, f.jobs.book.worst.Round(time.Millisecond))
	f.jobs.front.judge()
	if b := f.jobs.book; b.counts["booted"] == 0 || b.counts["left to lapse"] == 0 || b.counts["no_capacity"]+b.counts["pool_full"] == 0 || f.onlooker.most["capped"] < faultCap {
		t.Error("there was no load to speak of")
	}
	if f.judged == 0 {
		t.Error("of all refusals during faults none could be judged")
	}
	for _, d := range f.doors {
		if slices.Max(d.passed) == 0 { // the first one is shut while they join, and open after
			t.Error("no agent came through a door")
		}
	}
}

// beside is what goes on until it is ended.
type beside struct {
	stop func()
	all  sync.WaitGroup
}
