package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/wholefile"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// ownKeysFile lies in the data directory.
const ownKeysFile = "own-keys.json"

// openOwnKeys reads the agent's own keys, or makes them.
func openOwnKeys(path, id string) (ticket.AudienceKeys, error) {
	data, err := os.ReadFile(path)
	if err == nil {
		keys, err := ticket.ParseAudienceKeys(data)
		if err == nil && keys.Audience() == id {
			return keys, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ticket.AudienceKeys{}, fmt.Errorf("read the agent's own keys: %w; the file must be readable by the user who runs the agent", err)
	}
	// Of another host, or torn: what it signed was of another life, and boots nothing here.
	keys, err := newOwnKeys(id)
	if err != nil {
		return keys, fmt.Errorf("make the agent's own keys: %w", err)
	}
	return keys, writeOwnKeys(path, keys)
}

func newOwnKeys(id string) (ticket.AudienceKeys, error) {
	secret := make([]byte, ticket.MinSecret)
	rand.Read(secret)
	root, err := ticket.NewRoot(ownName+"-"+strings.ToLower(rand.Text()[:8]), ticket.Signing, secret)
	if err != nil {
		return ticket.AudienceKeys{}, err
	}
	ring, err := ticket.NewKeyring(root)
	if err != nil {
		return ticket.AudienceKeys{}, err
	}
	return ring.Audience(id)
}

// writeOwnKeys writes without a sync, as the state is: after a crash of the machine none of
// the reservations is left either.
func writeOwnKeys(path string, keys ticket.AudienceKeys) error {
	data, err := keys.EncodeFile()
	if err != nil {
		return err
	}
	if err := wholefile.Write(path, data, 0o600, false); err != nil {
		return fmt.Errorf("write the agent's own keys: %w; its data directory must be writable, and have room", err)
	}
	return nil
}

// verify judges a ticket by the key that it names: a replica's, which are for what a store
// knows, or the agent's own, which are for the rest. Neither is good for the other.
func (a *Agent) verify(text ticket.Text) (ticket.Claims, error) {
	own, ownErr := a.own.Verify(text, ticket.Expect{})
	if ownErr == nil {
		if !host.Local(own.AdmissionID) {
			return ticket.Claims{}, ticket.Forged
		}
		return own, nil
	}
	keys := a.keys.Load()
	if keys.Audience() == "" { // there is no replica
		return ticket.Claims{}, ownErr
	}
	c, err := keys.Verify(text, ticket.Expect{Audience: a.ID()})
	if err == nil && host.Local(c.AdmissionID) {
		return ticket.Claims{}, ticket.Forged
	}
	return c, err
}

// Alone registers an agent that has no replica: its incarnation is 0, and it gets one of a
// store's when it first has a replica.
func Alone(context.Context, string) (int64, error) { return 0, nil }
