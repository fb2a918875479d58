package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/link"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// fleetOrder is what the process with the hosts is told, on its standard input: a line.
type fleetOrder struct {
	Hosts  int           `json:"hosts"`
	Every  time.Duration `json:"every_ns"` // each host's verdict moves so often
	Secret []byte        `json:"secret"`   // of the ticket root
}

func (o *fleetOrder) ring() (ticket.Keyring, error) {
	root, err := ticket.NewRoot("bench", ticket.Signing, o.Secret)
	if err != nil {
		return ticket.Keyring{}, err
	}
	return ticket.NewKeyring(root)
}

func fleetHostID(i int) string { return fmt.Sprintf("host-%05d", i) }

const (
	fleetLife   = 1             // the incarnation of every host
	fleetMemory = 64 * gate.GiB // of each
)

// Hosts is the other process of Fleet: many hosts behind the real end of an agent's streams,
// at one address, which it prints. Each is a real host without a machine: its memory moves by
// a GiB as often as is said. It ends with its input.
func Hosts(ctx context.Context, in io.Reader, out io.Writer) error {
	var o fleetOrder
	input := json.NewDecoder(in)
	if err := input.Decode(&o); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	dir, err := os.MkdirTemp("", "plimsoll-bench-")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	hosts, crowd, err := makeHosts(&o, dir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	fmt.Fprintln(out, l.Addr())
	ctx, end := context.WithCancel(ctx)
	defer end()
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return crowd.Serve(ctx, l) })
	parts.Go(func() error { move(ctx, hosts, o.Every); return nil })
	parts.Go(func() error {
		var over any
		input.Decode(&over) // until there is no more
		end()
		return nil
	})
	return parts.Wait()
}

func makeHosts(o *fleetOrder, dir string) ([]*fleetHost, *link.Crowd, error) {
	ring, err := o.ring()
	if err != nil {
		return nil, nil, err
	}
	var hosts []*fleetHost
	var servers []*link.Server
	for i := range o.Hosts {
		h := newFleetHost(fleetHostID(i))
		path := filepath.Join(dir, h.id)
		own, err := ring.Audience(h.id)
		if err != nil {
			return nil, nil, err
		}
		file, err := own.EncodeFile()
		if err == nil {
			err = os.WriteFile(path, file, 0o600)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("bench: %w", err)
		}
		keys, err := link.OpenKeys(path, h.id, func(ticket.AudienceKeys) {}, time.Now)
		if err != nil {
			return nil, nil, err
		}
		hosts = append(hosts, h)
		servers = append(servers, link.NewServer(link.ServerOptions{Host: h, Keys: keys, Version: "bench", Log: slog.New(slog.DiscardHandler)}))
	}
	return hosts, link.NewCrowd(servers[0], servers[1:]...), nil
}

// move has each host's memory move as often as is said, all of them evenly over that time.
func move(ctx context.Context, hosts []*fleetHost, every time.Duration) {
	began, moved := time.Now(), 0
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for due := int(float64(time.Since(began)) / float64(every) * float64(len(hosts))); moved < due; moved++ {
			hosts[moved%len(hosts)].moves(moved / len(hosts))
		}
	}
}

// fleetHost is a real host without a machine. It answers at once, on the goroutine that asks.
type fleetHost struct {
	id    string
	began time.Time

	mu    sync.Mutex // guards what follows
	host  *host.Host
	feeds map[*agent.Feed]bool
}

func newFleetHost(id string) *fleetHost {
	cfg := host.DefaultConfig(id, 16)
	h := &fleetHost{id: id, began: time.Now(), host: host.New(cfg, fleetLife), feeds: map[*agent.Feed]bool{}}
	h.sample(0)
	return h
}

func (h *fleetHost) sample(used gate.Bytes) host.Effects {
	return h.host.Step(time.Since(h.began), host.Sample{
		Limits: []gate.Limit{{Name: "machine", Size: fleetMemory, Used: used}}, Full: true, Sandboxes: []host.Resident{},
	})
}

// moves takes another sample and tells every replica.
func (h *fleetHost) moves(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sample(gate.Bytes(1+n%2) * gate.GiB)
	for f := range h.feeds {
		f.Tell(host.News{Verdict: h.host.Verdict()})
	}
}

func (h *fleetHost) ID() string         { return h.id }
func (h *fleetHost) Incarnation() int64 { return fleetLife }

func (h *fleetHost) Post(_ context.Context, tag uint64, ev host.Event, back chan<- agent.Reply) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	fx := h.host.Step(time.Since(h.began), ev)
	back <- agent.Reply{Tag: tag, Answer: fx.Answer}
	return nil
}

func (h *fleetHost) PostLook(_ context.Context, tag uint64, _ bool, look func(*host.Host), back chan<- agent.Reply) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	look(h.host)
	back <- agent.Reply{Tag: tag}
	return nil
}

func (h *fleetHost) Subscribe() *agent.Feed {
	f := agent.NewFeed()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.feeds[f] = true
	f.Tell(host.News{Verdict: h.host.Verdict()})
	return f
}

func (h *fleetHost) Unsubscribe(f *agent.Feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.feeds, f)
}

func (h *fleetHost) OutOfGate(*host.Held) []host.Stray { return nil }

func (h *fleetHost) Clear(context.Context, string) error { return nil }

var _ link.Host = (*fleetHost)(nil)
