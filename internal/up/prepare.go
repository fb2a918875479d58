package up

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/cli"
)

// prepare makes what needs no other part: directories, secrets, sockets, the embedded store.
func (u *Up) prepare(ctx context.Context) (err error) {
	local := &u.File.Local
	if u.lock, err = takeDir(local.DataDir); err != nil {
		return err
	}
	if u.secrets, err = openSecrets(local); err != nil {
		return err
	}
	u.keys.ring = u.secrets.keys
	if u.identity, err = identityOf(local); err != nil {
		return err
	}
	if u.replicaID, err = replicaID(local.DataDir, local.ReplicaID); err != nil {
		return err
	}
	if err := u.prepareStore(ctx); err != nil {
		return err
	}
	if u.api, err = net.Listen("tcp", local.Listen); err != nil {
		return fmt.Errorf("listen for the API: %w; choose another address with --listen, as in 127.0.0.1:7071, or port 0 for a free one", err)
	}
	if !u.hasHost() {
		return nil
	}
	return u.measure()
}

// takeDir makes a data directory, and locks it.
func takeDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, cli.NotValid(fmt.Errorf("make the data directory: %w; choose one that you can write with --data-dir", err))
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, cli.NotValid(err)
	}
	return lock, nil
}

// unfit is a configuration that cannot be followed, and what to do about it.
func unfit(what, try string) error {
	return &cli.Failure{Status: cli.ExitConfig, Err: errors.New(what), Try: try}
}

// lockDir keeps a second process out of a data directory: it would take the first one's name
// among the replicas, and its note. The lock ends with the process.
func lockDir(dir string) (*os.File, error) {
	lock, err := agent.Lock(filepath.Join(dir, "up.lock"))
	switch {
	case errors.Is(err, agent.ErrLocked):
		return nil, fmt.Errorf("the data directory %s is in use by another plimsoll; stop that one, or choose another with --data-dir", dir)
	case err != nil:
		return nil, fmt.Errorf("lock the data directory: %w; it must be writable by the user who runs plimsoll (uid %d), or choose another with --data-dir", err, os.Getuid())
	}
	return lock, nil
}

// replicaID is this replica's name among those of one store: as stated, else made once.
func replicaID(dir, stated string) (string, error) {
	if stated != "" {
		return stated, nil
	}
	path := filepath.Join(dir, "replica_id")
	data, err := readOrMake(path, func() ([]byte, error) { return []byte("r-" + strings.ToLower(rand.Text()[:12]) + "\n"), nil })
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(data))
	if len(id) < 3 || len(id) > 128 || strings.ContainsAny(id, " \t\n/") {
		return "", fmt.Errorf("%s holds no replica's id; remove the file, a new one is made", path)
	}
	return id, nil
}
