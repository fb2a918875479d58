package cli

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/admission"
	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/workload"
	"github.com/plimsoll-project/plimsoll/pool"
)

// ranFor is an admission that was asked for at noon and so much, began a second later and ended at
// noon and so much; 0: it still runs.
func ranFor(id string, asked, ended time.Duration) api.Admission {
	began := noon.Add(asked + time.Second)
	m := api.Admission{
		ID: id, Consumer: "ci", Tenant: "acme", Class: "agent", State: api.AdmissionStateRunning, MemoryMB: 1024, CPU: 0.5,
		CreatedAt: noon.Add(asked), StartedAt: &began,
	}
	if ended != 0 {
		end := noon.Add(ended)
		m.State, m.EndedAt = api.AdmissionStateReleased, &end
	}
	return m
}

func listAt(after time.Duration, all ...api.Admission) *api.AdmissionList {
	at := noon.Add(after)
	return &api.AdmissionList{At: &at, Admissions: all}
}

// A record of the last hour: what ran before it is there from its beginning with the rest of its
// life, what ended before it is not; what still runs, or would have, lives for at least that long.
func TestRecordOf(t *testing.T) {
	evicted := ranFor("e", 70*time.Minute, 80*time.Minute)
	evicted.State, evicted.Tenant = api.AdmissionStateEvicted, "other"
	gone := ranFor("g", 71*time.Minute, 90*time.Minute)
	gone.State = api.AdmissionStateLost
	refusedIt := ranFor("n", 72*time.Minute, 73*time.Minute)
	refusedIt.StartedAt = nil
	unsized := ranFor("u", 72*time.Minute, 0)
	unsized.MemoryMB = 0
	r := recordOf(listAt(2*time.Hour,
		ranFor("z", 70*time.Minute+200*time.Millisecond, 0), evicted, gone, refusedIt, unsized,
		ranFor("a", time.Minute, 0), ranFor("b", 2*time.Minute, 75*time.Minute), ranFor("c", 3*time.Minute, 59*time.Minute),
		ranFor("later", 121*time.Minute, 0), ranFor("after", 100*time.Minute, 121*time.Minute),
		ranFor("f", 70*time.Minute+900*time.Millisecond, 71*time.Minute),
	), time.Hour)
	arrival := func(at time.Duration, batch int, life time.Duration, censored bool) workload.Arrival {
		return workload.Arrival{At: at, Batch: batch, CPUMilli: 500, Configured: gate.GiB, Life: life, Censored: censored}
	}
	want := []workload.Arrival{
		arrival(0, 1, time.Hour, true),
		arrival(0, 2, 15*time.Minute, false),
		arrival(10*time.Minute, 3, 10*time.Minute-time.Second, true), // evicted
		arrival(10*time.Minute+200*time.Millisecond, 4, 50*time.Minute-1200*time.Millisecond, true),
		arrival(10*time.Minute+900*time.Millisecond, 4, time.Minute-1900*time.Millisecond, false),
		arrival(11*time.Minute, 5, 19*time.Minute-time.Second, true), // lost
		arrival(40*time.Minute, 6, 20*time.Minute-time.Second, true), // ended after the list began
	}
	if !slices.Equal(r.arrivals, want) || r.lasts != time.Hour || r.neverRan != 1 || r.unsized != 1 || r.byHosts != 0 {
		t.Errorf("%+v\nwant %+v", r, want)
	}
}

// A fleet that is younger than the record is told from its first arrival on.
func TestRecordOfAYoungFleet(t *testing.T) {
	r := recordOf(listAt(time.Hour, ranFor("a", 50*time.Minute, 0), ranFor("b", 40*time.Minute, 0)), 24*time.Hour)
	if len(r.arrivals) != 2 || r.arrivals[0].At != 0 || r.arrivals[1].At != 10*time.Minute || r.lasts != 20*time.Minute {
		t.Errorf("%+v", r)
	}
	if r := recordOf(listAt(time.Hour), 24*time.Hour); len(r.arrivals) != 0 || r.lasts != 0 {
		t.Errorf("of nobody: %+v", r)
	}
}

// At each instant of a record as many run as ran: whatever came before, ends after, or neither.
func TestRecordMissesNobody(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	minute := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	var all []api.Admission
	for i := range 500 {
		asked := r.IntN(180)
		all = append(all, ranFor(fmt.Sprint("a", i), minute(asked), minute(asked+2+r.IntN(90))))
	}
	rec := recordOf(listAt(minute(180), all...), time.Hour)
	if !slices.IsSortedFunc(rec.arrivals, func(a, b workload.Arrival) int { return int(a.At - b.At) }) {
		t.Error("not in the order of time")
	}
	for at := minute(121); at < minute(180); at += minute(1) {
		ran, played := 0, 0
		for _, m := range all {
			if !m.CreatedAt.After(noon.Add(at)) && m.EndedAt.After(noon.Add(at)) {
				ran++
			}
		}
		for _, a := range rec.arrivals {
			begins := a.At
			if at := at - minute(120); begins <= at && begins+a.Life > at { // less the second until it began
				played++
			}
		}
		if ran != played {
			t.Fatalf("at %v: %d ran, the record has %d", at, ran, played)
		}
	}
}

// What hosts alone record is in it, and that it is not the whole is told.
func TestRecordSaysWhatItLacks(t *testing.T) {
	alone := ranFor(admission.HostID("h1", pool.Time(noon.UnixMilli()), 7), time.Minute, 0)
	if r := recordOf(listAt(time.Hour, alone), time.Hour); r.byHosts != 1 || len(r.arrivals) != 1 {
		t.Errorf("%+v", r)
	}
	r := record{arrivals: make([]workload.Arrival, 1200), lasts: 5 * time.Hour, neverRan: 3, byHosts: 1}
	var out strings.Builder
	if err := r.explain(&out); err != nil {
		t.Fatal(err)
	}
	want := "1,200 arrivals over 5 h; 3 not in it since they did not run, or not yet; 1 in it of classes that hosts alone record: what ended of those is not known any more\n"
	if out.String() != want {
		t.Errorf("%q\nwant %q", out.String(), want)
	}
}
