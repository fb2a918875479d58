package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/child"
	"github.com/plimsoll-project/plimsoll/internal/discover"
)

// marker is the environment variable that every process of a run carries.
const marker = "PLIMSOLL_DEMO_RUN"

// node is one host with its control plane: a whole `plimsoll up`.
type node struct {
	name   string // of the host, and of its mode
	dir    string
	config string // path
	env    []string
	self   string
	expect arithmetic

	process   *child.Child // nil: it was not started
	url       string
	transport *http.Transport
	wire      *wire // over transport
	client    *client.Client
	seam      boot.Client
	pending   []*api.Admission // admitted, with a ticket, and not booted yet
}

func newNode(p plan, m gate.Mode) *node {
	n := &node{name: m.String(), dir: filepath.Dir(p.path(m)), config: p.path(m), self: p.self, env: environment(p.run)}
	n.expect, _ = p.expect(m) // what is wrong with it, starting the host says
	return n
}

// environment is ours without the settings of any other Plimsoll.
func environment(run string) []string {
	env := []string{marker + "=" + run}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "PLIMSOLL_") {
			env = append(env, e)
		}
	}
	return env
}

// start starts the host. It is up when it has left its note.
func (n *node) start(ctx context.Context, d *demo) (err error) {
	if n.process, err = child.Start(n.self, filepath.Join(n.dir, "up.log"), n.env, "up", "--config", n.config); err != nil {
		return err
	}
	return d.await(ctx, "the host's note on how it is reached", "to be there", func(context.Context) (string, bool, error) {
		note, err := discover.Read(n.dir)
		switch {
		case !n.process.Running():
			return "", false, fmt.Errorf("plimsoll up ended: %s", n.process.LastWords())
		case errors.Is(err, fs.ErrNotExist):
			return "none", false, nil
		case err != nil:
			return "", false, err
		}
		return "", true, n.connect(note)
	})
}

func (n *node) connect(note discover.Note) (err error) {
	token, err := os.ReadFile(note.TokenFile)
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	n.transport = &http.Transport{MaxIdleConnsPerHost: mostBursting}
	n.wire = &wire{next: n.transport}
	n.url, n.seam = note.URL, boot.Client{Socket: note.Socket}
	n.client, err = client.New(note.URL, strings.TrimSpace(string(token)), client.WithHTTPClient(&http.Client{Transport: n.wire}))
	return err
}

// mostBursting is how many connections are kept for the next burst.
const mostBursting = 128

// stop stops the host. Connections that nobody uses any more would hold it up.
func (n *node) stop() error {
	if n.transport != nil {
		n.transport.CloseIdleConnections()
	}
	return n.process.Stop()
}

// view is the host's own word.
func (n *node) view(ctx context.Context) (*api.Host, error) { return n.client.Host(ctx, n.name) }

// running lists what runs on it.
func running(h *api.Host) (out []api.Sandbox) {
	for _, s := range h.Sandboxes {
		if s.State == api.SandboxStateRunning {
			out = append(out, s)
		}
	}
	return out
}

// promised is all that a host has said yes to, charged or reserved.
func promised(h *api.Host) size {
	mb := h.ReservedMB
	for _, s := range h.Sandboxes {
		mb += s.ChargeMB
	}
	return gate.FromMiB(mb)
}
