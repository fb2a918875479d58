package bench

import (
	"bufio"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/link"
	"github.com/plimsoll-project/plimsoll/registry"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// FleetOptions are a run's settings; the zero value takes every default.
type FleetOptions struct {
	Hosts int           // 10,000
	Every time.Duration // each host's verdict moves so often; 10 s
	For   time.Duration // measured; 30 s
	Store string        // sqlite, or a connection string of PostgreSQL

	settle time.Duration // from the last host's first word to the measurement, with Every
}

// FleetResult is what plimsoll bench fleet prints: of this process, which is the replica. Its
// hosts are in another.
type FleetResult struct {
	Hosts        int     `json:"hosts"`
	CPUPercent   float64 `json:"cpu_percent"` // of one core
	VerdictsPerS float64 `json:"verdicts_per_s"`
	BytesPerHost int64   `json:"bytes_per_host"` // heap and stacks
	HeapPerHost  int64   `json:"heap_per_host"`
	StackPerHost int64   `json:"stack_per_host"`
	RSSBytes     int64   `json:"rss_bytes"`
	Goroutines   int     `json:"goroutines"`
	FirstYesMS   int64   `json:"first_yes_ms"`    // cold start to the first create that is placed
	AllHeardMS   int64   `json:"all_heard_ms"`    // cold start to a word of every host: from then on a no is right
	HeartbeatMS  int64   `json:"heartbeat_ms"`    // what that is held against
	WordsLate    int64   `json:"hosts_not_heard"` // at the end of the run; 0
}

// Fleet measures what a replica spends on hearing many hosts.
func Fleet(ctx context.Context, o FleetOptions) (r FleetResult, err error) {
	ctx, end := context.WithCancel(ctx)
	parts, ctx := errgroup.WithContext(ctx)
	f := &fleet{FleetOptions: o, parts: parts}
	defer func() {
		end()
		failed := parts.Wait()
		if errors.Is(failed, context.Canceled) {
			failed = nil
		}
		err = errors.Join(err, failed, f.remove())
	}()
	if err := f.prepare(ctx); err != nil {
		return r, err
	}
	return f.measure(ctx)
}

// fleet is one run.
type fleet struct {
	FleetOptions
	parts    *errgroup.Group
	store    scratchStore
	clean    func() error
	ring     ticket.Keyring
	hosts    *exec.Cmd
	input    io.Closer // of the process with the hosts, which ends with it
	verdicts atomic.Int64
}

func (f *fleet) remove() (err error) {
	if f.input != nil {
		f.input.Close()
		err = f.hosts.Wait()
	}
	if f.store.Store != nil {
		err = errors.Join(err, f.store.Close(), f.clean())
	}
	return err
}

// prepare makes the store, starts the hosts and has them registered.
func (f *fleet) prepare(ctx context.Context) (err error) {
	if f.store, f.clean, err = scratch(ctx, f.Store); err != nil {
		return err
	}
	f.parts.Go(func() error { return f.store.Run(ctx) })
	document := fleetOf("host")
	parsed, err := config.ParseFleet("bench", []byte(document))
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if _, _, err := f.store.Apply(ctx, control.Config{Document: document, By: "bench"}, parsed.Settings()); err != nil {
		return err
	}
	order := fleetOrder{Hosts: f.Hosts, Every: f.Every, Secret: make([]byte, ticket.MinSecret)}
	crand.Read(order.Secret)
	if f.ring, err = order.ring(); err != nil {
		return err
	}
	address, err := f.startHosts(&order)
	if err != nil {
		return err
	}
	return f.register(ctx, address)
}

// startHosts runs this program again, as the other process.
func (f *fleet) startHosts(order *fleetOrder) (address string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	f.hosts = exec.Command(self, "bench", hostsWord)
	f.hosts.Stderr = os.Stderr
	in, err := f.hosts.StdinPipe()
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	out, err := f.hosts.StdoutPipe()
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	if err := f.hosts.Start(); err != nil {
		return "", fmt.Errorf("bench: start the process with the hosts: %w", err)
	}
	f.input = in
	if err := json.NewEncoder(in).Encode(order); err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("bench: the process with the hosts said nothing: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// register enters every host into the registry, as its agent would.
func (f *fleet) register(ctx context.Context, address string) error {
	some, ctx := errgroup.WithContext(ctx)
	some.SetLimit(128)
	for i := range f.Hosts {
		some.Go(func() error {
			id := fleetHostID(i)
			secret := sha256.Sum256([]byte(id))
			if _, err := f.store.IssueJoin(ctx, registry.Token{ID: id, Digest: secret, Host: id, By: "bench"}, time.Hour); err != nil {
				return err
			}
			entry, err := f.store.Join(ctx, registry.Join{Token: secret, Host: id, Endpoint: address, Credential: secret})
			if err == nil && entry != registry.Entered {
				err = fmt.Errorf("bench: host %s was not registered: %s", id, entry)
			}
			return err
		})
	}
	return some.Wait()
}

// heard counts the verdicts that hosts send unasked.
type heard struct {
	control.Conn
	verdicts *atomic.Int64
}

func (c heard) Next(ctx context.Context) (host.News, error) {
	n, err := c.Conn.Next(ctx)
	c.verdicts.Add(1)
	return n, err
}

// counting has its connections counted.
type counting struct {
	control.Dialer
	verdicts *atomic.Int64
}

func (d counting) Dial(ctx context.Context, h control.RegisteredHost) (control.Conn, error) {
	c, err := d.Dialer.Dial(ctx, h)
	if err != nil {
		return nil, err
	}
	return heard{c, d.verdicts}, nil
}

// heartbeat is how often an agent says its word in any case.
const heartbeat = 10 * time.Second

// measure starts the replica, cold, and watches it.
func (f *fleet) measure(ctx context.Context) (FleetResult, error) {
	r := FleetResult{Hosts: f.Hosts, HeartbeatMS: heartbeat.Milliseconds()}
	before := memory()
	began := time.Now()
	g, who, err := f.startReplica(ctx)
	if err != nil {
		return r, err
	}
	if err := f.awaitWords(ctx, g, who, began, &r); err != nil {
		return r, err
	}
	wait(ctx, f.settle+f.Every) // until what the start left behind is done
	verdicts, cpu, then := f.verdicts.Load(), processorTime(), time.Now()
	wait(ctx, f.For)
	took := time.Since(then)
	r.CPUPercent = 100 * float64(processorTime()-cpu) / float64(took)
	r.VerdictsPerS = float64(f.verdicts.Load()-verdicts) / took.Seconds()
	after := memory()
	r.HeapPerHost = (after.heap - before.heap) / int64(f.Hosts)
	r.StackPerHost = (after.stack - before.stack) / int64(f.Hosts)
	r.BytesPerHost, r.RSSBytes, r.Goroutines = r.HeapPerHost+r.StackPerHost, residentBytes(), runtime.NumGoroutine()
	r.WordsLate = int64(f.Hosts - g.Heard())
	return r, ctx.Err()
}

func (f *fleet) startReplica(ctx context.Context) (*control.Gateway, *config.Consumer, error) {
	started, log := time.Now(), slog.New(slog.DiscardHandler)
	g, err := control.New(control.Options{
		Store: f.store, Keys: f.ring, Passage: admission.DefaultConfig(), Metrics: control.NewMetrics(prometheus.NewRegistry()), Log: log,
		Self: "replica", Now: func() time.Duration { return time.Since(started) }, Wall: time.Now, Rand: rand.Uint64,
	})
	if err == nil {
		err = g.Load(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	who, ok := g.Authenticate(sha256.Sum256([]byte(benchToken)))
	if !ok {
		return nil, nil, errors.New("bench: the replica does not know its caller")
	}
	dialer := link.NewDialer(link.DialerOptions{
		Replica: "replica", Version: "bench", Keys: f.ring, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	f.parts.Go(func() error { g.SweepUntil(ctx); return nil })
	f.parts.Go(func() error { g.PulseUntil(ctx); return nil })
	f.parts.Go(func() error { g.KeepUntil(ctx); return nil })
	f.parts.Go(func() error { g.CompareUntil(ctx); return nil })
	f.parts.Go(func() error { g.Follow(ctx, counting{dialer, &f.verdicts}); return nil })
	return g, who, nil
}

// awaitWords asks from the first moment on, and notes when the first create is placed and
// when every host was heard.
func (f *fleet) awaitWords(ctx context.Context, g *control.Gateway, who *config.Consumer, began time.Time, r *FleetResult) error {
	for n := 0; ctx.Err() == nil && time.Since(began) < 5*time.Minute; n++ {
		if r.FirstYesMS == 0 {
			if _, err := g.Admit(ctx, who, api.AdmissionRequest{Key: fmt.Sprint("first-", n), Class: "bench"}); err == nil {
				r.FirstYesMS = max(time.Since(began).Milliseconds(), 1)
			}
		}
		if g.Heard() == f.Hosts {
			r.AllHeardMS = time.Since(began).Milliseconds()
			return nil
		}
		wait(ctx, 5*time.Millisecond)
	}
	return errors.Join(ctx.Err(), fmt.Errorf("bench: only %d of %d hosts are heard", g.Heard(), f.Hosts))
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// sizes are what a process holds.
type sizes struct{ heap, stack int64 }

func memory() sizes {
	runtime.GC()
	runtime.GC() // what the first one only found
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return sizes{int64(m.HeapAlloc), int64(m.StackInuse)}
}

func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	var size, resident int64
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}

func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Print writes the result as a table for people.
func (r FleetResult) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "hosts on one replica\t%d\n", r.Hosts)
	fmt.Fprintf(t, "verdicts\t%.0f a second\n", r.VerdictsPerS)
	fmt.Fprintf(t, "processor time\t%.1f %% of a core\n", r.CPUPercent)
	fmt.Fprintf(t, "memory of a host\t%d bytes: %d of heap, %d of stacks\n", r.BytesPerHost, r.HeapPerHost, r.StackPerHost)
	fmt.Fprintf(t, "resident in all\t%.0f MiB, %d goroutines\n", float64(r.RSSBytes)/(1<<20), r.Goroutines)
	fmt.Fprintf(t, "cold start to the first yes\t%d ms\n", r.FirstYesMS)
	fmt.Fprintf(t, "cold start to every host's word\t%d ms, of a heartbeat of %d ms\n", r.AllHeardMS, r.HeartbeatMS)
	fmt.Fprintf(t, "hosts not heard at the end\t%d\n", r.WordsLate)
	return t.Flush()
}
