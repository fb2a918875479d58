package up_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
)

const (
	kills   = 32
	callers = 5
	theCap  = 5
)

// killConfig lets both say no: the pool after five, the host after two large ones. What the runs
// teach is left out: more of them would fit.
const killConfig = `
host:
  headroom: 128MiB
  boot_within: 5s
  sample_limits: 20ms
  sample_sandboxes: 200ms
fleet:
  default_quota: none
  pools: [{name: default, cap: 5, max_waiting: 100}]
  classes:
    - {name: small, pool: default, memory: 64MiB, reserve_floor: 64MiB, reserve: fixed}
    - {name: large, pool: default, memory: 400MiB, stateful: true}
`

// TestKills is T28, T29, T32, T37, T81 and T111 with real kills: `plimsoll up` is killed at
// any moment, in a loop, while callers ask, wait, boot and release. After each start what
// runs is re-adopted, what died is free; nothing is booted twice, and never more than the
// cap. In the end everything is as it was.
func TestKills(t *testing.T) {
	s := newSite(t)
	s.write(killConfig)
	s.up()
	r := &ruin{site: s, client: s.client(), boots: filepath.Join(s.dir, "boots"), keys: map[string]bool{}}
	t.Cleanup(r.killSandboxes)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { r.caller(ctx, i) })
	}
	all.Go(func() { r.watch(ctx) })
	for round := range kills {
		time.Sleep(time.Duration(5+rand.IntN(395)) * time.Millisecond) // the moment is the point
		s.kill()
		if said := s.stderr.String(); strings.Contains(said, "goroutine ") || strings.Contains(said, "level=ERROR") {
			t.Errorf("round %d: it said %s", round, tail(said))
		}
		before := r.live()
		s.up() // and whoever was cut off asks again
		r.mayCall.Lock()
		r.afterStart(round, before)
		r.mayCall.Unlock()
		if t.Failed() {
			break
		}
	}
	stop()
	all.Wait()
	t.Logf("%d admitted, %d booted, %d released, %d refused by the pool, %d by the host, %d cut off, at most %d at once",
		r.admitted.Load(), len(r.booted()), r.released.Load(), r.poolFull.Load(), r.noRoom.Load(), r.cut.Load(), r.most.Load())
	r.allOver()
	if status := s.stop(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// ruin is what the callers and the checks of TestKills share.
type ruin struct {
	*site
	client  *client.Client
	boots   string       // a line for each sandbox that ran: see sandbox
	mayCall sync.RWMutex // held for reading by a caller, for writing by a check

	mu   sync.Mutex      // guards keys
	keys map[string]bool // ever asked for -> its end was begun, by a release or by hanging up

	admitted, released, poolFull, noRoom, cut, most atomic.Int64
}

func (r *ruin) remember(key string, released bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key] = r.keys[key] || released
}

func (r *ruin) isReleased(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[key]
}

// caller asks for sandboxes, one after the other, and treats each in one of the ways there are.
func (r *ruin) caller(ctx context.Context, me int) {
	rng := rand.New(rand.NewPCG(uint64(me), 7))
	var mine []string
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("c%d-%d", me, i)
		if r.once(ctx, rng, key) {
			mine = append(mine, key)
		}
		if len(mine) > 0 && (len(mine) > 2 || rng.IntN(2) == 0) {
			if n := rng.IntN(len(mine)); r.release(ctx, mine[n]) {
				mine = slices.Delete(mine, n, n+1)
			}
		}
		sleep(ctx, time.Duration(rng.IntN(30))*time.Millisecond)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// once asks, and boots most of what it gets. True: something may be held under the key.
func (r *ruin) once(ctx context.Context, rng *rand.Rand, key string) bool {
	r.mayCall.RLock()
	defer r.mayCall.RUnlock()
	r.remember(key, false)
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	q := api.AdmissionRequest{Key: key, Class: []string{"small", "small", "large"}[rng.IntN(3)]}
	o := client.Options{Wait: client.Once}
	if rng.IntN(3) == 0 {
		q.Mode, o.Wait = api.WaitModeQueue, 300*time.Millisecond
	}
	a, err := r.client.Admit(ctx, q, o)
	if err != nil {
		r.count(err)
		return !errors.Is(err, api.PoolFull) && !errors.Is(err, api.NoCapacity)
	}
	r.admitted.Add(1)
	if rng.IntN(8) == 0 {
		return true // admitted, and its caller is gone
	}
	seconds := []string{"1000", "1000", "1000", "0.2"}[rng.IntN(4)]
	script := fmt.Sprintf(`echo "$ID $EPOCH %d $$ %s %s" >> %s; exec sleep %s`, a.MemoryMB, key, seconds, r.boots, seconds)
	if attached := rng.IntN(4) == 0; attached { // its caller hangs up in the middle, if nobody else does
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(200))*time.Millisecond)
		defer cancel()
		r.remember(key, true)
	}
	_, err = r.boot().Run(ctx, a.Ticket, boot.Command{
		Argv: []string{"/bin/sh", "-c", script}, Detach: !r.isReleased(key),
		Env: []string{"ID=" + a.ID, fmt.Sprintf("EPOCH=%d", a.Epoch), "PATH=/usr/bin:/bin"},
	}, io.Discard, io.Discard, nil)
	if err != nil {
		r.count(err)
	}
	return true
}

func (r *ruin) count(err error) {
	switch {
	case errors.Is(err, api.PoolFull):
		r.poolFull.Add(1)
	case errors.Is(err, api.NoCapacity):
		r.noRoom.Add(1)
	default:
		r.cut.Add(1)
	}
}

func (r *ruin) release(ctx context.Context, key string) bool {
	r.mayCall.RLock()
	defer r.mayCall.RUnlock()
	r.remember(key, true)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := r.client.Release(ctx, key)
	if err == nil || errors.Is(err, api.NotFound) {
		r.released.Add(1)
		return true
	}
	return false
}

// sandbox is a line of the boots: one that ran.
type sandbox struct {
	ID     string
	Epoch  int64
	Memory int64
	Pid    int
	Key    string
	Sleeps string // seconds
}

// booted lists every sandbox that ever ran.
func (r *ruin) booted() (all []sandbox) {
	text, err := os.ReadFile(r.boots)
	if err != nil && !os.IsNotExist(err) {
		r.t.Error(err)
	}
	for line := range strings.Lines(string(text)) {
		var s sandbox
		if _, err := fmt.Sscan(line, &s.ID, &s.Epoch, &s.Memory, &s.Pid, &s.Key, &s.Sleeps); err != nil {
			r.t.Errorf("%q: %v", line, err)
		}
		all = append(all, s)
	}
	return all
}

// alive says whether that very sandbox still runs, whoever may have its pid by now.
func (s sandbox) alive() bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.Pid))
	return err == nil && bytes.Contains(env, []byte("ID="+s.ID+"\x00"))
}

// live lists the sandboxes that run. All of them ran at one moment: the one when the list of
// boots was read.
func (r *ruin) live() []sandbox {
	return slices.DeleteFunc(r.booted(), func(s sandbox) bool { return !s.alive() })
}

func (r *ruin) killSandboxes() {
	for _, s := range r.live() {
		unix.Kill(s.Pid, unix.SIGKILL)
	}
}

// watch holds the cap, the host's memory and "booted once" against what really runs.
func (r *ruin) watch(ctx context.Context) {
	for ctx.Err() == nil {
		var memory int64
		live := r.live()
		for _, s := range live {
			memory += s.Memory
		}
		r.most.Store(max(r.most.Load(), int64(len(live))))
		if len(live) > theCap || memory > 1024-128 {
			r.t.Errorf("%d sandboxes of %d MiB run at once: %+v", len(live), memory, live)
			return
		}
		sleep(ctx, 10*time.Millisecond)
	}
}

// afterStart checks what a start makes of what the kill left.
func (r *ruin) afterStart(round int, before []sandbox) {
	r.t.Helper()
	for _, s := range before {
		if !s.alive() && s.Sleeps == "1000" && !r.isReleased(s.Key) {
			r.t.Errorf("round %d: %+v did not outlive the agent", round, s)
		}
	}
	r.becomes(fmt.Sprintf("round %d", round), r.agreed)
	seen := map[string]bool{}
	for _, s := range r.booted() {
		name := fmt.Sprint(s.ID, " ", s.Epoch)
		if seen[name] {
			r.t.Errorf("round %d: %s ran twice", round, name)
		}
		seen[name] = true
	}
}

// agreed says how rows, host and processes differ, or "". Callers are at rest.
func (r *ruin) agreed() string {
	ctx := within(r.t, 5*time.Second)
	live := map[string]bool{}
	for _, s := range r.live() {
		live[s.ID] = true
	}
	running, err := r.client.Admissions(ctx, api.ListAdmissionsParams{State: api.AdmissionStateRunning})
	if err != nil {
		return err.Error()
	}
	for _, a := range running.Admissions {
		if !live[a.ID] {
			return fmt.Sprintf("%s is running and has no process", a.ID)
		}
		delete(live, a.ID)
	}
	if len(live) > 0 {
		return fmt.Sprintf("%v run and are not so on record", live)
	}
	h, err := r.client.Host(ctx, "h1")
	if err != nil {
		return err.Error()
	}
	if len(h.Sandboxes) != len(running.Admissions) {
		return fmt.Sprintf("the host charges %d sandboxes, %d run", len(h.Sandboxes), len(running.Admissions))
	}
	pools, err := r.client.Pools(ctx)
	if err != nil {
		return err.Error()
	}
	if p := pools.Pools[0]; p.Busy > theCap || p.Busy < int64(len(running.Admissions)) {
		return fmt.Sprintf("the pool holds %d of %d, %d run", p.Busy, theCap, len(running.Admissions))
	}
	return ""
}

// allOver releases everything that was ever asked for: then nothing may be left.
func (r *ruin) allOver() {
	r.t.Helper()
	var all sync.WaitGroup
	gate := make(chan struct{}, 8)
	for key := range r.keys {
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			_, err := r.client.Release(within(r.t, 20*time.Second), key)
			if err != nil && !errors.Is(err, api.NotFound) {
				r.t.Errorf("release %s: %v", key, err)
			}
		})
	}
	all.Wait()
	r.becomes("in the end", r.left)
	if live := r.live(); len(live) > 0 {
		r.t.Errorf("still run: %+v", live)
	}
	for _, h := range r.hierarchies() {
		entries, err := os.ReadDir(h.Dir(r.parent))
		for _, e := range entries {
			if e.IsDir() {
				r.t.Errorf("cgroup %s is left (%v)", e.Name(), err)
			}
		}
	}
}

// becomes waits until nothing is wrong any more.
func (r *ruin) becomes(when string, wrong func() string) {
	r.t.Helper()
	deadline, why := time.Now().Add(20*time.Second), ""
	for why = wrong(); why != "" && time.Now().Before(deadline); why = wrong() {
		time.Sleep(10 * time.Millisecond)
	}
	if why != "" {
		r.t.Errorf("%s: %s", when, why)
	}
}

// left says what is still held, or "".
func (r *ruin) left() string {
	ctx := within(r.t, 5*time.Second)
	h, err := r.client.Host(ctx, "h1")
	if err != nil {
		return err.Error()
	}
	pools, err := r.client.Pools(ctx)
	if err != nil {
		return err.Error()
	}
	p := pools.Pools[0]
	if h.Reservations != 0 || h.ReservedMB != 0 || len(h.Sandboxes) != 0 || h.AdmittableMB != 1024-128 || p.Busy != 0 || p.Waiting != 0 {
		return fmt.Sprintf("%d reservations of %d MiB, %d sandboxes, %d MiB admittable, %d busy, %d waiting",
			h.Reservations, h.ReservedMB, len(h.Sandboxes), h.AdmittableMB, p.Busy, p.Waiting)
	}
	return ""
}
