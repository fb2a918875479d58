package bench

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/control"
	"github.com/plimsoll-project/plimsoll/internal/driver"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/link"
	"github.com/plimsoll-project/plimsoll/internal/web"
	"github.com/plimsoll-project/plimsoll/registry"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// stage is a whole fleet in this process: a store in a scratch database, agents behind their
// streams, and replicas behind HTTP, all on loopback.
type stage struct {
	store     scratchStore
	ring      ticket.Keyring
	dir       string
	clean     func() error // the database
	agents    []control.RegisteredHost
	addresses []string // of the replicas' APIs
	reserves  atomic.Int64
}

const benchToken = "bench-admit"

// fleetOf is a fleet with one class, which bounds nothing: what is measured is the way.
func fleetOf(record string) string {
	return fmt.Sprintf(`
pools: [{name: bench, cap: none}]
classes: [{name: bench, pool: bench, memory: 512MiB, reserve_floor: 64MiB, record: %s}]
default_quota: none
consumers: [{name: bench, token_sha256: ["%x"]}]
`, record, sha256.Sum256([]byte(benchToken)))
}

func newStage(ctx context.Context, parts *errgroup.Group, o AdmitOptions) (*stage, error) {
	s := new(stage)
	var err error
	if s.dir, err = os.MkdirTemp("", "plimsoll-bench-"); err != nil {
		return s, fmt.Errorf("bench: %w", err)
	}
	if s.store, s.clean, err = scratch(ctx, o.Store); err != nil {
		return s, err
	}
	parts.Go(func() error { return s.store.Run(ctx) })
	if err := s.configure(ctx, o.Record); err != nil {
		return s, err
	}
	machine, err := s.machine()
	if err != nil {
		return s, err
	}
	for i := range o.Agents {
		if err := s.startAgent(ctx, parts, machine, fmt.Sprintf("host-%d", i+1)); err != nil {
			return s, err
		}
	}
	for i := range o.Replicas {
		if err := s.startReplica(ctx, parts, fmt.Sprintf("replica-%d", i+1)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// remove takes away whatever there is of it, once all parts have ended.
func (s *stage) remove() (err error) {
	if s.store.Store != nil {
		err = errors.Join(s.store.Close(), s.clean())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *stage) configure(ctx context.Context, record string) error {
	document := fleetOf(record)
	fleet, err := config.ParseFleet("bench", []byte(document))
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if _, _, err := s.store.Apply(ctx, control.Config{Document: document, By: "bench"}, fleet.Settings()); err != nil {
		return err
	}
	secret := make([]byte, ticket.MinSecret)
	crand.Read(secret)
	root, err := ticket.NewRoot("bench", ticket.Signing, secret)
	if err == nil {
		s.ring, err = ticket.NewKeyring(root)
	}
	return err
}

// machine is one with a stated budget instead of measured limits: 32 TiB, so that no run
// fills it. Everything else of an agent is as it is.
func (s *stage) machine() (*hostmem.Machine, error) {
	root := filepath.Join(s.dir, "root")
	const budgetKB = 32 << 30
	for name, text := range map[string]string{
		"proc/self/mountinfo":            "",
		"proc/self/cgroup":               "",
		"proc/meminfo":                   fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\nMemAvailable: %d kB\n", budgetKB, budgetKB, budgetKB),
		"proc/sys/kernel/random/boot_id": "6f1d2c3b-0000-4000-8000-000000000001\n",
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	return hostmem.Discover(root)
}

func (s *stage) startAgent(ctx context.Context, parts *errgroup.Group, machine *hostmem.Machine, id string) error {
	dir := filepath.Join(s.dir, id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	own, err := s.ring.Audience(id)
	if err != nil {
		return err
	}
	boots, err := driver.New(driver.Config{Machine: machine, Parent: "plimsoll/" + id, Dir: filepath.Join(dir, "logs")})
	if err != nil {
		return err
	}
	cfg := host.DefaultConfig(id, 4)
	cfg.MaxStarts = 1 << 30
	a, err := agent.New(ctx, agent.Config{
		Host: cfg, Dir: dir, Socket: filepath.Join(dir, "agent.sock"), Machine: machine, Driver: boots, Keys: own,
		SampleLimits: 50 * time.Millisecond, SampleSandboxes: time.Second, Register: s.store.Register, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	file, err := own.EncodeFile()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "keys.json"), file, 0o600)
	}
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	keys, err := link.OpenKeys(filepath.Join(dir, "keys.json"), id, a.SetKeys, time.Now)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	server := link.NewServer(link.ServerOptions{Host: a, Keys: keys, Version: "bench", Log: slog.New(slog.DiscardHandler)})
	parts.Go(func() error { return a.Run(ctx) })
	parts.Go(func() error { return server.Serve(ctx, l) })
	s.agents = append(s.agents, control.RegisteredHost{ID: id, Endpoint: l.Addr().String(), State: registry.Active})
	return nil
}

// counted counts the questions for a reservation.
type counted struct {
	control.Conn
	reserves *atomic.Int64
}

func (c counted) Do(ctx context.Context, ev host.Event) (host.Answer, error) {
	if _, ok := ev.(host.Reserve); ok {
		c.reserves.Add(1)
	}
	return c.Conn.Do(ctx, ev)
}

// DoAll implements control.Choir.
func (c counted) DoAll(ctx context.Context, events []host.Event) []control.Said {
	for _, ev := range events {
		if _, ok := ev.(host.Reserve); ok {
			c.reserves.Add(1)
		}
	}
	return c.Conn.(control.Choir).DoAll(ctx, events)
}

func (s *stage) startReplica(ctx context.Context, parts *errgroup.Group, id string) error {
	started, metrics := time.Now(), prometheus.NewRegistry()
	log := slog.New(slog.DiscardHandler)
	g, err := control.New(control.Options{
		Store: s.store, Keys: s.ring, Passage: admission.DefaultConfig(), Metrics: control.NewMetrics(metrics), Log: log, Self: id,
		Now: func() time.Duration { return time.Since(started) }, Wall: time.Now, Rand: rand.Uint64,
	})
	if err == nil {
		err = g.Load(ctx)
	}
	if err != nil {
		return err
	}
	dialer := link.NewDialer(link.DialerOptions{
		Replica: id, Version: "bench", Keys: s.ring, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	for _, h := range s.agents {
		c, err := dialer.Dial(ctx, h)
		if err != nil {
			return err
		}
		counting := counted{c, &s.reserves}
		parts.Go(func() error {
			defer c.Close()
			return g.Attach(ctx, counting, c)
		})
	}
	parts.Go(func() error { g.SweepUntil(ctx); return nil })
	parts.Go(func() error { g.PulseUntil(ctx); return nil })
	parts.Go(func() error { g.KeepUntil(ctx); return nil })
	parts.Go(func() error { g.CompareUntil(ctx); return nil })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	server := &http.Server{Handler: (&web.Server{Gateway: g, Metrics: metrics, Log: log}).Handler()}
	context.AfterFunc(ctx, func() { server.Close() })
	parts.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	s.addresses = append(s.addresses, l.Addr().String())
	return s.awaitHosts(ctx, g)
}

// awaitHosts returns when every host has told what it can promise.
func (s *stage) awaitHosts(ctx context.Context, g *control.Gateway) error {
	for range 1000 {
		list, err := g.Hosts(ctx)
		if err != nil {
			return err
		}
		open := 0
		for _, h := range list.Hosts {
			if h.HeardMSAgo != nil && h.AdmittableMB > 0 {
				open++
			}
		}
		if open == len(s.agents) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("bench: the agents did not come up within 10 s")
}
