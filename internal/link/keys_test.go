package link

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/ticket"
)

// hostKeys are a host's keys with a clock of the test's.
type hostKeys struct {
	*Keys
	t       *testing.T
	at      time.Time
	inForce ticket.AudienceKeys
}

func newHostKeys(t *testing.T) *hostKeys {
	k := &hostKeys{t: t, at: time.Unix(1_000_000, 0)}
	k.open(filepath.Join(t.TempDir(), "keys.json"))
	return k
}

func (k *hostKeys) open(path string) {
	k.t.Helper()
	var err error
	k.Keys, err = OpenKeys(path, "h1", func(a ticket.AudienceKeys) { k.inForce = a }, func() time.Time { return k.at })
	if err != nil {
		k.t.Fatal(err)
	}
}

func file(t *testing.T, ring ticket.Keyring, host string) []byte {
	t.Helper()
	keys, err := keysFor(ring, host)
	if err != nil {
		t.Fatal(err)
	}
	return keys.File
}

func (k *hostKeys) take(stream any, ids ...string) {
	k.t.Helper()
	if _, err := k.Take(stream, file(k.t, newRing(k.t, ids...), "h1")); err != nil {
		k.t.Fatal(err)
	}
}

func (k *hostKeys) holds(when string, want ...string) {
	k.t.Helper()
	got := k.inForce.IDs()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		k.t.Errorf("%s: %v are in force, not %v", when, got, want)
	}
	info, err := os.Stat(k.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		k.t.Errorf("%s: the file is %v, %v", when, info.Mode(), err)
	}
	on := hostKeys{t: k.t, at: k.at}
	on.open(k.path)
	got = on.inForce.IDs()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		k.t.Errorf("%s: %v are on disk, not %v", when, got, want)
	}
}

// TestKeysOfManyReplicas: a replica that is a step behind takes no key away that another one
// signs with, and what nobody knows any more goes.
func TestKeysOfManyReplicas(t *testing.T) {
	k := newHostKeys(t)
	k.take(nil, "k1")
	k.holds("registered", "k1")
	k.take("r1", "k1", "k2")
	k.holds("one replica is ahead", "k1", "k2")
	k.take("r2", "k1")
	k.holds("another is behind", "k1", "k2")
	k.Forget("r1")
	k.Tidy()
	k.holds("the one ahead is out of reach", "k1", "k2")
	k.at = k.at.Add(lingers)
	k.Tidy()
	k.holds("it stays away", "k1")
	k.take("r1", "k2", "k1")
	k.take("r2", "k2")
	k.at = k.at.Add(2 * lingers)
	k.Tidy()
	k.holds("one still knows the old key", "k1", "k2")
	k.take("r1", "k2")
	k.holds("just dropped", "k1", "k2")
	k.at = k.at.Add(lingers)
	k.Tidy()
	k.holds("dropped by all", "k2")
	k.Forget("r1")
	k.Forget("r2")
	k.at = k.at.Add(100 * lingers)
	k.Tidy()
	k.holds("with no replica there", "k2")
}

// TestKeysNotTaken: what is not this host's changes nothing, and is not acknowledged.
func TestKeysNotTaken(t *testing.T) {
	k := newHostKeys(t)
	k.take("r1", "k1")
	for name, f := range map[string][]byte{
		"another host's": file(t, newRing(t, "k2"), "h2"), "rubbish": []byte("{"), "nothing": nil,
	} {
		if ids, err := k.Take("r2", f); err == nil || !slices.Equal(ids, []string{"k1"}) {
			t.Error(name, ids, err)
		}
	}
	k.holds("after", "k1")
	root, err := ticket.NewRoot("k1", ticket.Signing, []byte("another secret under the same name, of 32 bytes"))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := ticket.NewKeyring(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Take("r3", file(t, ring, "h1")); err == nil || !strings.Contains(err.Error(), "two secrets") {
		t.Error(err)
	}
	if err := os.RemoveAll(filepath.Dir(k.path)); err != nil {
		t.Fatal(err)
	}
	if ids, err := k.Take("r1", file(t, newRing(t, "k1", "k2"), "h1")); err == nil || slices.Contains(ids, "k2") {
		t.Error("keys that could not be written were acknowledged:", ids, err)
	}
}

// TestKeysOverTheWire: a connected host holds what its replica does, from the start and after
// each step of a rotation, and a replica says to know only what every host holds.
func TestKeysOverTheWire(t *testing.T) {
	changed := make(chan struct{}, 100)
	r := newRig(t, func(_ *rig, _ *ServerOptions, d *DialerOptions) { d.Acknowledged = func() { changed <- struct{}{} } })
	r.dial()
	slow := new(atomic.Bool)
	r.keys.set = func(ticket.AudienceKeys) {
		for slow.Load() {
			time.Sleep(time.Millisecond)
		}
	}
	for _, step := range [][]string{{"k1", "k2"}, {"k2", "k1"}, {"k2", "k3"}} {
		ring := newRing(t, step...)
		slow.Store(true)
		if err := r.dialer.SetKeys(ring); err != nil {
			t.Fatal(err)
		}
		want := ring.IDs()
		if known := r.dialer.Known(want); step[1] == "k1" && known != want || step[1] != "k1" && known == want {
			t.Errorf("before it is acknowledged %s is said to be known of %s", known, want)
		}
		slow.Store(false)
		for r.dialer.Known(want) != want {
			<-changed
		}
		for _, id := range step {
			now := r.keys.Current()
			if got := r.dialer.Behind(id); got != nil || !slices.Contains(now.IDs(), id) {
				t.Errorf("%s is said to be held by all but %v", id, got)
			}
		}
	}
}
