package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
)

// Hooks are what an operator has done when a bet is lost, and when the valve moves.
type Hooks struct{ Hibernate, Stop, IntakeShut, IntakeOpened Hook }

// Hook is a command, an address that is told, or both in that order.
type Hook struct {
	Exec    []string // no shell
	Webhook string
	Within  time.Duration // both together
}

func (h *Hook) set() bool { return len(h.Exec) > 0 || h.Webhook != "" }

// The names of the hooks, as they are told.
const (
	hookHibernate = "hibernate"
	hookStop      = "stop"
	hookShut      = "intake_shut"
	hookOpened    = "intake_opened"
)

// hookNews is what a hook is told: as JSON, and as the environment of a command.
type hookNews struct {
	Event      string       `json:"event"`
	Host       string       `json:"host"`
	At         time.Time    `json:"at"`
	Reason     string       `json:"reason"`
	FreeMB     int64        `json:"free_mb"`
	HeadroomMB int64        `json:"headroom_mb"`
	Sandbox    *hookSandbox `json:"sandbox,omitempty"`
}

type hookSandbox struct {
	ID         string `json:"id"`
	Epoch      int64  `json:"epoch"`
	Consumer   string `json:"consumer,omitempty"`
	Key        string `json:"key,omitempty"`
	Tenant     string `json:"tenant,omitempty"`
	Class      string `json:"class,omitempty"`
	Priority   int    `json:"priority"`
	PID        int    `json:"pid"`
	Cgroup     string `json:"cgroup,omitempty"`
	ResidentMB int64  `json:"resident_mb"`
}

// environment names what a command is about. It gets nothing of the agent's own but the path.
func (n *hookNews) environment() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "PLIMSOLL_EVENT=" + n.Event, "PLIMSOLL_HOST=" + n.Host, "PLIMSOLL_REASON=" + n.Reason,
		"PLIMSOLL_FREE_MB=" + strconv.FormatInt(n.FreeMB, 10), "PLIMSOLL_HEADROOM_MB=" + strconv.FormatInt(n.HeadroomMB, 10),
	}
	if s := n.Sandbox; s != nil {
		env = append(env, "PLIMSOLL_SANDBOX="+s.ID, "PLIMSOLL_EPOCH="+strconv.FormatInt(s.Epoch, 10),
			"PLIMSOLL_CONSUMER="+s.Consumer, "PLIMSOLL_KEY="+s.Key, "PLIMSOLL_TENANT="+s.Tenant, "PLIMSOLL_CLASS="+s.Class,
			"PLIMSOLL_PRIORITY="+strconv.Itoa(s.Priority), "PLIMSOLL_PID="+strconv.Itoa(s.PID), "PLIMSOLL_CGROUP="+s.Cgroup,
			"PLIMSOLL_RESIDENT_MB="+strconv.FormatInt(s.ResidentMB, 10))
	}
	return env
}

// hooks calls them.
type hooks struct {
	cfg    *Config
	client http.Client
	moves  chan hookNews // the newest move of the valve that nobody was told of
}

func newHooks(cfg *Config) *hooks {
	return &hooks{
		cfg: cfg, moves: make(chan hookNews, 1),
		client: http.Client{
			Transport:     &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// check says at the start what would be found only when a bet is lost.
func (h *hooks) check() {
	all := &h.cfg.Hooks
	for _, hook := range []struct {
		name string
		*Hook
	}{{hookHibernate, &all.Hibernate}, {hookStop, &all.Stop}, {hookShut, &all.IntakeShut}, {hookOpened, &all.IntakeOpened}} {
		if len(hook.Exec) == 0 {
			continue
		}
		if _, err := exec.LookPath(hook.Exec[0]); err != nil {
			h.cfg.Log.Error("the program of a hook cannot be run: install it there, make it executable for this agent's user, or take the hook out of the file",
				"hook", "host.hooks."+hook.name, "err", err)
		}
	}
	if h.cfg.Host.Reclaim != host.ReclaimOn && (all.Hibernate.set() || all.Stop.set()) {
		h.cfg.Log.Warn("host.hooks.hibernate and host.hooks.stop are never called unless reclaim is on: set host.reclaim to on, or leave them out",
			"reclaim", h.cfg.Host.Reclaim)
	}
}

func (h *hooks) ofSandbox(event string, e *host.Eviction) hookNews {
	return hookNews{
		Event: event, Host: h.cfg.Host.ID, At: time.Now(), Reason: e.Why(), FreeMB: e.Free.FloorMiB(), HeadroomMB: e.Headroom.CeilMiB(),
		Sandbox: &hookSandbox{
			ID: e.ID, Epoch: e.Epoch, Consumer: e.Identity.Consumer, Key: e.Identity.Key, Tenant: e.Identity.Tenant, Class: e.Identity.Class,
			Priority: e.Priority, PID: e.Process.Pid, Cgroup: e.Process.Cgroup, ResidentMB: e.Resident.CeilMiB(),
		},
	}
}

// intake notes that the valve moved, and waits for nobody. Of moves that come faster than the
// hooks return, the last one is told.
func (h *hooks) intake(shut bool, v *host.View) {
	event := hookOpened
	if shut {
		event = hookShut
	}
	n := hookNews{
		Event: event, Host: h.cfg.Host.ID, At: time.Now(), Reason: string(v.Shut),
		FreeMB: v.Account.Free.FloorMiB(), HeadroomMB: v.Account.Headroom.CeilMiB(),
	}
	select {
	case <-h.moves:
	default:
	}
	h.moves <- n // there is one sender, and it has just made room
}

// notifyUntil tells of the valve's moves, one after the other, until ctx ends.
func (h *hooks) notifyUntil(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-h.moves:
			hook := &h.cfg.Hooks.IntakeOpened
			if n.Event == hookShut {
				hook = &h.cfg.Hooks.IntakeShut
			}
			if err := h.call(ctx, n.Event, hook, n); err != nil && ctx.Err() == nil {
				h.cfg.Log.Error("a hook was not told of the intake", "hook", n.Event, "err", err)
			}
		}
	}
}

// call calls a hook: the command first, then whoever is told. The first that fails ends it.
func (h *hooks) call(ctx context.Context, name string, hook *Hook, n hookNews) error {
	if !hook.set() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hook.Within)
	defer cancel()
	if len(hook.Exec) > 0 {
		if err := run(ctx, hook.Exec, n.environment()); err != nil {
			return fmt.Errorf("run %s for hook %s: %w", hook.Exec[0], name, within(ctx, hook, err))
		}
	}
	if hook.Webhook != "" {
		if err := h.post(ctx, hook.Webhook, &n); err != nil {
			return fmt.Errorf("tell %s for hook %s: %w", hook.Webhook, name, within(ctx, hook, err))
		}
	}
	return nil
}

func within(ctx context.Context, hook *Hook, err error) error {
	if ctx.Err() == context.DeadlineExceeded {
		return fmt.Errorf("it took longer than %v: %w", hook.Within, err)
	}
	return err
}

// What is kept of a hook's words, for the log.
const hookWords = 4 << 10

// run runs a command, and ends all that it started when its time is over.
func run(ctx context.Context, argv, env []string) error {
	words := &clipped{most: hookWords}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env, c.Dir, c.Stdout, c.Stderr = env, "/", words, words
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 100 * time.Millisecond
	if err := c.Run(); err != nil {
		return withWords(err, words.text.String())
	}
	return nil
}

// withWords adds to an error what was said, if anything was.
func withWords(err error, words string) error {
	if words = strings.TrimSpace(words); words == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, words)
}

// clipped keeps the first of what is written to it.
type clipped struct {
	text bytes.Buffer
	most int
}

func (c *clipped) Write(p []byte) (int, error) {
	c.text.Write(p[:min(len(p), max(c.most-c.text.Len(), 0))])
	return len(p), nil
}

// post tells an address; any 2xx is a yes.
func (h *hooks) post(ctx context.Context, url string, n *hookNews) error {
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := h.client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	words, _ := io.ReadAll(io.LimitReader(answer.Body, hookWords))
	if answer.StatusCode/100 != 2 {
		return withWords(fmt.Errorf("it answered %s", answer.Status), string(words))
	}
	return nil
}
