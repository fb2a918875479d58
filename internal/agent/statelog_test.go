package agent

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/ledger"
)

// logged is a host whose steps are written to a log, as Run does it.
type logged struct {
	t    *testing.T
	path string
	cfg  host.Config
	log  *stateLog
	host *host.Host
	now  host.Instant
	rand *rand.Rand
	ids  int64
	fast bool // no invariants after each step
}

func newLogged(t *testing.T, seed uint64) *logged {
	t.Helper()
	l := &logged{t: t, path: filepath.Join(t.TempDir(), "state.log"), cfg: host.DefaultConfig("h1", 2), rand: rand.New(rand.NewPCG(seed, 1))}
	l.cfg.MaxStarts, l.cfg.MaxWaitingStarts = 2, 4
	l.cfg.BootWithin = time.Second
	l.open()
	return l
}

func (l *logged) open() {
	l.t.Helper()
	log, got, err := openState(l.path, header{Host: "h1", BootID: "b"})
	if err != nil {
		l.t.Fatal(err)
	}
	if fresh(log, got) {
		log.head.Incarnation++
	}
	if err := log.start(log.head.Incarnation, got, l.now); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { log.close() })
	l.log, l.host = log, host.Restore(l.cfg, log.head.Incarnation, l.now, got.records)
	l.measured()
}

// fresh says that there was no life to go on with.
func fresh(log *stateLog, got *found) bool { return got.doubt != believed || log.head.Incarnation == 0 }

func (l *logged) measured() {
	l.step(host.Sample{Limits: []gate.Limit{{Name: "machine", Size: 64 * gate.GiB}}})
}

func (l *logged) step(ev host.Event) host.Answer {
	l.t.Helper()
	fx := l.host.Step(l.now, ev)
	if err := l.log.append(fx.Records, l.now); err != nil {
		l.t.Fatal(err)
	}
	if l.fast {
		return fx.Answer
	}
	if err := l.host.CheckInvariants(); err != nil {
		l.t.Fatal(err)
	}
	return fx.Answer
}

// random does something that an agent may be asked for at any time.
func (l *logged) random() {
	l.now += time.Duration(l.rand.IntN(60)) * time.Millisecond
	v := l.host.View()
	id := fmt.Sprint("s", l.rand.IntN(12))
	pick := func() host.Sandbox {
		if len(v.Sandboxes) == 0 {
			return host.Sandbox{ID: "none"}
		}
		return v.Sandboxes[l.rand.IntN(len(v.Sandboxes))]
	}
	switch l.rand.IntN(9) {
	case 0, 1, 2:
		l.ids++
		ask := gate.Ask{Class: "c", Memory: gate.GiB, Rule: gate.DefaultReserveRule()}
		l.step(host.Reserve{ID: id, Gen: l.ids, Ask: ask, Until: l.now + time.Second, Incarnation: l.log.head.Incarnation})
	case 3, 4:
		for g := max(l.ids-30, 1); g <= l.ids; g++ {
			if open, _ := l.host.Holds(id, g); open {
				l.step(host.Redeem{ID: id, Epoch: g, Identity: host.Identity{Key: id}})
			}
		}
	case 5:
		s := pick()
		l.step(host.Track{ID: s.ID, Epoch: s.Epoch, Process: host.Process{Pid: 7, Start: 8, Cgroup: "/c"}})
	case 6:
		s := pick()
		l.step(host.Done{ID: s.ID, Epoch: s.Epoch, Reason: "over"})
	case 7:
		l.step(host.Release{ID: id, Gen: l.ids})
	case 8:
		if ends := l.host.Unwritten(); len(ends) > 0 {
			e := ends[l.rand.IntN(len(ends))]
			l.step(host.Acked{ID: e.ID, Epoch: e.Epoch})
		}
		l.step(host.SetIntake{Intake: []host.Intake{host.IntakeOpen, host.IntakeCordoned}[l.rand.IntN(8)/7]})
	}
}

// restored is the host that a file's text leads to.
func (l *logged) restored(text []byte) (h *host.Host, records []host.Record, anew bool) {
	l.t.Helper()
	path := l.path + ".copy"
	if err := os.WriteFile(path, text, 0o600); err != nil {
		l.t.Fatal(err)
	}
	log, got, err := openState(path, header{Host: "h1", BootID: "b"})
	if err != nil {
		l.t.Fatal(err)
	}
	defer log.close()
	h = host.Restore(l.cfg, log.head.Incarnation, l.now, got.records)
	h.Step(l.now, host.Tick{})
	if err := h.CheckInvariants(); err != nil {
		l.t.Fatal(err)
	}
	return h, got.records, fresh(log, got)
}

// Property: any prefix of a log restores a state of which everything was so at some time,
// and opens nothing that the prefix says was closed.
func TestAnyPrefixOfALog(t *testing.T) {
	for seed := range uint64(4) {
		l := newLogged(t, seed)
		for range 80 {
			l.random()
		}
		text, err := os.ReadFile(l.path)
		if err != nil {
			t.Fatal(err)
		}
		l.now += time.Millisecond
		step := max(len(text)/60, 1)
		for cut := 0; cut <= len(text); cut += 1 + l.rand.IntN(step) {
			h, records, fresh := l.restored(text[:cut])
			whole := bytes.Count(text[:cut], []byte("\n"))
			if fresh != (whole == 0) {
				t.Fatalf("seed %d, %d bytes: fresh %v", seed, cut, fresh)
			}
			if len(records) != max(whole-1, 0) {
				t.Fatalf("seed %d, %d bytes: %d records of %d lines", seed, cut, len(records), whole)
			}
			l.subset(h, records)
		}
	}
}

// A file that is torn at any byte whatever, as by a crash or a full disk, restores what its whole
// lines say and nothing else; torn within its header it is none. And an agent goes on from there.
func TestALogTornAtEveryByte(t *testing.T) {
	l := newLogged(t, 11)
	for range 14 {
		l.random()
	}
	text, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	l.now += time.Millisecond
	for cut := range len(text) + 1 {
		h, records, fresh := l.restored(text[:cut])
		whole := bytes.Count(text[:cut], []byte("\n"))
		if fresh != (whole == 0) || len(records) != max(whole-1, 0) {
			t.Fatalf("%d of %d bytes: fresh %v, %d records of %d lines", cut, len(text), fresh, len(records), whole)
		}
		l.subset(h, records)
		if cut%64 == 0 {
			l.goesOn(text[:cut], records)
		}
	}
}

// goesOn begins a life on a torn file, and proves that the next one finds all of both.
func (l *logged) goesOn(text []byte, records []host.Record) {
	l.t.Helper()
	path := l.path + ".torn"
	if err := os.WriteFile(path, text, 0o600); err != nil {
		l.t.Fatal(err)
	}
	want := header{Host: "h1", BootID: "b"}
	log, got, err := openState(path, want)
	if err != nil {
		l.t.Fatal(err)
	}
	extra := host.Record{Kind: host.RecordIntake, Intake: host.IntakeCordoned}
	if err := errors.Join(log.start(7, got, l.now), log.append([]host.Record{extra}, l.now), log.close()); err != nil {
		l.t.Fatal(err)
	}
	log, got, err = openState(path, want)
	if err != nil || fresh(log, got) || got.torn > 0 {
		l.t.Fatalf("%d bytes: %+v, %v", len(text), got, err)
	}
	defer log.close()
	a, b := host.Restore(l.cfg, 7, l.now, append(records, extra)), host.Restore(l.cfg, 7, l.now, got.records)
	if !reflect.DeepEqual(live(a, l.now), live(b, l.now)) {
		l.t.Fatalf("%d bytes: %+v after %+v", len(text), live(b, l.now), live(a, l.now))
	}
}

// The agent's own keys, torn at any byte, are made anew: what they signed was for reservations of
// the same fate.
func TestOwnKeysTornAtEveryByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), ownKeysFile)
	if _, err := openOwnKeys(path, "h1"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(text) {
		if err := os.WriteFile(path, text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := openOwnKeys(path, "h1")
		if err != nil || keys.Audience() != "h1" {
			t.Fatalf("%d of %d bytes: %v", cut, len(text), err)
		}
		again, err := openOwnKeys(path, "h1")
		if err != nil || !reflect.DeepEqual(keys, again) {
			t.Fatalf("%d of %d bytes: made anew and not kept: %v", cut, len(text), err)
		}
	}
}

// subset fails unless the host holds only what the records' last word says it does.
func (l *logged) subset(h *host.Host, records []host.Record) {
	l.t.Helper()
	last := map[host.Name]host.Record{}
	for _, r := range records {
		last[r.Name()] = r
	}
	for name, r := range last {
		reserved, running := h.Holds(name.ID, r.Epoch)
		switch {
		case name.Kind == host.RecordReservation && reserved && r.State != ledger.Open:
			l.t.Fatalf("%s is open again: %+v", name.ID, r)
		case name.Kind == host.RecordSandbox && running && r.Gone:
			l.t.Fatalf("%s runs again: %+v", name.ID, r)
		}
	}
	for _, s := range h.View().Sandboxes {
		if _, known := last[host.Name{Kind: host.RecordSandbox, ID: s.ID}]; !known {
			l.t.Fatalf("sandbox %s from nowhere", s.ID)
		}
	}
}

// The whole of a log restores the whole of the host, and so does a compacted one.
func TestALogRestoresItsHost(t *testing.T) {
	for seed := range uint64(8) {
		l := newLogged(t, seed)
		for range 5 {
			for range 100 {
				l.random()
			}
			l.step(host.Tick{})
			want := live(l.host, l.now)
			text, err := os.ReadFile(l.path)
			if err != nil {
				t.Fatal(err)
			}
			if h, _, _ := l.restored(text); !reflect.DeepEqual(live(h, l.now), want) {
				t.Fatalf("seed %d: restored\n%+v\nwant\n%+v", seed, live(h, l.now), want)
			}
			if err := l.log.rewrite(l.now); err != nil {
				t.Fatal(err)
			}
			short, err := os.ReadFile(l.path)
			if err != nil {
				t.Fatal(err)
			}
			if len(short) > len(text) {
				t.Errorf("compacting made %d bytes of %d", len(short), len(text))
			}
			if h, _, _ := l.restored(short); !reflect.DeepEqual(live(h, l.now), want) {
				t.Fatalf("seed %d: compacted\n%+v\nwant\n%+v", seed, live(h, l.now), want)
			}
			l.log.close()
			l.open() // and goes on from there
		}
	}
}

// live are a host's records that still say something.
func live(h *host.Host, now host.Instant) (out []host.Record) {
	for _, r := range h.Records() {
		if !r.Expired(now) {
			out = append(out, r)
		}
	}
	return out
}

// The file stays as long as what is live, however much comes and goes: accepted or refused.
func TestALogStaysShort(t *testing.T) {
	l := newLogged(t, 1)
	l.fast = true
	most := 0
	for i := range int64(20_000) {
		l.now += time.Millisecond
		id := fmt.Sprint("d", i)
		ask := gate.Ask{Class: "c", Memory: gate.GiB, Rule: gate.DefaultReserveRule()}
		if i%2 == 0 {
			ask.Memory = gate.PiB / 2 // refused, and remembered for a while
		}
		l.step(host.Reserve{ID: id, Gen: 1, Ask: ask, Until: l.now + time.Second, Incarnation: l.log.head.Incarnation})
		l.step(host.Release{ID: id, Gen: 1})
		for _, e := range l.host.Unwritten() {
			l.step(host.Acked{ID: e.ID, Epoch: e.Epoch})
		}
		most = max(most, l.log.lines)
	}
	// 2,000 ids a TTL, each remembered for two.
	if limit := 4 * (compactAt + 4000); most > limit || len(l.log.live) > limit {
		t.Errorf("%d lines, %d live, for %d of which something is remembered", most, len(l.log.live), len(live(l.host, l.now)))
	}
}

// A write that fails half-way is made good by the next one, and nothing is lost by it.
func TestAfterAFailedWrite(t *testing.T) {
	l := newLogged(t, 3)
	for range 50 {
		l.random()
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	good := l.log.file
	good.WriteString(`{"kind":"reservation","id":"torn","ep`) // what got through before the disk was full
	l.log.file = full
	fx := l.host.Step(l.now, host.Reserve{ID: "new", Gen: l.ids + 1, Ask: gate.Ask{Memory: gate.GiB}, Until: l.now + time.Second, Incarnation: l.log.head.Incarnation})
	err = l.log.append(fx.Records, l.now)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "until there is room") {
		t.Fatalf("a full disk: %v", err)
	}
	if err := l.log.append(nil, l.now); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	good.Close()
	text, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	if h, _, _ := l.restored(text); !reflect.DeepEqual(live(h, l.now), live(l.host, l.now)) {
		t.Errorf("restored %+v\nwant %+v", live(h, l.now), live(l.host, l.now))
	}
	l.step(host.Tick{})
}

// A log that cannot be compacted for want of room goes on as it is.
func TestNoRoomToCompact(t *testing.T) {
	l := newLogged(t, 4)
	if err := os.MkdirAll(l.path+".new/in/the/way", 0o700); err != nil {
		t.Fatal(err)
	}
	l.log.lines = 10 * compactAt
	for range 20 {
		l.random()
	}
	text, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	if h, _, _ := l.restored(text); !reflect.DeepEqual(live(h, l.now), live(l.host, l.now)) {
		t.Error("what was written meanwhile is lost")
	}
}

// FuzzOpenState: whatever is in the file, it is read or begun anew, and never panics.
func FuzzOpenState(f *testing.F) {
	f.Add([]byte(`{"version":1,"host":"h1","boot_id":"b","incarnation":3}` + "\n" +
		`{"kind":"reservation","id":"a","epoch":1,"need":1,"until":99999999999,"ask":{"Memory":1}}` + "\n" +
		`{"kind":"sandbox","id":"b","epoch":1,"phase":"running","process":{"pid":1}}` + "\n"))
	f.Add([]byte("\n"))
	f.Add([]byte(`{"version":1`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, "state.log")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		log, got, err := openState(path, header{Host: "h1", BootID: "b"})
		if err != nil {
			t.Fatal(err)
		}
		defer log.close()
		for _, r := range got.records {
			open := r.Kind == host.RecordReservation && r.State == ledger.Open && !r.Gone
			if got.doubt != believed && (got.doubt != damaged || open) {
				t.Errorf("%s, and taken over: %+v", got.doubt, r)
			}
		}
		if kept, err := os.ReadFile(keptPath(path)); got.kept != "" && (err != nil || !bytes.Equal(kept, text)) {
			t.Errorf("kept %q of %q, %v", kept, text, err)
		}
		if err := log.start(1, got, 0); err != nil {
			t.Fatal(err)
		}
	})
}

// What is kept of a file that grew beyond measure is cut, and not before the next one is there.
func TestKeptIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.log")
	if err := errors.Join(os.WriteFile(path, []byte("\x00\n"), 0o644), os.Truncate(path, keepMost+1)); err != nil {
		t.Fatal(err)
	}
	log, got, err := openState(path, header{Host: "h1", BootID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.close()
	if info, err := os.Stat(path); err != nil || info.Size() != keepMost+1 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := errors.Join(log.start(1, got, 0), got.bound()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(keptPath(path)); err != nil || info.Size() != keepMost || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
