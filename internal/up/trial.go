package up

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/child"
	"github.com/plimsoll-project/plimsoll/internal/cli"
	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/discover"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/keyring"
	"github.com/plimsoll-project/plimsoll/internal/store/postgres"
)

// Trial is a whole fleet on one machine, to try: replicas and agents, each a process of this
// binary with a data directory of its own below ours. They end with this one.
type Trial struct {
	Options
	Agents, Replicas int

	self     string     // this binary
	share    gate.Bytes // each agent's budget
	lock     *os.File
	replicas []*member
	agents   []*member
}

// member is one process of a trial.
type member struct {
	name    string
	dir     string
	process *child.Child
	note    discover.Note
}

const (
	mostMembers    = 64
	memberUpWithin = time.Minute
)

// Run brings the fleet up and keeps it until ctx ends. One that is killed stays away, and the
// others go on: that is what there is to try.
func (t *Trial) Run(ctx context.Context) error {
	defer t.stop()
	err := t.bringUp(ctx)
	if err == nil {
		err = t.watch(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (t *Trial) bringUp(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	for i := range t.Replicas {
		if err := t.startReplica(i + 1); err != nil {
			return err
		}
	}
	for _, m := range t.replicas {
		if err := t.await(ctx, m, func() bool { return m.noted() && m.note.URL != "" }); err != nil {
			return err
		}
	}
	for i := range t.Agents {
		if err := t.startAgent(ctx, i+1); err != nil {
			return err
		}
	}
	for _, m := range t.agents {
		if err := t.await(ctx, m, m.noted); err != nil {
			return err
		}
	}
	for _, m := range t.replicas {
		if err := t.await(ctx, m, func() bool { return t.heard(ctx, m) == t.Agents }); err != nil {
			return err
		}
	}
	return t.announce()
}

// prepare makes what all of them share: a directory, ticket keys, a store that is up to date.
func (t *Trial) prepare(ctx context.Context) (err error) {
	local := &t.File.Local
	_, shared := local.PostgresURL()
	switch {
	case t.Agents < 1 || t.Agents > mostMembers || t.Replicas < 1 || t.Replicas > mostMembers:
		return &cli.Failure{Status: cli.ExitUsage, Err: fmt.Errorf("--agents and --replicas: write 1 to %d of each", mostMembers)}
	case t.Replicas > 1 && !shared:
		return &cli.Failure{
			Status: cli.ExitUsage, Err: errors.New("--replicas: SQLite is one replica's alone"),
			Try: "name a PostgreSQL with --store postgres://user@host/database, or leave --replicas out",
		}
	}
	if t.self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	if t.lock, err = takeDir(local.DataDir); err != nil {
		return err
	}
	if _, err := keyring.Create(local.KeysFile(), time.Now()); err != nil {
		return err
	}
	if t.share, err = t.budget(); err != nil {
		return err
	}
	if err := t.settle(); err != nil {
		return err
	}
	if !shared {
		return nil
	}
	url, _ := local.PostgresURL()
	if _, err := postgres.Migrate(ctx, url); err != nil {
		return fmt.Errorf("bring the store up to date: %w", err)
	}
	return nil
}

// settle gives a fleet without a configuration one whose classes suit hosts of this size.
func (t *Trial) settle() error {
	if t.Path != "" {
		return nil
	}
	t.Path = filepath.Join(t.File.Local.DataDir, "fleet.yaml")
	small := max(t.share.FloorMiB()/16, 16)
	data, err := readOrMake(t.Path, func() ([]byte, error) {
		return fmt.Appendf(nil, trialFleet, small, 4*small, 2*small), nil
	})
	if err != nil {
		return err
	}
	file, err := config.Parse(t.Path, data)
	if err != nil {
		return err
	}
	t.File.Fleet, t.File.FleetDocument = file.Fleet, file.FleetDocument
	return nil
}

const trialFleet = `# Made by plimsoll up --agents for a fleet to try. It counts at the first start only: later
# plimsoll config apply changes what is in force.
fleet:
  default_quota: none
  pools: [{name: default, cap: none}]
  classes:
    - {name: small, pool: default, memory: %dMiB, reserve_floor: 16MiB}
    - {name: medium, pool: default, memory: %dMiB, reserve_floor: 16MiB}
    - {name: database, pool: default, memory: %dMiB, stateful: true}
`

// budget is an equal share of four fifths of what the machine has to give now.
func (t *Trial) budget() (gate.Bytes, error) {
	machine, err := hostmem.Discover("/")
	if err != nil {
		return 0, err
	}
	limits, err := machine.Limits(machine.Own())
	if err != nil {
		return 0, err
	}
	room := t.File.Local.Host.Budget // of the file or the environment: of all together
	for _, l := range limits {
		if left := (l.Size - l.Used) / 5 * 4; room == 0 || left < room {
			room = left
		}
	}
	share := gate.FromMiB((room / gate.Bytes(t.Agents)).FloorMiB())
	if share < leastBudget {
		return 0, unfit(fmt.Sprintf("%d agents would have %s each, and less than %s is no host", t.Agents, share, leastBudget), "bring up fewer with --agents")
	}
	return share, nil
}

// What an agent of the trial has at least, and what it never promises of that: as much as lasts
// from one sample to the next.
const (
	leastBudget   = 256 * gate.MiB
	leastHeadroom = 128 * gate.MiB
	mostHeadroom  = 256 * gate.MiB
)

// environment is ours, but for what each of them has of its own.
func (t *Trial) environment(own ...string) []string {
	taken := []string{"PLIMSOLL_DATA_DIR=", "PLIMSOLL_LISTEN=", "PLIMSOLL_ADVERTISE=", "PLIMSOLL_REPLICA_ID=", "PLIMSOLL_STORE=", "PLIMSOLL_KEYS=", "PLIMSOLL_AGENT_"}
	for _, name := range []string{"ID", "BUDGET", "HEADROOM", "SOCKET", "CGROUP_PARENT"} {
		taken = append(taken, "PLIMSOLL_HOST_"+name+"=")
	}
	env := own
	for _, e := range os.Environ() {
		mine := false
		for _, prefix := range taken {
			mine = mine || strings.HasPrefix(e, prefix)
		}
		if !mine {
			env = append(env, e)
		}
	}
	return env
}

func (t *Trial) start(m *member, verb string, env ...string) error {
	if err := os.MkdirAll(m.dir, 0o711); err != nil {
		return fmt.Errorf("make the data directory of %s: %w", m.name, err)
	}
	if err := discover.Remove(m.dir); err != nil {
		return err
	}
	env = t.environment(append(env, "PLIMSOLL_DATA_DIR="+m.dir)...)
	var err error
	m.process, err = child.Start(t.self, filepath.Join(m.dir, "log"), env, verb, "--config", t.Path)
	return err
}

func (t *Trial) startReplica(n int) error {
	local := &t.File.Local
	m := &member{name: fmt.Sprintf("replica-%d", n)}
	m.dir = filepath.Join(local.DataDir, m.name)
	listen := "127.0.0.1:0"
	if n == 1 {
		listen = local.Listen
	}
	store := local.Store
	if store == "sqlite" {
		store = "sqlite:" + filepath.Join(local.DataDir, "plimsoll.db")
	}
	if err := os.MkdirAll(m.dir, 0o711); err != nil {
		return err
	}
	// One token is good at all of them. It is there before the first of them starts, which
	// would otherwise make one of its own in the same moment.
	token, err := readOrMake(t.token(), newToken)
	if err == nil && n > 1 {
		err = writeSynced(filepath.Join(m.dir, "token"), token)
	}
	if err != nil {
		return err
	}
	t.replicas = append(t.replicas, m)
	return t.start(m, "server", "PLIMSOLL_LISTEN="+listen, "PLIMSOLL_STORE="+store, "PLIMSOLL_KEYS="+local.KeysFile(), "PLIMSOLL_REPLICA_ID="+m.name)
}

// token is the file of the first replica's.
func (t *Trial) token() string { return filepath.Join(t.File.Local.DataDir, "replica-1", "token") }

func (t *Trial) startAgent(ctx context.Context, n int) error {
	m := &member{name: fmt.Sprintf("host-%d", n)}
	m.dir = filepath.Join(t.File.Local.DataDir, m.name)
	if err := os.MkdirAll(m.dir, 0o711); err != nil {
		return err
	}
	file := filepath.Join(m.dir, "join_token")
	known, err := t.known(ctx, m)
	if err != nil {
		return err
	}
	if !known {
		if err := t.issue(ctx, m.name, file); err != nil {
			return err
		}
	}
	t.agents = append(t.agents, m)
	headroom := min(max(gate.FromMiB((t.share/8).CeilMiB()), leastHeadroom), mostHeadroom)
	return t.start(m, "agent", "PLIMSOLL_HOST_ID="+m.name, fmt.Sprintf("PLIMSOLL_HOST_BUDGET=%dMiB", t.share.FloorMiB()),
		fmt.Sprintf("PLIMSOLL_HOST_HEADROOM=%dMiB", headroom.FloorMiB()), "PLIMSOLL_AGENT_LISTEN=127.0.0.1:0",
		"PLIMSOLL_AGENT_REPLICAS="+strings.Join(t.urls(), ","), "PLIMSOLL_AGENT_JOIN_TOKEN_FILE="+file)
}

// urls are where the replicas are.
func (t *Trial) urls() (all []string) {
	for _, r := range t.replicas {
		all = append(all, r.note.URL)
	}
	return all
}

// known says whether a host has joined and was not buried since: whoever starts the fleet again
// wants it back.
func (t *Trial) known(ctx context.Context, m *member) (bool, error) {
	if _, err := os.Stat(filepath.Join(m.dir, credentialFile)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	c, err := t.replicas[0].client()
	if err != nil {
		return false, err
	}
	list, err := c.Hosts(ctx)
	if err != nil {
		return false, fmt.Errorf("read which hosts are registered: %w", err)
	}
	return slices.ContainsFunc(list.Hosts, func(h api.Host) bool { return h.ID == m.name && h.State != api.HostStateBuried }), nil
}

// issue makes a host's join token.
func (t *Trial) issue(ctx context.Context, host, file string) error {
	c, err := t.replicas[0].client()
	if err != nil {
		return err
	}
	made, err := c.CreateJoinToken(ctx, host, 0)
	if err != nil {
		return fmt.Errorf("make a join token for %s: %w", host, err)
	}
	return writeSynced(file, []byte(made.JoinToken+"\n"))
}

func (m *member) client() (*client.Client, error) {
	token, err := os.ReadFile(m.note.TokenFile)
	if err != nil {
		return nil, err
	}
	return client.New(m.note.URL, strings.TrimSpace(string(token)))
}

func (m *member) noted() bool {
	note, err := discover.Read(m.dir)
	m.note = note
	return err == nil
}

// heard is how many of the fleet's hosts a replica hears.
func (t *Trial) heard(ctx context.Context, m *member) (n int) {
	c, err := m.client()
	if err != nil {
		return 0
	}
	list, err := c.Hosts(ctx)
	if err != nil {
		return 0
	}
	for _, h := range list.Hosts {
		ours := slices.ContainsFunc(t.agents, func(m *member) bool { return m.name == h.ID })
		if ours && h.HeardMSAgo != nil && *h.HeardMSAgo < 30_000 && h.State != api.HostStateBuried {
			n++
		}
	}
	return n
}

// await waits until something is so of a process that runs.
func (t *Trial) await(ctx context.Context, m *member, so func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, memberUpWithin, fmt.Errorf("%s is not up after %s; its log is %s", m.name, memberUpWithin, m.dir+"/log"))
	defer cancel()
	for !so() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-m.process.Ended():
			return fmt.Errorf("%s ended: %s", m.name, m.process.LastWords())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}
