package fleettest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
)

// book is what callers and the substrate were told, held against what must be.
type book struct {
	t *testing.T

	mu       sync.Mutex // guards what follows
	keys     map[string]*told
	redeemed map[string]string // id and epoch -> instance that was told yes
	counts   map[string]int    // what happened -> times
	worst    time.Duration     // longest that one caller had no answer but unavailable or none
}

// told is what is known of one key's newest admission.
type told struct {
	id       string
	epoch    int64
	released bool // its end was begun by its caller
	left     bool // nobody keeps it any more
}

func newBook(t *testing.T) *book {
	return &book{t: t, keys: map[string]*told{}, redeemed: map[string]string{}, counts: map[string]int{}}
}

func (b *book) count(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[what]++
}

func (b *book) times(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts[what]
}

func name(consumer, key string) string { return consumer + "/" + key }

// yes notes that a caller was told so. A key is admitted anew only after its caller has given
// it back, or has left it.
func (b *book) yes(consumer string, a *api.Admission) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts["yes"]++
	k, n := b.keys[name(consumer, a.Key)], name(consumer, a.Key)
	switch {
	case k == nil || k.epoch == 0:
	case a.Epoch < k.epoch:
		b.t.Errorf("%s: told yes at epoch %d, and before at %d", n, a.Epoch, k.epoch)
	case a.Epoch == k.epoch && k.released:
		b.t.Errorf("%s: told yes at epoch %d, which was released", n, a.Epoch)
	case a.Epoch > k.epoch && !k.released && !k.left:
		b.t.Errorf("%s: admitted twice, at epochs %d and %d", n, k.epoch, a.Epoch)
	case a.Epoch == k.epoch && a.ID != k.id:
		b.t.Errorf("%s: epoch %d is of %s and of %s", n, a.Epoch, k.id, a.ID)
	}
	b.keys[n] = &told{id: a.ID, epoch: a.Epoch}
}

// asked notes that a key was asked for, whatever comes of it.
func (b *book) asked(consumer, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := name(consumer, key); b.keys[n] == nil {
		b.keys[n] = &told{left: true}
	}
}

// gone notes that its caller gave a key back, or left it.
func (b *book) gone(consumer, key string, released bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.keys[name(consumer, key)]
	k.released, k.left = k.released || released, k.left || !released
}

// lost notes that a slot was over that its caller had kept as well as it could.
func (b *book) lost(consumer, key string, why any) {
	b.t.Errorf("%s: its caller kept it, and it is over: %v", name(consumer, key), why)
}

// redeem notes that an instance may boot: the only one of its admission.
func (b *book) redeem(id string, epoch int64, instance string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts["redeemed"]++
	ref := fmt.Sprint(id, " at epoch ", epoch)
	if other, ok := b.redeemed[ref]; ok && other != instance {
		b.t.Errorf("%s was redeemed for %s and for %s", ref, other, instance)
	}
	b.redeemed[ref] = instance
}

// kept says whether somebody keeps an admission, so that it may not expire.
func (b *book) kept(consumer, key string, epoch int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.keys[name(consumer, key)]
	return k != nil && k.epoch == epoch && !k.left && !k.released
}

// outage notes for how long a caller had no answer.
func (b *book) outage(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.worst = max(b.worst, d)
}
