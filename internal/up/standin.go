package up

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/standin"
)

// standIns are the hosts of one process, each with a ledger, and an endpoint of its own that
// replicas dial as they do an agent's.
type standIns struct {
	Options
	hosts *standin.Hosts

	mu     sync.Mutex              // guards agents
	agents map[string]*agent.Agent // host -> its ledger of this life
}

// RunStandIn stands in for hosts that cannot run an agent, until ctx ends.
func RunStandIn(ctx context.Context, o Options) error {
	local := &o.File.Local
	switch {
	case local.StandIn == nil || len(local.StandIn.Hosts) == 0:
		return unfit("stand_in.hosts is empty, so there is no host to stand in for", "name their ids there")
	case !local.HasReplicas():
		return unfit("agent.replicas is empty, and a stand-in is there for replicas alone", "name their addresses there")
	case local.Host == nil:
		local.Host = config.Default("").Local.Host
	}
	s := &standIns{Options: o, hosts: standin.New(local.Host.Mode, local.StandIn.Hosts), agents: map[string]*agent.Agent{}}
	identity, err := identityOf(local)
	if err != nil {
		return cli.NotValid(err)
	}
	token, err := reportsToken(local)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", local.StandIn.Listen)
	if err != nil {
		return cli.NotValid(fmt.Errorf("listen for reports: %w; choose another address with stand_in.listen", err))
	}
	parts, over := errgroup.WithContext(ctx)
	for i, id := range local.StandIn.Hosts {
		parts.Go(func() error { return s.runHost(over, i, id) })
	}
	parts.Go(func() error { return s.serve(over, listener, identity, token) })
	fmt.Fprintf(o.Out, "plimsoll %s stands in for %d hosts\n\n  reports   POST http%s://%s/v1/reports, with the token in %s\n  replicas  %v\n\n%s\n\n",
		o.Version, len(local.StandIn.Hosts), secure(identity), listener.Addr(), reportsTokenFile(local), local.Agent.Replicas, standin.Limits)
	return parts.Wait()
}

func secure(identity *tls.Config) string {
	if identity != nil {
		return "s"
	}
	return ""
}

func reportsTokenFile(local *config.Local) string {
	return cmp.Or(local.StandIn.TokenFile, filepath.Join(local.DataDir, "reports_token"))
}

// reportsToken is what hosts send with their reports: as stated, else made once.
func reportsToken(local *config.Local) (sum [32]byte, err error) {
	path := reportsTokenFile(local)
	data, err := readOrMake(path, func() ([]byte, error) { return []byte("plr_" + rand.Text() + "\n"), nil })
	if err != nil {
		return sum, err
	}
	text := strings.TrimSpace(string(data))
	if len(text) < 16 {
		return sum, unfit("the token in "+path+" is too short to be one", "put 16 characters or more into it")
	}
	return sha256.Sum256([]byte(text)), nil
}

// runHost keeps one host's ledger, as RunAgent does this machine's.
func (s *standIns) runHost(ctx context.Context, i int, id string) error {
	o := s.Options
	file, err := s.fileOf(i, id)
	if err != nil {
		return err
	}
	o.File, o.Log = file, s.Log.With("stands_in_for", id)
	return runLives(ctx, o, s.hosts.Host(id), func(a *agent.Agent) { s.made(id, a) })
}

// fileOf is the configuration of one host: a data directory and a port of its own.
func (s *standIns) fileOf(i int, id string) (*config.File, error) {
	file := *s.File
	h, a := *s.File.Local.Host, *s.File.Local.Agent
	h.ID = id
	var err error
	if a.Listen, err = portAfter(a.Listen, i); err != nil {
		return nil, err
	}
	if a.Advertise != "" {
		if a.Advertise, err = portAfter(a.Advertise, i); err != nil {
			return nil, err
		}
	}
	file.Local.DataDir = filepath.Join(s.File.Local.DataDir, "hosts", id)
	a.JoinTokenFile = filepath.Join(file.Local.DataDir, "join_token")
	file.Local.Host, file.Local.Agent = &h, &a
	return &file, nil
}

// portAfter is the address of the i-th host: the stated port and those that follow it.
func portAfter(address string, i int) (string, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(port)
	if err != nil || n != 0 && n+i > 65535 {
		return "", fmt.Errorf("%s leaves no ports for all of stand_in.hosts; choose a lower one", address)
	}
	if n != 0 {
		n += i
	}
	return net.JoinHostPort(name, strconv.Itoa(n)), nil
}

func (s *standIns) made(id string, a *agent.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.agents[id] = a
}

// taken lets a report count at once; else its host's next sample would.
func (s *standIns) taken(ctx context.Context, h *standin.Host) {
	s.mu.Lock()
	a := s.agents[h.ID]
	s.mu.Unlock()
	if a == nil {
		return
	}
	if sample, err := h.Sample(time.Now()); err == nil {
		a.Do(ctx, sample)
	}
}

func (s *standIns) serve(ctx context.Context, l net.Listener, identity *tls.Config, token [32]byte) error {
	reports := &standin.Server{Hosts: s.hosts, IDs: s.File.Local.StandIn.Hosts, Token: token, Taken: s.taken, Now: time.Now}
	server := &http.Server{Handler: reports.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second}
	if identity != nil {
		l = tls.NewListener(l, &tls.Config{Certificates: identity.Certificates, MinVersion: tls.VersionTLS13})
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve reports: %w", err)
	}
	return nil
}

// standInFor changes what an agent of this machine would be into one of a host elsewhere.
func (j *joined) standInFor(c *agent.Config) {
	c.Driver, c.Budget, c.ReserveGroup = nil, 0, nil
	c.Host.Headroom = standin.Headroom
	c.Host.CPUMilli = 0        // its cores are its own; they score nothing
	c.Host.MaxStarts = 1 << 20 // nobody here sees a start
	c.SampleLimits = sampleReports
	c.Measure = func() (host.Sample, error) { return j.standIn.Sample(time.Now()) }
}

// sampleReports is how soon a report that grew stale is found so.
const sampleReports = time.Second
