package link

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll-project/plimsoll/internal/wholefile"
	"github.com/plimsoll-project/plimsoll/ticket"
)

// lingers is how long a key stays after the last replica that knew it said so: one that is
// a step behind, or out of reach for a moment, takes no key away that another signs with.
const lingers = 5 * time.Minute

// Keys are a host's ticket keys: those on its disk, and what its replicas make of them. A key
// is added by any replica, and dropped when none that is connected knows it and none has for
// a while.
type Keys struct {
	host string
	path string
	set  func(ticket.AudienceKeys) // takes them in force
	now  func() time.Time

	mu    sync.Mutex // guards what follows, and held while they are written
	keys  ticket.AudienceKeys
	named map[string]time.Time // key id -> when one that knows it was last connected
	live  map[any][]string     // stream -> the ids that its replica knows
}

// OpenKeys reads a host's keys; there may be none yet. Set gets them now and on each change.
func OpenKeys(path, host string, set func(ticket.AudienceKeys), now func() time.Time) (*Keys, error) {
	k := &Keys{host: host, path: path, set: set, now: now, named: map[string]time.Time{}, live: map[any][]string{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's ticket keys: %w", err)
	}
	if k.keys, err = k.parse(data); err != nil {
		return nil, fmt.Errorf("read the host's ticket keys in %s: %w; remove the file, and they are taken anew from a replica", path, err)
	}
	k.name(k.keys.IDs())
	set(k.keys)
	return k, nil
}

func (k *Keys) parse(file []byte) (ticket.AudienceKeys, error) {
	keys, err := ticket.ParseAudienceKeys(file)
	if err == nil && keys.Audience() != k.host {
		err = fmt.Errorf("they are of audience %q, and this is host %q", short(keys.Audience()), k.host)
	}
	return keys, err
}

// Current are the keys in force; none before the first registration.
func (k *Keys) Current() ticket.AudienceKeys {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys
}

// Take takes over a keys file that a replica sent, by one of its streams or, where that is
// nil, as the answer to a registration. It returns the ids that are on disk and in force,
// whatever the error.
func (k *Keys) Take(stream any, file []byte) (ids []string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fresh, err := k.parse(file)
	if err != nil {
		return k.keys.IDs(), err
	}
	if stream != nil {
		k.name(k.live[stream])
		k.live[stream] = fresh.IDs()
	}
	k.name(fresh.IDs())
	stale := k.keys.Without(k.dropped)
	next, clash := fresh.Merge(&stale)
	if clash != "" {
		err = fmt.Errorf("key %q has two secrets: replicas have keyrings of different origin; give all of them the same keys file", clash)
	}
	return k.use(next, err)
}

// use writes the keys, then takes them in force. What cannot be written is not acknowledged,
// for a restart would forget it.
func (k *Keys) use(next ticket.AudienceKeys, err error) ([]string, error) {
	before, err1 := k.keys.EncodeFile()
	after, err2 := next.EncodeFile()
	if broken := errors.Join(err1, err2); broken != nil {
		return k.keys.IDs(), broken
	}
	if bytes.Equal(before, after) {
		return k.keys.IDs(), err
	}
	if unwritten := wholefile.Write(k.path, after, 0o600, true); unwritten != nil {
		return k.keys.IDs(), errors.Join(err, fmt.Errorf("write the host's ticket keys: %w", unwritten))
	}
	k.keys = next
	k.set(next)
	return next.IDs(), err
}

// Forget notes that a stream is over.
func (k *Keys) Forget(stream any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.name(k.live[stream])
	delete(k.live, stream)
}

// Tidy drops what no replica knows any more. Without one there is nobody to say so.
func (k *Keys) Tidy() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.live) > 0 && slices.ContainsFunc(k.keys.IDs(), k.dropped) {
		k.use(k.keys.Without(k.dropped), nil) // what fails is tried again
	}
}

func (k *Keys) name(ids []string) {
	for _, id := range ids {
		k.named[id] = k.now()
	}
}

func (k *Keys) dropped(id string) bool {
	for _, ids := range k.live {
		if slices.Contains(ids, id) {
			return false
		}
	}
	return k.now().Sub(k.named[id]) >= lingers
}
