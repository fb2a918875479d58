package up

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/config"
	"github.com/plimsoll-project/plimsoll/internal/keyring"
	"github.com/plimsoll-project/plimsoll/internal/wholefile"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// secrets lie in files outside the store, readable by their owner alone.
type secrets struct {
	keys      ticket.Keyring  // as they were at the start
	reader    *keyring.Reader // of what follows
	token     string          // of the consumer that whoever can read tokenFile is
	tokenFile string
}

func newToken() ([]byte, error) { return []byte("plt_" + rand.Text() + "\n"), nil }

// LocalConsumer is whoever can read the token file of a machine.
const LocalConsumer = "local"

// openSecrets reads the keys and the token, or makes them.
func openSecrets(local *config.Local) (secrets, error) {
	s := secrets{tokenFile: filepath.Join(local.DataDir, "token")}
	var err error
	if s.reader, s.keys, err = openKeys(local); err != nil {
		return s, err
	}
	token, err := readOrMake(s.tokenFile, newToken)
	if err != nil {
		return s, err
	}
	if s.token = strings.TrimSpace(string(token)); len(s.token) < 16 {
		return s, fmt.Errorf("the token in %s is too short to be one; remove the file, a new one is made", s.tokenFile)
	}
	return s, nil
}

// openKeys reads the ticket keys. They are made where there are none, but not for a store
// that other replicas share: what one of them mints would be forged to the others.
func openKeys(local *config.Local) (*keyring.Reader, ticket.Keyring, error) {
	path := local.KeysFile()
	r, ring, err := keyring.Open(path)
	_, embedded := local.SQLitePath()
	switch {
	case err == nil:
		return r, ring, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, ring, fmt.Errorf("%w; restore the file from a backup, or remove it: new keys are made then, and every ticket that was given out and not redeemed boots nothing", err)
	case !embedded:
		return nil, ring, fmt.Errorf("there are no ticket keys in %s, and all replicas of one store need the same; copy the file of another replica there, or make the first one with plimsoll keyring create --keys %s", path, path)
	}
	if _, err := keyring.Create(path, time.Now()); err != nil {
		return nil, ring, err
	}
	return keyring.Open(path)
}

// readOrMake returns a file's contents, made and synced first if there is no such file: a
// ticket minted under a key that a crash took back would be refused as forged.
func readOrMake(path string, make func() ([]byte, error)) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		return data, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w; it must be readable by the user who runs plimsoll up", path, err)
	}
	if data, err = make(); err != nil {
		return nil, err
	}
	return data, writeSynced(path, data)
}

func writeSynced(path string, data []byte) error {
	if err := wholefile.Write(path, data, 0o600, true); err != nil {
		return fmt.Errorf("write %s: %w; its directory must be writable, and have room", path, err)
	}
	return nil
}

// consumer is the machine's own: an admin, for any tenant, who may pin hosts.
func (s secrets) consumer() *config.Consumer {
	return &config.Consumer{
		Name: LocalConsumer, Roles: []config.Role{config.RoleAdmin}, Tenants: []string{config.AnyTenant}, PinHosts: true,
		Tokens: []config.TokenHash{sha256.Sum256([]byte(s.token))},
	}
}
