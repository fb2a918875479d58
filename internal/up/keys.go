package up

import (
	"context"
	"sync"

	"github.com/plimsoll-project/plimsoll/internal/keyring"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// keys hands the ticket keys on to all who mint or verify, at the start and whenever the file
// has changed.
type keys struct {
	mu    sync.Mutex // guards what follows, and held while they are handed on
	ring  ticket.Keyring
	users []func(ticket.Keyring) error // in order: who verifies before who mints
}

// use gives somebody the keys, now and from now on.
func (k *keys) use(set func(ticket.Keyring) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.users = append(k.users, set)
	return set(k.ring)
}

// change hands other keys on.
func (k *keys) change(ring ticket.Keyring) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ring = ring
	for _, set := range k.users {
		if err := set(ring); err != nil {
			return err
		}
	}
	return nil
}

// ids names them, the signing one first.
func (k *keys) ids() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ring.IDs()
}

// followKeys takes over what becomes of the file. Keys that cannot be used leave the former
// ones in force.
func (u *Up) followKeys(ctx context.Context) {
	file := u.File.Local.KeysFile()
	if exposed := keyring.Exposed(file); exposed != "" {
		u.Log.Warn(exposed)
	}
	u.secrets.reader.Watch(ctx, func(ring ticket.Keyring, err error) {
		if err == nil {
			err = u.keys.change(ring)
		}
		if err != nil {
			u.Log.Error("the ticket keys changed and cannot be used; the former ones stay in force", "file", file, "err", err)
			return
		}
		u.Log.Info("the ticket keys changed", "known", ring.IDs())
		u.presence.again()
	})
}
