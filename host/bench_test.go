package host_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// busy is a host of 256 GiB with 200 sandboxes, and the names of those that will come.
type busy struct {
	h      *host.Host
	now    host.Instant
	gen    int64
	ids    []string
	sample host.Sample
}

func newBusy(tb testing.TB) *busy {
	b := &busy{h: host.New(host.DefaultConfig("h1", 64), incarnation), gen: 1}
	b.sample = machine(256*1024, 20*1024)
	b.h.Step(0, b.sample)
	for i := range 200 {
		id := fmt.Sprintf("running-%03d", i)
		b.boot(tb, id)
		b.sample.Sandboxes = append(b.sample.Sandboxes, host.Resident{ID: id, Bytes: 100 * gate.MiB})
	}
	for i := range 64 {
		b.ids = append(b.ids, fmt.Sprintf("admission-%03d", i))
	}
	for range 4 * len(b.ids) { // until every map and slice has its size
		b.cycle(tb)
	}
	return b
}

func (b *busy) boot(tb testing.TB, id string) { b.bootAsk(tb, id, ask(2048)) }

func (b *busy) bootAsk(tb testing.TB, id string, a gate.Ask) {
	b.gen++
	b.must(tb, host.Reserve{ID: id, Gen: b.gen, Ask: a, Until: b.now + time.Minute, Incarnation: incarnation})
	b.must(tb, host.Redeem{ID: id, Epoch: b.gen})
	b.must(tb, host.Track{ID: id, Epoch: b.gen})
}

func (b *busy) must(tb testing.TB, ev host.Event) {
	if d := b.h.Step(b.now, ev).Answer.Denial; d != "" {
		tb.Fatal(d) // and not the event, which would escape to the heap
	}
}

// cycle is a whole life: Reserve, Redeem, Track, Done, and the replica's Acked.
func (b *busy) cycle(tb testing.TB) {
	b.now += 10 * time.Millisecond
	id := b.ids[b.gen%int64(len(b.ids))]
	b.boot(tb, id)
	b.must(tb, host.Done{ID: id, Epoch: b.gen})
	b.must(tb, host.Acked{ID: id, Epoch: b.gen})
}

// again is a life that ends by itself and is started once more under its admission.
func (b *busy) again(tb testing.TB) {
	b.now += 10 * time.Millisecond
	a, id := ask(2048), b.ids[b.gen%int64(len(b.ids))]
	a.HoldOnExit = true
	b.bootAsk(tb, id, a)
	b.must(tb, host.Done{ID: id, Epoch: b.gen})
	b.must(tb, host.Redeem{ID: id, Epoch: b.gen})
	b.must(tb, host.Track{ID: id, Epoch: b.gen})
	b.must(tb, host.Done{ID: id, Epoch: b.gen})
	b.must(tb, host.Release{ID: id, Gen: b.gen})
}

// aside is a waiter for whom memory is set aside, and others beside it.
func (b *busy) aside(tb testing.TB) {
	b.must(tb, host.Stand{ID: "waiter", Ask: ask(8192), Until: b.now + time.Minute, Incarnation: incarnation})
	b.pair(tb)
	b.must(tb, host.Unstand{ID: "waiter"})
}

// pair is a promise that is taken back.
func (b *busy) pair(tb testing.TB) {
	b.gen++
	b.now += time.Millisecond
	id := b.ids[b.gen%int64(len(b.ids))]
	b.must(tb, host.Reserve{ID: id, Gen: b.gen, Ask: ask(2048), Until: b.now + time.Minute, Incarnation: incarnation})
	b.must(tb, host.Release{ID: id, Gen: b.gen})
}

func (b *busy) look(tb testing.TB) {
	b.now += 50 * time.Millisecond
	b.must(tb, b.sample)
}

func TestHotPathAllocatesNothing(t *testing.T) {
	b := newBusy(t)
	for name, f := range map[string]func(testing.TB){
		"Reserve, Release": b.pair, "Reserve, Redeem, Track, Done": b.cycle, "Sample of 200": b.look,
		"Done, Redeem again": b.again, "Stand, Unstand": b.aside,
	} {
		if got := testing.AllocsPerRun(500, func() { f(t) }); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func BenchmarkReserveRelease(b *testing.B) { bench(b, (*busy).pair) }

func BenchmarkLife(b *testing.B) { bench(b, (*busy).cycle) }

func BenchmarkSample200(b *testing.B) { bench(b, (*busy).look) }

func bench(b *testing.B, f func(*busy, testing.TB)) {
	h := newBusy(b)
	b.ReportAllocs()
	for b.Loop() {
		f(h, b)
	}
}

// A storm of refusals leaves 100,000 closed records behind for two times to live; a step
// must not feel them.
func BenchmarkReserveReleaseAfterAStorm(b *testing.B) {
	h := newBusy(b)
	for i := range 100_000 {
		h.h.Step(h.now, host.Release{ID: fmt.Sprintf("stranger-%06d", i), Gen: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		h.pair(b)
	}
}
