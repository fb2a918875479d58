package fleettest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
)

const (
	burstReplicas = 4
	burstHosts    = 8
	burstCreates  = 2000
)

// burstRoom is for 160 sandboxes of 4 GiB on each host, 1,280 in all, or for 2,560 of 2 GiB.
// The machine has less: the agents are told otherwise, since nothing of it is used.
var burstRoom = room{budgetMB: 656 << 10, headroomMB: 16 << 10, machineMB: 1 << 20}

// burstClass is one way to ask.
type burstClass struct {
	name   string
	needMB int64
}

// A burst of each: more than there is room for, and less; recorded by the store, and by hosts
// alone. The smaller ones are of twice a bucket of the table, within which a pick is random.
var burstClasses = []burstClass{{"stored", 4 << 10}, {"hosted", 4 << 10}, {"stored-light", 2 << 10}, {"hosted-light", 2 << 10}}

func burstDocument() string {
	text := "fleet:\n  ceiling: none\n  default_quota: none\n  pools: [{name: burst, cap: none}]\n  classes:\n"
	for _, c := range burstClasses {
		record := "store"
		if c.name[0] == 'h' {
			record = "host"
		}
		text += fmt.Sprintf("    - {name: %s, pool: burst, memory: %dMiB, reserve_floor: %dMiB, record: %s}\n", c.name, c.needMB, c.needMB, record)
	}
	return text + fmt.Sprintf("  consumers: [{name: burst, token_sha256: [\"%x\"]}]\n", hashOf("burst"))
}

// TestBurstStress is T01, T02, T04, T05, T06, T07 and T09 with real processes: `plimsoll
// server` four times over one PostgreSQL, `plimsoll agent` eight times, each with a ledger on
// its disk, and the streams between them. 2,000 creates come at once, spread over the
// replicas, and none is booted, so that hosts only fill up until all is given back: round
// after round no host is past its line by its own books, nothing is refused while a host had
// room by its own word, and equal hosts hold the same number, but for one, once one is refused.
func TestBurstStress(t *testing.T) {
	f := newBurst(t)
	for n := range enough(len(burstClasses), 50) {
		f.round(n, burstClasses[n%len(burstClasses)])
		if t.Failed() {
			return
		}
	}
}

// burst is the fleet of the test.
type burst struct {
	t        *testing.T
	replicas []*replica
	clients  []*client.Client
	words    *words
}

func newBurst(t *testing.T) *burst {
	t.Helper()
	f := &burst{t: t}
	store := schemaOf(t)
	for range burstReplicas {
		f.replicas = append(f.replicas, newReplicaOf(t, "server", store, burstDocument()))
	}
	for _, r := range f.replicas {
		r.log = "warn" // not a line for each refusal
		r.start()
	}
	var agents []*hostAgent
	for i := range burstHosts {
		agents = append(agents, newAgent(t, fmt.Sprintf("h%d", i+1), burstRoom, f.replicas, "127.0.0.1:0", ""))
		agents[i].start()
	}
	f.words = newWords(t, agents)
	transport := &http.Transport{MaxIdleConnsPerHost: burstCreates / burstReplicas}
	t.Cleanup(transport.CloseIdleConnections)
	for _, r := range f.replicas {
		r.becomesReady()
		c, err := client.New("http://"+r.address(), tokenOf("burst"), client.WithHTTPClient(&http.Client{Transport: transport}))
		if err != nil {
			t.Fatal(err)
		}
		f.clients = append(f.clients, c)
	}
	for _, r := range f.replicas {
		hearsAll(t, r, burstHosts)
	}
	return f
}

// hearsAll waits until a replica is connected with every host, and has its word.
func hearsAll(t *testing.T, r *replica, hosts int) {
	t.Helper()
	c := localClient(t, r)
	becomes(t, "a replica to hear every host", startWithin, func() string {
		all, err := c.Hosts(within(t, hung))
		if err != nil {
			return err.Error()
		}
		n := 0
		for _, h := range all.Hosts {
			if h.Connected && h.HeardMSAgo != nil && h.AdmittableMB > 0 {
				n++
			}
		}
		if n < hosts {
			return fmt.Sprintf("it hears %d of %d", n, hosts)
		}
		return ""
	})
	if t.Failed() {
		t.FailNow()
	}
}

// outcome is what became of one create.
type outcome struct {
	admission *api.Admission
	no        refused
	client    *client.Client
}

// round sends one burst, judges it, and gives all back.
func (f *burst) round(n int, class burstClass) {
	t := f.t
	t.Helper()
	f.words.forget()
	before := f.reserves()
	listening, stop := context.WithCancel(t.Context())
	var listener sync.WaitGroup
	listener.Go(func() { f.words.listen(listening, 30*time.Millisecond) })
	began := time.Now()
	all := f.creates(n, class)
	took := time.Since(began)
	stop()
	listener.Wait()
	hosts := f.words.shown()
	admitted, no := 0, []refused{}
	for _, o := range all {
		if o.admission != nil {
			admitted++
		} else if !o.no.told.IsZero() {
			no = append(no, o.no)
		}
	}
	least, most := f.judge(class, hosts, admitted, no)
	calls := f.reserves() - before
	t.Logf("round %d, %s: %d admitted and %d refused in %v; %.3f reserve calls a create; %d to %d on a host (max-min %d)",
		n, class.name, admitted, len(no), took.Round(time.Millisecond), float64(calls)/burstCreates, least, most, most-least)
	f.giveBack(all)
}

// creates asks for all at once, each of one replica.
func (f *burst) creates(n int, class burstClass) []outcome {
	out := make([]outcome, burstCreates)
	var all sync.WaitGroup
	ready := make(chan struct{})
	for i := range out {
		all.Go(func() {
			<-ready
			c := f.clients[i%len(f.clients)]
			out[i] = f.create(c, api.AdmissionRequest{Key: fmt.Sprintf("r%d-%d", n, i), Class: class.name}, class.needMB)
		})
	}
	close(ready)
	all.Wait()
	return out
}

func (f *burst) create(c *client.Client, q api.AdmissionRequest, needMB int64) outcome {
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	asked := time.Now()
	a, err := c.Admit(ctx, q, client.Options{Wait: client.Once})
	switch r, ok := api.AsRefusal(err); {
	case err == nil:
		return outcome{admission: a, client: c}
	case ok && r.Code == api.NoCapacity:
		return outcome{no: refused{asked, time.Now(), needMB}, client: c}
	default:
		f.t.Errorf("%s: %v", q.Key, err)
		return outcome{client: c}
	}
}

// judge holds the round against the hosts' own words, and returns the least and the most that
// a host holds.
func (f *burst) judge(class burstClass, hosts []api.Host, admitted int, no []refused) (least, most int64) {
	t := f.t
	t.Helper()
	sum := int64(0)
	least = burstCreates
	for _, h := range hosts {
		if h.ReservedMB > burstRoom.mb() || h.ReservedMB != h.Reservations*class.needMB {
			t.Errorf("host %s holds %d reservations of %d MiB in %d MiB", h.ID, h.Reservations, h.ReservedMB, burstRoom.mb())
		}
		if len(no) > 0 && h.AdmittableMB >= class.needMB {
			t.Errorf("%d were refused, and host %s has room for %d MiB", len(no), h.ID, h.AdmittableMB)
		}
		sum += h.Reservations
		least, most = min(least, h.Reservations), max(most, h.Reservations)
	}
	for _, r := range no {
		if why := f.words.justify(r); why != "" {
			t.Error(why)
		}
	}
	if sum != int64(admitted) {
		t.Errorf("%d were told yes, and hosts hold %d", admitted, sum)
	}
	if want := min(burstHosts*burstRoom.mb()/class.needMB, burstCreates); int64(admitted) != want {
		t.Errorf("%d were admitted, and there is room for %d", admitted, want)
	}
	if len(no) > 0 && most-least > 1 {
		t.Errorf("of equal hosts one holds %d and another %d", least, most)
	}
	// Where there is room for all, each replica spreads by what the others have under way as well
	// as it can know: 3 to 10 from even on a quiet machine.
	if mean := sum / burstHosts; most > mean+mean/10 || least < mean-mean/10 {
		t.Errorf("a host holds %d, another %d, and all hold %d on average", least, most, mean)
	}
	return least, most
}

// giveBack releases all, and waits until no host holds anything.
func (f *burst) giveBack(all []outcome) {
	t := f.t
	t.Helper()
	var giving sync.WaitGroup
	limit := make(chan struct{}, 128)
	for _, o := range all {
		if o.admission == nil {
			continue
		}
		limit <- struct{}{}
		giving.Go(func() {
			defer func() { <-limit }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := o.client.ReleaseAdmission(ctx, o.admission); err != nil {
				t.Error(err)
			}
		})
	}
	giving.Wait()
	becomes(t, "nothing is held", time.Minute, func() string {
		for _, h := range f.words.shown() {
			if h.Reservations > 0 {
				return fmt.Sprintf("host %s has %d reservations", h.ID, h.Reservations)
			}
		}
		return ""
	})
}

var reserveCalls = regexp.MustCompile(`(?m)^plimsoll_host_reserves_total\{[^}]*\} (\S+)$`)

// reserves is how often the replicas asked a host to reserve.
func (f *burst) reserves() (n int) {
	f.t.Helper()
	for _, r := range f.replicas {
		text := scrape(f.t, r)
		for _, found := range reserveCalls.FindAllStringSubmatch(text, -1) {
			calls, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				f.t.Error(err)
			}
			n += int(calls)
		}
	}
	return n
}

func scrape(t *testing.T, r *replica) string {
	t.Helper()
	resp, err := http.Get("http://" + r.address() + "/metrics")
	if err != nil {
		t.Error(err)
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}
