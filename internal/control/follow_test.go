package control_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/pool"
	"github.com/plimsoll-project/plimsoll/registry"
)

var olga = &config.Consumer{Name: "olga", Roles: []config.Role{config.RoleOperator}}

// containsLine says whether one line of a log has all these words.
func containsLine(log string, words ...string) bool {
	for line := range strings.Lines(log) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			return true
		}
	}
	return false
}

func (f *fleet) wantState(key string, s pool.State) {
	f.t.Helper()
	if row := f.row(key); row.State != s {
		f.t.Errorf("%s is %s, want %s", key, row.State, s)
	}
}

// wires is a network: it leads from replicas to the hosts at its endpoints.
type wires struct {
	mu    sync.Mutex // guards what follows
	hosts map[string]*fakeHost
	down  bool
	open  map[*wire]bool
	dials map[string][]time.Time // endpoint -> when it was dialled
}

// wire is one connection. What the host says goes to every wire there is.
type wire struct {
	*fakeHost
	net  *wires
	over chan struct{}
	once sync.Once

	mu   sync.Mutex // guards what follows
	news host.News
	some chan struct{}
}

// Dial implements control.Dialer.
func (n *wires) Dial(ctx context.Context, h control.RegisteredHost) (control.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials[h.Endpoint] = append(n.dials[h.Endpoint], time.Now())
	to := n.hosts[h.Endpoint]
	if to == nil || n.down {
		return nil, errors.Join(errors.New("dial"), errors.New("connection refused"))
	}
	w := &wire{fakeHost: to, net: n, over: make(chan struct{}), some: make(chan struct{}, 1)}
	n.open[w] = true
	to.set(func() { to.also = append(to.also, w.hear) })
	return w, nil
}

func (w *wire) hear(n host.News) {
	w.mu.Lock()
	w.news.Add(n)
	w.mu.Unlock()
	select {
	case w.some <- struct{}{}:
	default:
	}
}

// Next implements control.Feed.
func (w *wire) Next(ctx context.Context) (host.News, error) {
	select {
	case <-w.over:
		return host.News{}, errLost
	case <-ctx.Done():
		return host.News{}, ctx.Err()
	case <-w.some:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.news
	w.news = host.News{}
	return n, nil
}

// Do implements control.Link.
func (w *wire) Do(ctx context.Context, ev host.Event) (host.Answer, error) {
	select {
	case <-w.over:
		return host.Answer{}, errLost
	default:
		return w.fakeHost.Do(ctx, ev)
	}
}

// Close implements control.Conn.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.over) })
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	delete(w.net.open, w)
	return nil
}

// cut ends every connection, and lets no new one come about.
func (n *wires) cut() {
	n.mu.Lock()
	n.down = true
	var open []*wire
	for w := range n.open {
		open = append(open, w)
	}
	n.mu.Unlock()
	for _, w := range open {
		w.Close()
	}
}

func (n *wires) mend() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = false
}

func (n *wires) dialled(endpoint string) []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]time.Time(nil), n.dials[endpoint]...)
}

// fleet is a rig whose hosts are registered and dialled, with two replicas over one store.
type fleet struct {
	*rig
	net   *wires
	other *control.Gateway
	stops []context.CancelFunc
	creds map[string][32]byte
}

func followed(t *testing.T, hosts []*fakeHost, test func(*fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, hosts)
		r.apply(fleetDocument)
		f := &fleet{rig: r, net: &wires{hosts: map[string]*fakeHost{}, open: map[*wire]bool{}, dials: map[string][]time.Time{}}, creds: map[string][32]byte{}}
		for _, h := range hosts {
			f.join(h.id, h)
		}
		f.follow(r.g)
		f.other = f.replica()
		synctest.Wait()
		test(f)
		for _, stop := range f.stops {
			stop()
		}
		r.stop()
		for _, h := range hosts {
			h.check()
		}
		if err := r.memory.Check(); err != nil {
			t.Error(err)
		}
	})
}

// join registers a host under a new token, at an endpoint of its own.
func (f *fleet) join(id string, h *fakeHost) {
	f.t.Helper()
	f.net.mu.Lock()
	f.net.hosts[id+":1"] = h
	f.net.mu.Unlock()
	made, err := f.g.IssueJoin(f.t.Context(), root, api.JoinTokenRequest{Host: id})
	f.must(err)
	joined, err := f.g.JoinHost(f.t.Context(), api.HostJoinRequest{JoinToken: made.JoinToken, Host: id, Endpoint: id + ":1"})
	f.must(err)
	f.creds[id] = sha256.Sum256([]byte(joined.Credential))
}

func (f *fleet) follow(g *control.Gateway) context.CancelFunc {
	ctx, stop := context.WithCancel(f.t.Context())
	f.stops = append(f.stops, stop)
	go g.Follow(ctx, f.net)
	return stop
}

// replica is another one over the same store, which has just started.
func (f *fleet) replica() *control.Gateway {
	f.t.Helper()
	o := f.options
	o.Metrics = control.NewMetrics(prometheus.NewRegistry())
	g, err := control.New(o)
	f.must(err)
	f.must(g.Load(f.t.Context()))
	ctx, stop := context.WithCancel(f.t.Context())
	f.stops = append(f.stops, stop, sync.OnceFunc(g.Stop))
	go g.PulseUntil(ctx)
	go g.CompareUntil(ctx)
	f.follow(g)
	return g
}

func (f *fleet) deed(g *control.Gateway, id string, d registry.Deed) (api.HostChange, error) {
	return g.ChangeHost(f.t.Context(), olga, id, d, "a reason")
}

// done is a deed that must be done.
func (f *fleet) done(g *control.Gateway, id string, d registry.Deed) api.HostChange {
	f.t.Helper()
	c, err := f.deed(g, id, d)
	f.must(err)
	return c
}

// postAt is a create at one of the replicas.
func (f *fleet) postAt(g *control.Gateway, key, class string, change ...func(*api.AdmissionRequest)) (control.Outcome, error) {
	q := api.AdmissionRequest{Key: key, Class: class, Tenant: "alice"}
	for _, c := range change {
		c(&q)
	}
	return g.Admit(f.t.Context(), alice, q)
}

// What joins is dialled and placed on; where it moves to, it is found; and a replica that was
// never told anything finds it in the registry.
func TestFollowFindsHosts(t *testing.T) {
	followed(t, oneHost(4096), func(f *fleet) {
		if a := f.admit("k1", "small"); a.Host != "h1" {
			f.t.Errorf("%+v", a)
		}
		out, err := f.postAt(f.other, "k2", "small")
		f.want("yes", out, err)
		second := &fakeHost{id: "h2", budget: oneHost(4096)[0].budget}
		second.begin(f.t, 2000)
		f.hosts = append(f.hosts, second)
		f.join("h2", second)
		time.Sleep(4 * time.Second) // the other replica looks by itself
		for i, g := range []*control.Gateway{f.g, f.other} {
			out, err := f.postAt(g, fmt.Sprint("pinned-", i), "small", pinned("h2", api.HostPinModeRequire))
			f.want("yes", out, err)
			if out.Admission.Endpoint != "h2:1" {
				f.t.Errorf("the endpoint of its host is %q", out.Admission.Endpoint)
			}
		}
		f.net.mu.Lock()
		f.net.hosts["elsewhere:1"] = second
		delete(f.net.hosts, "h2:1")
		f.net.mu.Unlock()
		_, err = f.g.RegisterHost(f.t.Context(), "h2", f.creds["h2"], api.HostRegistration{Endpoint: "elsewhere:1", Version: "v2"})
		f.must(err)
		time.Sleep(4 * time.Second)
		if n := len(f.net.dialled("elsewhere:1")); n != 2 { // each replica once
			f.t.Errorf("the new endpoint was dialled %d times", n)
		}
		out, err = f.postAt(f.other, "moved", "small", pinned("h2", api.HostPinModeRequire))
		f.want("yes", out, err)
		if out.Admission.Endpoint != "elsewhere:1" {
			f.t.Errorf("the endpoint of a host that moved is %q", out.Admission.Endpoint)
		}
		f.letGo()
	})
}

// forgetful is a store whose list of hosts is empty, or fails, while it is told to be.
type forgetful struct {
	control.Store
	mu   sync.Mutex // guards what follows
	mode string
}

func (s *forgetful) set(mode string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
}

func (s *forgetful) Hosts(ctx context.Context) ([]control.RegisteredHost, error) {
	s.mu.Lock()
	mode := s.mode
	s.mu.Unlock()
	switch mode {
	case "empty":
		return nil, nil
	case "failing":
		return nil, errLost
	}
	return s.Store.Hosts(ctx)
}

func (s *forgetful) HostsVersion(context.Context) (int64, error) { return time.Now().UnixNano(), nil }

// T57: a list that is empty or cannot be read removes nobody.
func TestAbsenceIsNeverDeath(t *testing.T) {
	followed(t, oneHost(4096), func(f *fleet) {
		store := &forgetful{Store: f.store}
		f.options.Store = store
		g := f.replica()
		synctest.Wait()
		for i, mode := range []string{"empty", "failing"} {
			store.set(mode)
			time.Sleep(2 * time.Minute)
			out, err := f.postAt(g, fmt.Sprint("k", i), "small")
			f.want("yes", out, err)
			if n := len(f.net.dialled("h1:1")); n != 3 {
				f.t.Errorf("%s: dialled %d times by three replicas", mode, n)
			}
		}
		f.letGo()
	})
}

// T53, T56, F10: a replica that has just started offers nobody whom it has not heard itself,
// however lately others did; and an ask that no registered host could hold is never, whether
// those are heard or not.
func TestAFreshReplicaOffersNobodyUnheard(t *testing.T) {
	followed(t, oneHost(4096), func(f *fleet) {
		f.admit("k1", "small")
		time.Sleep(5 * time.Second) // the registry has what the host says of itself
		f.net.mu.Lock()
		f.net.down = true // for who comes new
		f.net.mu.Unlock()
		g := f.replica()
		time.Sleep(time.Second)
		out, err := f.postAt(g, "k2", "small")
		f.want("no_healthy_agents", out, err)
		out, err = f.postAt(g, "k3", "small", func(q *api.AdmissionRequest) { mb := int64(32 * 1024); q.MemoryMB = &mb })
		f.want("infeasible", out, err)
		list, err := g.Hosts(f.t.Context())
		f.must(err)
		hosts := list.Hosts
		for id, code := range map[string]api.Code{"h1": api.HostSilent, "nowhere": api.NotFound} {
			if _, err := g.BypassHost(f.t.Context(), root, id, api.BypassRequest{ForMS: 1000, Reason: "test"}); !errors.Is(err, code) {
				f.t.Errorf("a bypass of %s, which is not connected: %v", id, err)
			}
		}
		if len(hosts) != 1 || hosts[0].Connected || hosts[0].NotConnected != "dial: connection refused" {
			f.t.Errorf("%+v", hosts)
		}
		f.net.mend()
		time.Sleep(time.Minute)
		out, err = f.postAt(g, "k2", "small")
		f.want("yes", out, err)
		f.letGo()
	})
}

// Hundreds of hosts that are lost together are not dialled together again.
func TestLostHostsAreNotRedialledInOneWave(t *testing.T) {
	const many = 200
	followed(t, nil, func(f *fleet) {
		for i := range many {
			h := &fakeHost{id: fmt.Sprintf("h%03d", i), budget: oneHost(1024)[0].budget}
			h.begin(f.t, int64(3000+i))
			f.hosts = append(f.hosts, h)
			f.join(h.id, h)
		}
		time.Sleep(time.Minute)
		f.net.cut()
		lost := time.Now()
		f.net.mend()
		time.Sleep(10 * time.Second)
		slots := map[int64]int{} // tenths of a second after the loss -> dials of both replicas
		for _, h := range f.hosts {
			for _, at := range f.net.dialled(h.id + ":1") {
				if at.After(lost) {
					slots[at.Sub(lost).Milliseconds()/100]++
				}
			}
		}
		total, most := 0, 0
		for _, n := range slots {
			total, most = total+n, max(most, n)
		}
		if total != 2*many || most > 2*many/8 {
			f.t.Errorf("%d dials, %d of them within a tenth of a second", total, most)
		}
	})
}

// T58: an order that is given at one replica is kept at the other at once, and by the agent, on
// every path that leads to a boot; what was promised boots under a cordon.
func TestAnOrderIsKeptEverywhere(t *testing.T) {
	followed(t, oneHost(4096), func(f *fleet) {
		promised := f.admit("promised", "small")
		if c := f.done(f.g, "h1", registry.Cordon); c.Warning != "" || c.Unbooted != 1 {
			f.t.Errorf("%+v", c)
		}
		if intake := f.hosts[0].view().Verdict.Intake; intake != host.IntakeCordoned {
			f.t.Errorf("the agent is %v", intake)
		}
		synctest.Wait()
		for i, g := range []*control.Gateway{f.g, f.other} {
			out, err := f.postAt(g, fmt.Sprint("new-", i), "small")
			f.want("no_capacity", out, err)
			out, err = f.postAt(g, fmt.Sprint("pin-", i), "small", pinned("h1", api.HostPinModeRequire))
			f.want("no_capacity", out, err)
		}
		again := f.admit("promised", "small") // its reservation is kept
		if again.Epoch != promised.Epoch {
			f.t.Errorf("moved to %d from %d", again.Epoch, promised.Epoch)
		}
		if denial := f.boot(again); denial != "" {
			f.t.Errorf("what was promised does not boot: %s", denial)
		}
		f.done(f.other, "h1", registry.Uncordon)
		time.Sleep(100 * time.Millisecond) // the agent's word has the replica look
		out, err := f.post("after", "small")
		f.want("yes", out, err)
		f.letGo()
	})
}

// T58, T60: a host that drains boots nothing of what was promised: it moves. The one who gave
// the order need not be the one who is asked, nor the agent have heard of it.
func TestDrainMoves(t *testing.T) {
	followed(t, twoHosts(4096), func(f *fleet) {
		pin := pinned("h1", api.HostPinModePrefer)
		f.boot(f.admit("runs", "small", pin))
		synctest.Wait()
		first := f.admit("promised", "small", pin)
		f.host("h1").fail("SetIntake", "failed") // it is told again
		c := f.done(f.other, "h1", registry.Drain)
		if c.Warning == "" || c.Unbooted != 1 || c.Running != 1 {
			f.t.Errorf("%+v", c)
		}
		time.Sleep(4 * time.Second)
		if denial := f.boot(first); denial != host.Draining {
			f.t.Errorf("the draining host boots: %q", denial)
		}
		moved := f.admit("promised", "small", pin)
		if moved.Host != "h2" || moved.Epoch <= first.Epoch {
			f.t.Errorf("%+v after %+v", moved, first)
		}
		if _, err := f.deed(f.g, "h1", registry.Uncordon); !errors.Is(err, api.HostStateConflict) { // T60
			f.t.Errorf("turned back: %v", err)
		}
		if _, err := f.deed(f.g, "h1", registry.Bury); !errors.Is(err, api.HostStateConflict) {
			f.t.Errorf("buried alive: %v", err)
		}
		f.exit("runs")
		synctest.Wait()
		if c := f.done(f.g, "h1", registry.Bury); c.Lost != 0 || c.State != api.HostStateBuried {
			f.t.Errorf("%+v", c)
		}
		f.letGo()
	})
}

// So does what hosts alone record, also before the host has heard of the order.
func TestDrainMovesByHost(t *testing.T) {
	followed(t, twoHosts(4096), func(f *fleet) {
		f.apply(aloneDocument)
		pin := pinned("h1", api.HostPinModePrefer)
		first := f.admit("promised", "alone", pin)
		f.host("h1").fail("SetIntake", "failed")
		if c := f.done(f.g, "h1", registry.Drain); c.Warning == "" {
			f.t.Errorf("%+v", c)
		}
		if moved := f.admit("promised", "alone", pin); first.Host != "h1" || moved.Host != "h2" || moved.ID == first.ID {
			f.t.Errorf("%+v after %+v", moved, first)
		}
		f.letGo()
	})
}

// The agent's intake is repaired when it is heard again: an order that it missed, and one that
// was taken back meanwhile.
func TestIntakeIsRepaired(t *testing.T) {
	followed(t, oneHost(4096), func(f *fleet) {
		f.net.cut()
		synctest.Wait()
		if c := f.done(f.g, "h1", registry.Cordon); c.Warning == "" {
			f.t.Errorf("%+v", c)
		}
		f.net.mend()
		time.Sleep(30 * time.Second)
		if intake := f.hosts[0].view().Verdict.Intake; intake != host.IntakeCordoned {
			f.t.Errorf("the agent is %v", intake)
		}
		f.net.cut()
		f.done(f.g, "h1", registry.Uncordon)
		f.net.mend()
		time.Sleep(30 * time.Second)
		out, err := f.postAt(f.other, "k1", "small")
		f.want("yes", out, err)
		f.letGo()
	})
}

// A host dies: its stateless admissions are lost with its lease, a stateful one keeps slot and
// key until the bury, and then its key moves under a higher epoch. The host back from the dead
// has to join anew; what was superseded meanwhile is stopped, or alarmed when it is stateful.
func TestBuryToTheEnd(t *testing.T) {
	followed(t, append(twoHosts(4096), &fakeHost{id: "h3", budget: oneHost(4096)[0].budget}), func(f *fleet) {
		pin := pinned("h1", api.HostPinModePrefer)
		f.boot(f.admit("task", "small", pin))
		first := f.admit("base", "base", pin)
		f.boot(first)
		synctest.Wait()
		dead := f.host("h1")
		dead.set(func() { dead.deaf = true })
		f.wantState("task", pool.Running)
		time.Sleep(2 * time.Minute) // T61: it is no candidate, and nothing of it is lost yet
		f.wantState("task", pool.Running)
		if _, err := f.deed(f.g, "nowhere", registry.Bury); !errors.Is(err, api.NotFound) {
			f.t.Errorf("%v", err)
		}
		time.Sleep(4 * time.Minute)
		f.wantState("task", pool.Lost)
		f.wantState("base", pool.Running)
		again := f.admit("task", "small", pin)
		if again.Host == "h1" {
			f.t.Errorf("%+v", again)
		}
		if _, err := f.g.Host(f.t.Context(), "h1"); errors.Is(err, api.NotFound) {
			t.Errorf("before the bury: %v", err)
		}
		if c := f.done(f.g, "h1", registry.Bury); c.Lost != 1 {
			f.t.Errorf("%+v", c)
		}
		if _, err := f.g.Host(f.t.Context(), "h1"); !errors.Is(err, api.NotFound) || !strings.Contains(err.Error(), "was buried") {
			t.Errorf("a look at a buried host, which nobody should wait for: %v", err)
		}
		f.wantState("base", pool.Lost)
		moved := f.admit("base", "base", pin)
		if moved.Host == "h1" || moved.Epoch <= first.Epoch {
			f.t.Errorf("%+v after %+v", moved, first)
		}
		f.boot(moved)
		time.Sleep(4 * time.Second) // the other replica looks at the registry
		dead.set(func() { dead.deaf = false })
		time.Sleep(time.Minute)
		if n := len(dead.view().Sandboxes); n != 2 {
			f.t.Errorf("a buried host is still told what to do: it runs %d", n)
		}
		_, err := f.g.RegisterHost(f.t.Context(), "h1", f.creds["h1"], api.HostRegistration{Endpoint: "h1:1", Version: "v2"})
		if !errors.Is(err, api.HostIsBuried) {
			f.t.Errorf("its credential is good: %v", err)
		}
		f.join("h1", dead)
		time.Sleep(30 * time.Second)
		left := dead.view().Sandboxes
		if len(left) != 1 || left[0].Identity.Key != "base" {
			f.t.Errorf("it runs %+v", left)
		}
		if row := f.row("base"); row.Epoch != moved.Epoch || row.State != pool.Running {
			f.t.Errorf("%+v", row)
		}
		if !containsLine(f.log.String(), "a sandbox runs that should not", "stranded") {
			f.t.Error("nobody was alarmed")
		}
		f.letGo()
	})
}
