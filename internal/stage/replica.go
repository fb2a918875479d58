package stage

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/discover"
	"github.com/plimsoll-project/plimsoll/internal/up"
)

// What the replica of a stage has: one pool without hosts.
const (
	poolName  = "browsers"
	className = "browser"
	audience  = "stage"
)

type person struct{ name, more string }

var everybody = []person{
	{"caller", "roles: [consumer], tenants: [caller, broke]"},
	{"other", "roles: [consumer]"},
	{"substrate", "roles: [substrate], audiences: [stage]"},
	{"operator", "roles: [operator]"},
	{"root", "roles: [admin]"},
}

// token is no secret: a stage is reached by its own machine alone, and holds nothing.
func (p person) token() string { return "stage-token-of-" + p.name }

// document has slots that live for 5 s, the least that there is, and a tenant that may hold none.
func document(dir string) string {
	text := `
data_dir: ` + dir + `
listen: 127.0.0.1:0
store: sqlite
fleet:
  default_quota: none
  quotas: [{tenant: broke, limit: 0}]
  pools: [{name: ` + poolName + `, placement: none, audience: ` + audience + `, cap: 1000, max_waiting: 1000, slot_ttl: 5s}]
  classes: [{name: ` + className + `, pool: ` + poolName + `, memory: 512MiB, min_memory: 128MiB}]
  consumers:
`
	for _, p := range everybody {
		text += fmt.Sprintf("    - {name: %s, %s, token_sha256: [%x]}\n", p.name, p.more, sha256.Sum256([]byte(p.token())))
	}
	return text
}

// replica is one that runs in this process.
type replica struct {
	url   string
	stop  context.CancelFunc
	ended chan error
}

func startReplica(ctx context.Context, dir string) (*replica, error) {
	dir = filepath.Join(dir, "data")
	file, err := config.Parse("stage", []byte(document(dir)))
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &replica{stop: stop, ended: make(chan error, 1)}
	go func() {
		r.ended <- up.Run(running, up.Options{File: file, Version: "stage", Out: io.Discard, Log: slog.New(slog.DiscardHandler)})
	}()
	return r, r.await(ctx, dir)
}

// await waits until it has left its note on how it is reached.
func (r *replica) await(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the replica is not up after a minute"))
	defer cancel()
	for {
		if note, err := discover.Read(dir); err == nil {
			r.url = note.URL
			return nil
		}
		select {
		case err := <-r.ended:
			r.ended <- err
			return fmt.Errorf("the replica ended: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (r *replica) close() error {
	r.stop()
	return <-r.ended
}
