package host_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
)

// config is a host of two starts and a line of two. What it is asked for is charged a
// quarter, and 64 MiB at least.
func config() host.Config {
	cfg := host.DefaultConfig("h1", 4)
	cfg.MaxStarts, cfg.MaxWaitingStarts = 2, 2
	return cfg
}

func ask(mib int64) gate.Ask {
	return gate.Ask{
		Class: "agent", Memory: gate.FromMiB(mib), CPUMilli: 1000,
		Rule: gate.ReserveRule{Permille: 250, Floor: 64 * gate.MiB, SettleAfter: 10 * time.Second},
	}
}

// rig is a host under a clock, with the disk that its shell would keep. Every step checks
// what always holds (design §12).
type rig struct {
	t      testing.TB
	cfg    host.Config
	h      *host.Host
	now    host.Instant
	disk   map[host.Name]host.Record
	said   host.Verdict // after the last step
	told   host.Instant // when it last published
	voiced host.Verdict // and what
}

const incarnation = 41

func newRig(t testing.TB, cfg host.Config) *rig {
	return &rig{t: t, cfg: cfg, h: host.New(cfg, incarnation), disk: map[host.Name]host.Record{}, told: -time.Hour}
}

func (r *rig) step(ev host.Event) host.Effects {
	r.t.Helper()
	promised := false
	if e, ok := ev.(host.Redeem); ok {
		promised, _ = r.h.Holds(e.ID, e.Epoch)
	}
	before := r.h.View()
	fx := r.h.Step(r.now, ev)
	r.write(fx.Records)
	if err := r.h.CheckInvariants(); err != nil {
		r.t.Fatalf("after %#v at %v: %v", ev, r.now, err)
	}
	r.checkPromise(ev, fx)
	r.checkReopen(before, ev, fx)
	r.checkWaived(before, ev, fx)
	if _, ok := ev.(host.Redeem); ok && fx.Answer.Denial == "" && !promised {
		r.t.Fatalf("%#v booted without an open reservation", ev) // §12.5
	}
	r.checkVoice(ev, fx)
	r.checkDisk(ev)
	return fx
}

// §12.1: what was reserved in this step was within the line.
func (r *rig) checkPromise(ev host.Event, fx host.Effects) {
	r.t.Helper()
	e, ok := ev.(host.Reserve)
	opened := slices.ContainsFunc(fx.Records, func(rec host.Record) bool {
		return rec.Kind == host.RecordReservation && rec.ID == e.ID && rec.State == 0
	})
	if !ok || !opened {
		return
	}
	if fx.Answer.Would != "" { // see checkWaived
		return
	}
	v := r.h.View()
	if room := gate.Room(v.Account); room < 0 && fx.Answer.Need > 0 {
		r.t.Fatalf("%#v was promised, and the load is %s past the line", ev, -room)
	}
	if v.Verdict.Intake != host.IntakeOpen {
		r.t.Fatalf("%#v was promised by a host that is %s", ev, v.Verdict.Intake)
	}
}

// Nothing is let in past a no but in shadow, and without a reservation only there and, within
// the line, under a bypass.
func (r *rig) checkWaived(before host.View, ev host.Event, fx host.Effects) {
	r.t.Helper()
	by := r.h.Enforcement()
	if fx.Answer.Would != "" && by != host.Shadow {
		r.t.Fatalf("%#v passed a no (%s) on a host in %s", ev, fx.Answer.Would, by)
	}
	e, ok := ev.(host.Boot)
	if !ok || fx.Answer.Denial != "" || by == host.Shadow {
		return
	}
	v := r.h.View()
	room := gate.Room(v.Account)
	if before.Bypass.Until <= r.now || by != host.Enforce || v.Verdict.Intake != host.IntakeOpen || (room < 0 && gate.Need(e.Ask, r.cfg.Mode) > 0) {
		r.t.Fatalf("%#v was let in on a host in %s that is %s, with %s left and the bypass %+v", ev, by, v.Verdict.Intake, room, before.Bypass)
	}
}

// What is kept for a restart is never more than was charged, but for what still fitted.
func (r *rig) checkReopen(before host.View, ev host.Event, fx host.Effects) {
	r.t.Helper()
	for _, ref := range fx.Reopens {
		i := slices.IndexFunc(before.Sandboxes, func(s host.Sandbox) bool { return s.ID == ref.ID && s.Epoch == ref.Epoch })
		if i < 0 || !before.Sandboxes[i].Ask.HoldOnExit {
			r.t.Fatalf("%#v re-opened %v, which did not run here, or did not ask for it", ev, ref)
		}
		if more := fx.Answer.Need - before.Charges[i]; more > 0 && more > before.Verdict.Admittable && r.h.Enforcement() != host.Shadow {
			r.t.Fatalf("%#v re-opened %s for a charge of %s, with %s to promise", ev, fx.Answer.Need, before.Charges[i], before.Verdict.Admittable)
		}
		if fx.Answer.Until != r.now+r.cfg.BootWithin {
			r.t.Fatalf("%#v re-opened until %v at %v", ev, fx.Answer.Until, r.now)
		}
	}
}

// News at once, at most every 20 ms, a heartbeat every 10 s, each word newer than the last.
func (r *rig) checkVoice(ev host.Event, fx host.Effects) {
	r.t.Helper()
	v := fx.Answer.Verdict
	if !v.Newer(r.said) {
		r.t.Fatalf("after %#v the stamp %d/%d follows %d/%d", ev, v.Incarnation, v.Sequence, r.said.Incarnation, r.said.Sequence)
	}
	if v.Intake != host.IntakeOpen && v.Admittable != 0 {
		r.t.Fatalf("after %#v a host that is %s admits %s", ev, v.Intake, v.Admittable)
	}
	age, was := r.now-r.told, r.voiced.Admittable
	by := max(v.Admittable-was, was-v.Admittable)
	news := v.Enforcement != r.voiced.Enforcement || v.Bypass != r.voiced.Bypass || v.Intake != r.voiced.Intake || v.Standing != r.voiced.Standing || by >= 64*gate.MiB || 8*by >= was && by > 0 || (was == 0) != (v.Admittable == 0)
	for i, d := range r.voiced.Dims {
		news = news || (d.N <= 0) != (v.Dims[i].N <= 0)
	}
	switch {
	case fx.Publish && age < 20*time.Millisecond:
		r.t.Fatalf("after %#v published %v after the last word", ev, age)
	case !fx.Publish && age >= 10*time.Second, !fx.Publish && news && age >= 20*time.Millisecond:
		r.t.Fatalf("after %#v nothing was published for %v; %s became %s", ev, age, was, v.Admittable)
	case !fx.Publish && r.h.Due() > r.told+10*time.Second:
		r.t.Fatalf("after %#v a Tick is due at %v, last word at %v", ev, r.h.Due(), r.told)
	}
	r.said = v
	if fx.Publish {
		r.told, r.voiced = r.now, v
	}
}

func (r *rig) write(records []host.Record) {
	for _, rec := range records {
		r.disk[rec.Name()] = viaJSON(r.t, rec)
	}
}

func viaJSON(t testing.TB, rec host.Record) (out host.Record) {
	t.Helper()
	data, err := json.Marshal(rec)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatalf("%+v: %v", rec, err)
	}
	return out
}

// §12.8: at any instant the disk holds all that a restarted host needs, and a host that is
// restored from it is the one that was.
func (r *rig) checkDisk(ev host.Event) {
	r.t.Helper()
	restored := r.restore()
	if err := restored.CheckInvariants(); err != nil {
		r.t.Fatalf("after %#v, restored: %v", ev, err)
	}
	if want, got := r.h.Records(), restored.Records(); !reflect.DeepEqual(want, got) {
		r.t.Fatalf("after %#v the disk says otherwise (-host +disk):\n%s", ev, cmp.Diff(want, got))
	}
	was, is := r.h.View(), restored.View()
	if was.Verdict.Enforcement != is.Verdict.Enforcement || was.Bypass != is.Bypass || was.Reservations != is.Reservations || was.Account.Reserved != is.Account.Reserved || was.Starting != is.Starting ||
		was.InLine != is.InLine || was.Verdict.CPUFreeMilli != is.Verdict.CPUFreeMilli ||
		(was.Standing.ID == "" && !slices.Equal(was.Verdict.Dims, is.Verdict.Dims)) || is.Standing.ID != "" {
		r.t.Fatalf("after %#v the restored host is another:\n%+v\n%+v", ev, was, is)
	}
}

func (r *rig) restore() *host.Host {
	records := make([]host.Record, 0, len(r.disk))
	for _, rec := range r.disk {
		records = append(records, rec)
	}
	return host.Restore(r.cfg, incarnation, r.now, records)
}

// machine is a full sample of a machine with so much in use by others.
func machine(size, used int64, residents ...host.Resident) host.Sample {
	return host.Sample{
		Full: true, Sandboxes: residents,
		Limits: []gate.Limit{{Name: "machine", Size: gate.FromMiB(size), Used: gate.FromMiB(used)}},
	}
}

func (r *rig) reserve(id string, gen int64, a gate.Ask) host.Answer {
	r.t.Helper()
	return r.step(host.Reserve{ID: id, Gen: gen, Ask: a, Until: r.now + time.Minute, Incarnation: incarnation}).Answer
}

func (r *rig) redeem(id string, epoch int64) host.Answer {
	r.t.Helper()
	return r.step(host.Redeem{ID: id, Epoch: epoch}).Answer
}

func (r *rig) track(id string, epoch int64) host.Answer {
	r.t.Helper()
	return r.step(host.Track{ID: id, Epoch: epoch, Process: host.Process{Pid: 1}}).Answer
}

func (r *rig) done(id string, epoch int64) host.Answer {
	r.t.Helper()
	return r.step(host.Done{ID: id, Epoch: epoch}).Answer
}
