package link

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/host"
)

// detour leads to an agent, and carries what a replica says, or what it is told, only while
// it is open, and later what came meanwhile, in its order.
type detour struct {
	up, down sync.Mutex // held: nothing passes, to the agent or back
	listener net.Listener
	all      sync.WaitGroup
}

func newDetour(t *testing.T, to string) *detour {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &detour{listener: l}
	w.all.Go(func() {
		near, err := l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			near.Close()
			return
		}
		w.all.Go(func() { carry(far, near, &w.up) })
		w.all.Go(func() { carry(near, far, &w.down) })
	})
	t.Cleanup(func() { l.Close(); w.all.Wait() })
	return w
}

func carry(to io.WriteCloser, from io.ReadCloser, open *sync.Mutex) {
	defer to.Close()
	defer from.Close()
	piece := make([]byte, 16<<10)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		open.Lock()
		_, err = to.Write(piece[:n])
		open.Unlock()
		if err != nil {
			return
		}
	}
}

// TestLateFramesOfAFormerStream: the frames of one stream come in their order, or not at all:
// it is one TCP connection. A replica that dials anew has two for a while, and what it said on
// the former may come after what it said on the later one; so may what it is told. Neither
// opens, renews or releases what a later generation has, nor is the older word taken for newer.
func TestLateFramesOfAFormerStream(t *testing.T) {
	r := newRig(t)
	w := newDetour(t, r.endpoint)
	later := r.dial()
	r.endpoint = w.listener.Addr().String()
	former, ctx := r.dial(), within(t)
	v, err := later.Verdict(ctx)
	if err != nil {
		t.Fatal(err)
	}
	until := v.At + time.Minute
	do := func(c *Conn, ev host.Event) host.Denial {
		t.Helper()
		a, err := c.Do(ctx, ev)
		if err != nil {
			t.Error(err)
		}
		return a.Denial
	}
	// overtakes has the former stream say something that comes after all that the later one does.
	overtakes := func(late host.Event, meanwhile ...host.Event) host.Denial {
		t.Helper()
		w.up.Lock()
		said := make(chan host.Denial)
		go func() { said <- do(former, late) }()
		for _, ev := range meanwhile {
			if denial := do(later, ev); denial != "" {
				t.Errorf("%+v: %s", ev, denial)
			}
		}
		w.up.Unlock()
		return <-said
	}
	holds := func(epoch int64, want bool) {
		t.Helper()
		if reserved, _, err := later.Holds(ctx, host.Ref{ID: "a", Epoch: epoch}); err != nil || reserved != want {
			t.Errorf("reserved at %d: %v, want %v (%v)", epoch, reserved, want, err)
		}
	}
	// The reserve was not answered in time, so that it was given up and asked for anew.
	if denial := overtakes(ask("a", 1, until), host.Release{ID: "a", Gen: 1}, ask("a", 2, until)); denial == "" {
		t.Error("a generation that was given up was reserved")
	}
	holds(1, false)
	holds(2, true)
	// A release, and a renewal, of what was replaced meanwhile.
	overtakes(host.Release{ID: "a", Gen: 2}, ask("a", 3, until))
	holds(3, true)
	if denial := overtakes(host.Renew{ID: "a", Epoch: 3, Until: until + time.Minute, Incarnation: life}, ask("a", 4, until)); denial == "" {
		t.Error("what was replaced was renewed")
	}
	holds(4, true)
	// And the same again, released: a late duplicate opens nothing.
	if denial := overtakes(ask("a", 4, until), host.Release{ID: "a", Gen: 4}); denial == "" {
		t.Error("what was released was reserved again")
	}
	if view, err := later.View(ctx); err != nil || view.Reservations != 0 || view.Account.Reserved != 0 {
		t.Errorf("%d reservations of %v are left (%v)", view.Reservations, view.Account.Reserved, err)
	}

	// What the former stream tells late is older than what the later one told, by its stamp; and
	// where the agent wrote it no sooner, it is as new, and says what has become of it.
	older := false
	for epoch := int64(5); !older && ctx.Err() == nil; epoch++ {
		newest, late := crosses(t, w, former, later, epoch, until)
		if older = newest.Newer(late); older != (late.Admittable < newest.Admittable) {
			t.Fatalf("late came %+v, and before it %+v", late, newest)
		}
	}
}

// crosses reserves over the former stream, whose answer is held up, and releases that over the
// later one meanwhile. It returns what the later one told, and what the former tells late.
func crosses(t *testing.T, w *detour, former, later *Conn, epoch int64, until host.Instant) (newest, late host.Verdict) {
	t.Helper()
	ctx := within(t)
	w.down.Lock()
	told := make(chan host.Verdict)
	go func() {
		a, err := former.Do(ctx, ask("b", epoch, until))
		if err != nil {
			t.Error(err)
		}
		told <- a.Verdict
	}()
	for reserved := false; !reserved && ctx.Err() == nil; {
		reserved, _, _ = later.Holds(ctx, host.Ref{ID: "b", Epoch: epoch})
	}
	a, err := later.Do(ctx, host.Release{ID: "b", Gen: epoch})
	if err != nil {
		t.Error(err)
	}
	w.down.Unlock()
	return a.Verdict, <-told
}
