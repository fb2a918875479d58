package table

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
)

func stateless(mem gate.Bytes) gate.Ask {
	return gate.Ask{Memory: mem, Rule: gate.DefaultReserveRule()}
}

func stateful(mem gate.Bytes) gate.Ask { return gate.Ask{Memory: mem, Stateful: true} }

// plain is an open host of 32 GiB.
func plain(id string, admittable gate.Bytes) Verdict {
	return Verdict{
		Host: id, Sequence: 1, Limit: 32 * gate.GiB, MaxAsk: 30 * gate.GiB, Admittable: admittable,
		Free: admittable, CPUFreeMilli: 8000,
	}
}

func with(t testing.TB, o Options, words ...Verdict) *Table {
	t.Helper()
	o.Buckets = 128 // the checks after each step look at all of them
	tb := New(o)
	for _, v := range words {
		if _, err := tb.Observe(&v, 0); err != nil {
			t.Fatal(err)
		}
	}
	return tb
}

// fill picks and charges until there is no room, and returns how many fitted.
func fill(t testing.TB, tb *Table, a gate.Ask) int {
	t.Helper()
	for n := 0; ; n++ {
		c, ok := tb.Pick(0, &a, &PickOptions{Rand: uint64(n)})
		if err := tb.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
		if !ok {
			return n
		}
		tb.Charge(c.Ref, &a, 0)
	}
}

func essayHeartbeat(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/heartbeat.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The essay's sample heartbeat: 25 stateless sandboxes of 4 GiB fit and the 26th does not; 6 stateful.
func TestEssayHeartbeat(t *testing.T) {
	v, err := ParseHeartbeat(essayHeartbeat(t))
	if err != nil {
		t.Fatal(err)
	}
	if v.Host != "agent-3f2a" || v.Admittable != 25600*gate.MiB || v.Free != 28588*gate.MiB || v.CPUFreeMilli != 11800 || !v.StreamRestore {
		t.Errorf("read %+v", v)
	}
	if n := fill(t, with(t, Options{}, v), stateless(4*gate.GiB)); n != 25 {
		t.Errorf("%d stateless, want 25", n)
	}
	if n := fill(t, with(t, Options{}, v), stateful(4*gate.GiB)); n != 6 {
		t.Errorf("%d stateful, want 6", n)
	}
}

// T17, F10: a report that cannot be true is no candidate, and neither is one that cannot be read.
func TestHeartbeatsThatCannotBeTrue(t *testing.T) {
	good := string(essayHeartbeat(t))
	for _, change := range [][2]string{
		{`25600`, `-1`},
		{`25600`, `32769`},
		{`25600`, `NaN`},
		{`25600`, `null`},
		{`25600`, `1e999`},
		{`4180`, `-1`},
		{`4180`, `32769`},
		{`32768`, `0`},
		{`"cpu_total": 16`, `"cpu_total": 0`},
		{`4.2,`, `16.5,`},
		{`4.2,`, `-1,`},
		{`"working-set"`, `"generous"`},
		{`"agent-3f2a"`, `""`},
		{`"2026-09-08T11:04:22Z"`, `"yesterday"`},
		{`}`, ``},
		{`"memory_mb_admittable"`, `"memory_admittable"`},
	} {
		if _, err := ParseHeartbeat([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("took %s for %s", change[1], change[0])
		}
	}
}

func FuzzHeartbeat(f *testing.F) {
	f.Add(essayHeartbeat(f))
	f.Add([]byte(`{"agent_id":"a"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseHeartbeat(data)
		if err != nil {
			return
		}
		tb := with(t, Options{}, v)
		a := stateless(0)
		tb.Pick(0, &a, &PickOptions{})
		if err := tb.CheckInvariants(); err != nil {
			t.Fatal(err)
		}
	})
}

// T17: negative, over the limit, no limit at all: the host is out, and counted.
func TestInvalidVerdicts(t *testing.T) {
	for name, spoil := range map[string]func(*Verdict){
		"admittable -1":         func(v *Verdict) { v.Admittable = -1 },
		"admittable over limit": func(v *Verdict) { v.Admittable = v.Limit + 1 },
		"no limit":              func(v *Verdict) { v.Limit = 0 },
		"free -1":               func(v *Verdict) { v.Free = -1 },
		"free over limit":       func(v *Verdict) { v.Free = v.Limit + 1 },
		"giant":                 func(v *Verdict) { v.Limit, v.Free = math.MaxInt64, math.MaxInt64 },
		"largest ask -1":        func(v *Verdict) { v.MaxAsk = -1 },
		"cpu":                   func(v *Verdict) { v.CPUFreeMilli = math.MaxInt64 },
		"intake":                func(v *Verdict) { v.Intake = 9 },
		"mode":                  func(v *Verdict) { v.Mode = 9 },
		"dimension":             func(v *Verdict) { v.Dims = []gate.Dim{{Name: "gpus", N: -1}} },
	} {
		tb := with(t, Options{}, plain("a", 8*gate.GiB))
		v := plain("a", 8*gate.GiB)
		v.Sequence = 2
		spoil(&v)
		if ok, err := tb.Observe(&v, 0); ok || err == nil {
			t.Errorf("%s: taken", name)
		}
		a := stateless(gate.GiB)
		if _, ok := tb.Pick(0, &a, &PickOptions{}); ok || tb.Stats().Invalid != 1 {
			t.Errorf("%s: still a candidate", name)
		}
		y := tb.Explain(0, &a, &PickOptions{}, 1)
		if y.Counts[Invalid] != 1 || !slices.Equal(y.IDs[Invalid], []string{"a"}) || y.Heard() != 0 {
			t.Errorf("%s: %+v", name, y)
		}
		mended := plain("a", 8*gate.GiB)
		mended.Sequence = 3
		tb.Observe(&mended, 0)
		if _, ok := tb.Pick(0, &a, &PickOptions{}); !ok {
			t.Errorf("%s: a true report does not bring it back", name)
		}
	}
}

// T52, T53, T56, F13: judged by age of receipt, at the moment of the decision, to the millisecond;
// never by what a host last said of itself; nobody before it was heard.
func TestSilentHosts(t *testing.T) {
	const cutoff = 30 * time.Second
	a := stateless(gate.GiB)
	for age, want := range map[time.Duration]bool{
		0: true, cutoff - time.Millisecond: true, cutoff: false,
		cutoff + time.Millisecond: false, 2 * cutoff: false, 10 * time.Minute: false,
	} {
		tb := with(t, Options{}, plain("a", 8*gate.GiB))
		if _, ok := tb.Pick(age, &a, &PickOptions{}); ok != want {
			t.Errorf("age %v: picked %v", age, ok)
		}
		if y := tb.Explain(age, &a, &PickOptions{}, 0); y.Only(Silent) == want {
			t.Errorf("age %v: %+v", age, y.Map())
		}
	}
	tb := New(Options{})
	tb.Register(Registration{Host: "a", MaxAsk: 8 * gate.GiB})
	if _, ok := tb.Pick(0, &a, &PickOptions{}); ok || !tb.Feasible(&a) {
		t.Error("a host is offered before it was heard, or forgotten as a possibility")
	}
}

// A silent host comes back with its next word, and a word that was long under way is as old as it is.
func TestHeardAgain(t *testing.T) {
	a := stateless(gate.GiB)
	tb := with(t, Options{}, plain("a", 8*gate.GiB))
	tb.Pick(time.Minute, &a, &PickOptions{})
	v := plain("a", 8*gate.GiB)
	v.Sequence = 2
	tb.Observe(&v, 20*time.Second)
	if _, ok := tb.Pick(time.Minute, &a, &PickOptions{}); ok {
		t.Error("a word of 40 s ago counts as new")
	}
	v.Sequence = 3
	tb.Observe(&v, time.Minute)
	if _, ok := tb.Pick(time.Minute, &a, &PickOptions{}); !ok {
		t.Error("not picked though heard")
	}
	if err := tb.CheckInvariants(); err != nil {
		t.Error(err)
	}
}

// The highest stamp wins: reordered and doubled words change nothing, a new incarnation starts over.
func TestStamps(t *testing.T) {
	tb, a := New(Options{}), stateless(gate.GiB)
	for _, tc := range []struct {
		inc, seq   int64
		admittable gate.Bytes
		taken      bool
	}{{1, 5, 8, true}, {1, 4, 1, false}, {1, 5, 1, false}, {1, 6, 7, true}, {2, 1, 6, true}, {1, 99, 1, false}} {
		v := plain("a", tc.admittable*gate.GiB)
		v.Incarnation, v.Sequence = tc.inc, tc.seq
		if ok, err := tb.Observe(&v, 0); ok != tc.taken || err != nil {
			t.Errorf("%d.%d: taken %v, %v", tc.inc, tc.seq, ok, err)
		}
	}
	if n := fill(t, tb, a); n != 12 {
		t.Errorf("%d fit in 6 GiB at 512 MiB each", n)
	}
	if tb.Stats() != (Stats{Taken: 3, Ignored: 3}) {
		t.Errorf("%+v", tb.Stats())
	}
}

// Trap 1 (design.md §13), T02, T06, T07: the essay's Pick checks, then reserves, so that two
// concurrent picks both pass. Here the pick's owner charges in the same step, and the next pick
// sees it; a second replica's table cannot see it, and there the agent has the last word.
func TestTrap1CheckThenReserve(t *testing.T) {
	a := stateless(4 * gate.GiB)
	one, other := with(t, Options{}, plain("a", gate.GiB)), with(t, Options{}, plain("a", gate.GiB))
	first, ok := one.Pick(0, &a, &PickOptions{})
	if !ok {
		t.Fatal("the last room is not offered")
	}
	held := one.Charge(first.Ref, &a, 0)
	if _, ok := one.Pick(0, &a, &PickOptions{}); ok {
		t.Error("one replica offers the same room twice")
	}
	second, ok := other.Pick(0, &a, &PickOptions{})
	if !ok {
		t.Fatal("the other replica knows nothing of it yet")
	}
	account := gate.Account{Free: 2 * gate.GiB, Headroom: gate.GiB}
	admitted := 0
	for _, c := range []Choice{first, second} { // the agent: check and reserve in one step
		if gate.Fits(gate.Admittable(account), c.Need) {
			account.Reserved, admitted = account.Reserved.Add(c.Need), admitted+1
		}
	}
	if admitted != 1 {
		t.Errorf("the agent admitted %d", admitted)
	}
	if !one.Uncharge(held) || one.Uncharge(held) || one.Outstanding() != 0 {
		t.Error("a charge ends exactly once")
	}
	if _, ok := one.Pick(0, &a, &PickOptions{}); !ok {
		t.Error("the room of an ended charge is not offered again")
	}
}

// Trap 2 (design.md §13): the essay charges a quarter in the ledger on a committed host where it
// checks the whole.
func TestTrap2CommittedIsChargedWhole(t *testing.T) {
	v := plain("a", 29*gate.GiB)
	v.Mode = gate.Committed
	if n := fill(t, with(t, Options{}, v), stateless(4*gate.GiB)); n != 7 {
		t.Errorf("%d sandboxes of 4 GiB in 29 GiB committed, want 7", n)
	}
}

// Trap 3 (design.md §13): the essay's committed branch subtracts measured use, so that idle
// databases look free. Here the agent's admittable counts the promise, and the table takes its word.
func TestTrap3IdleDatabasesAreNotFree(t *testing.T) {
	ask, resident := stateful(4*gate.GiB), 300*gate.MiB
	running := gate.Bytes(7)
	account := gate.Account{
		Free: 32*gate.GiB - running*resident, Headroom: 1639 * gate.MiB,
		Unresident: running * (gate.Charge(ask, gate.Committed, gate.Usage{Resident: resident}) - resident),
	}
	v := plain("a", gate.Admittable(account))
	v.Mode, v.Free = gate.Committed, account.Free // 29.9 GiB untouched: what the essay would look at
	tb := with(t, Options{}, v)
	if _, ok := tb.Pick(0, &ask, &PickOptions{}); ok {
		t.Errorf("an eighth database fits %v", v.Admittable)
	}
	if y := tb.Explain(0, &ask, &PickOptions{}, 0); !y.Only(NoRoom) {
		t.Errorf("%v", y.Map())
	}
}

// T13: there is no ratio here to apply again. T16: nothing is cut to whole GiB. T22: exactly full fits.
func TestExactlyWhatTheHostSays(t *testing.T) {
	if n := fill(t, with(t, Options{}, plain("a", 2560*gate.MiB)), stateless(512*gate.MiB)); n != 5 {
		t.Errorf("%d of 0.5 GiB in 2.5 GiB", n)
	}
	a := stateful(8 * gate.GiB)
	for mem, want := range map[gate.Bytes]bool{8*gate.GiB - 1: false, 8 * gate.GiB: true} {
		if _, ok := with(t, Options{}, plain("a", mem)).Pick(0, &a, &PickOptions{}); ok != want {
			t.Errorf("8 GiB in %v: %v", mem, ok)
		}
	}
}

// T23: a refused giant leaves nothing behind. T83: what no host could ever hold is told apart.
func TestGiants(t *testing.T) {
	tb := with(t, Options{}, plain("a", 8*gate.GiB))
	for _, mem := range []gate.Bytes{1 << 62, math.MaxInt64, 31 * gate.GiB, -1} {
		a := stateful(mem)
		if _, ok := tb.Pick(0, &a, &PickOptions{}); ok || tb.Feasible(&a) {
			t.Errorf("%v: picked or feasible", mem)
		}
	}
	a := stateful(30 * gate.GiB)
	if _, ok := tb.Pick(0, &a, &PickOptions{}); ok || !tb.Feasible(&a) {
		t.Error("30 GiB do not fit now, but would in an empty host")
	}
	small := stateless(gate.GiB)
	if _, ok := tb.Pick(0, &small, &PickOptions{}); !ok || tb.Outstanding() != 0 {
		t.Error("a refused giant is counted")
	}
}

// Feasible looks at silent, cordoned and draining hosts, at labels and at dimensions' sizes.
func TestFeasible(t *testing.T) {
	v := plain("a", 0)
	v.Intake, v.Labels = IsCordoned, []gate.Label{{Name: "zone", Value: "a"}}
	v.Dims, v.Limits = []gate.Dim{{Name: "gpus", N: 0}, {Name: "disk", N: 0}}, []gate.Dim{{Name: "gpus", N: 2}}
	tb := with(t, Options{}, v)
	for _, tc := range []struct {
		ask  gate.Ask
		want bool
	}{
		{gate.Ask{Memory: gate.GiB}, true},
		{gate.Ask{Memory: gate.GiB, Labels: v.Labels}, true},
		{gate.Ask{Memory: gate.GiB, Labels: []gate.Label{{Name: "zone", Value: "b"}}}, false},
		{gate.Ask{Memory: gate.GiB, Dims: []gate.Dim{{Name: "gpus", N: 2}}}, true},
		{gate.Ask{Memory: gate.GiB, Dims: []gate.Dim{{Name: "gpus", N: 3}}}, false},
		{gate.Ask{Memory: gate.GiB, Dims: []gate.Dim{{Name: "disk", N: 99}}}, true}, // its size is not known
		{gate.Ask{Memory: gate.GiB, Dims: []gate.Dim{{Name: "slots", N: 1}}}, false},
	} {
		tb.Pick(time.Hour, &tc.ask, &PickOptions{})
		if got := tb.Feasible(&tc.ask); got != tc.want {
			t.Errorf("%+v: %v", tc.ask, got)
		}
	}
	if empty := stateless(0); New(Options{}).Feasible(&empty) {
		t.Error("an empty table finds a host")
	}
}

// T11, T27, T64, T78, T79: a refusal counts hosts by reason, names them, and names the dimension.
func TestTallyNamesReasonsAndHosts(t *testing.T) {
	words := []Verdict{
		plain("drain", 9*gate.GiB), plain("cordon", 9*gate.GiB), plain("press", 9*gate.GiB), plain("full", gate.GiB),
		plain("zone", 9*gate.GiB), plain("nogpu", 9*gate.GiB), plain("out", 9*gate.GiB), plain("nodim", 9*gate.GiB),
	}
	words[0].Intake, words[1].Intake, words[2].Intake = IsDraining, IsCordoned, UnderPressure
	zone := []gate.Label{{Name: "zone", Value: "a"}}
	for i := range words {
		words[i].Labels, words[i].Dims = zone, []gate.Dim{{Name: "gpus", N: 1}}
	}
	words[4].Labels, words[5].Dims[0].N, words[7].Dims = nil, 0, nil
	tb := with(t, Options{}, words...)
	tb.Register(Registration{Host: "never"})
	a := gate.Ask{Memory: 4 * gate.GiB, Stateful: true, Labels: zone, Dims: []gate.Dim{{Name: "gpus", N: 1}}}
	o := &PickOptions{Exclude: []string{"out"}}
	if c, ok := tb.Pick(0, &a, o); ok {
		t.Fatalf("picked %s", c.Host)
	}
	y := tb.Explain(0, &a, o, 1)
	want := map[string]int{"unheard": 1, "draining": 1, "cordoned": 1, "pressure": 1, "excluded": 1, "labels": 1, "no_room": 1, "dimension:gpus": 2}
	if got := y.Map(); fmt.Sprint(got) != fmt.Sprint(want) || y.Hosts != 9 || y.Heard() != 8 {
		t.Errorf("%v", got)
	}
	if y.IDs[Pressure][0] != "press" || y.IDs[NoRoom][0] != "full" || len(y.Dims[0].IDs) != 1 || y.Only(Pressure) {
		t.Errorf("%+v", y)
	}
}

// T58: what is shut, for whichever reason, is never picked, however empty it is.
func TestShutHosts(t *testing.T) {
	a := stateless(gate.GiB)
	for _, intake := range []Intake{UnderPressure, IsCordoned, IsDraining} {
		shut, small := plain("shut", 30*gate.GiB), plain("small", gate.GiB)
		shut.Intake = intake
		tb := with(t, Options{}, shut, small)
		if c, ok := tb.Pick(0, &a, &PickOptions{}); !ok || c.Host != "small" {
			t.Errorf("%v: picked %q", intake, c.Host)
		}
		if _, ok := tb.Pick(0, &a, &PickOptions{Require: "shut"}); ok {
			t.Errorf("%v: picked by name", intake)
		}
		if c, ok := tb.Pick(0, &a, &PickOptions{Prefer: "shut"}); !ok || c.Host != "small" {
			t.Errorf("%v: a preference is not a condition", intake)
		}
	}
}

// T05: a batch is spread by what was charged a moment ago, and each dimension with it.
func TestChargesCountInDimensionsAndScore(t *testing.T) {
	a, b := plain("a", 30*gate.GiB), plain("b", 30*gate.GiB)
	a.Dims, b.Dims = []gate.Dim{{Name: "slots", N: 3}}, []gate.Dim{{Name: "slots", N: 5}}
	tb := with(t, Options{}, a, b)
	ask := stateful(2 * gate.GiB)
	ask.Dims = []gate.Dim{{Name: "slots", N: 1}}
	hosts := map[string]int{}
	for n := range 8 {
		c, ok := tb.Pick(0, &ask, &PickOptions{Rand: uint64(n)})
		if !ok {
			t.Fatalf("%d of 8", n)
		}
		tb.Charge(c.Ref, &ask, 0)
		hosts[c.Host]++
		if n == 5 && (hosts["a"] != 3 || hosts["b"] != 3) {
			t.Errorf("not spread: %v", hosts)
		}
	}
	if _, ok := tb.Pick(0, &ask, &PickOptions{}); ok || hosts["a"] != 3 || hosts["b"] != 5 {
		t.Errorf("%v", hosts)
	}
	again := b // the same sizes, declared in another order of dimensions: charges still count
	again.Sequence, again.Dims = 2, []gate.Dim{{Name: "gpus", N: 1}, {Name: "slots", N: 5}}
	tb.Observe(&again, 0)
	if err := tb.CheckInvariants(); err != nil {
		t.Error(err)
	}
	if _, ok := tb.Pick(0, &ask, &PickOptions{}); ok {
		t.Error("open charges were forgotten with the dimensions' order")
	}
}

func TestPackPrefersTheFullestThatFits(t *testing.T) {
	tb := with(t, Options{Strategy: Pack}, plain("empty", 30*gate.GiB), plain("half", 12*gate.GiB), plain("full", 2*gate.GiB))
	for mem, want := range map[gate.Bytes]string{gate.GiB: "full", 4 * gate.GiB: "half", 20 * gate.GiB: "empty"} {
		a := stateful(mem)
		if c, _ := tb.Pick(0, &a, &PickOptions{}); c.Host != want {
			t.Errorf("%v: %q, want %q", mem, c.Host, want)
		}
	}
}

// Equal hosts get about equal shares of picks, across groups too.
func TestRandomWithinTheBestBucket(t *testing.T) {
	tb := New(Options{})
	for i := range 20 {
		v := plain(fmt.Sprintf("h%d", i), 8*gate.GiB)
		if i == 0 {
			v.Mode = gate.Committed // a group of its own: still one host of twenty
		}
		tb.Observe(&v, 0)
	}
	a, n := stateless(gate.GiB), map[string]int{}
	for i := range 20_000 {
		c, _ := tb.Pick(0, &a, &PickOptions{Rand: uint64(i)})
		n[c.Host]++
	}
	for id, k := range n {
		if k < 800 || k > 1200 {
			t.Errorf("%s: %d of 20000", id, k)
		}
	}
}

// More kinds of hosts than groups: the rest share a mixed group and are still found exactly.
func TestManyLabels(t *testing.T) {
	tb := New(Options{Buckets: 16})
	for i := range 300 {
		v := plain(fmt.Sprintf("h%d", i), gate.Bytes(1+i%7)*gate.GiB)
		v.Mode, v.Labels = gate.Mode(i%2), []gate.Label{{Name: "host", Value: v.Host}}
		tb.Observe(&v, 0)
	}
	if err := tb.CheckInvariants(); err != nil {
		t.Fatal(err)
	}
	if len(tb.groups) > maxGroups {
		t.Fatalf("%d groups", len(tb.groups))
	}
	for i := range 300 {
		a := stateless(512 * gate.MiB)
		a.Labels = []gate.Label{{Name: "host", Value: fmt.Sprintf("h%d", i)}}
		if c, ok := tb.Pick(0, &a, &PickOptions{}); !ok || c.Host != a.Labels[0].Value {
			t.Fatalf("h%d: %v %v", i, c, ok)
		}
	}
	if a := stateless(512 * gate.MiB); fill(t, tb, a) == 0 {
		t.Error("nothing fits anywhere")
	}
}

func TestForget(t *testing.T) {
	tb, a := with(t, Options{}, plain("a", 8*gate.GiB)), stateless(gate.GiB)
	c, _ := tb.Pick(0, &a, &PickOptions{})
	held := tb.Charge(c.Ref, &a, 0)
	if !tb.Forget("a") || tb.Forget("a") || tb.Len() != 0 {
		t.Error("forgotten exactly once")
	}
	v := plain("b", 8*gate.GiB)
	v.Labels = zones[:1]
	tb.Observe(&v, 0)
	if tb.Charge(c.Ref, &a, 0) != (Charge{}) || !tb.Uncharge(held) {
		t.Error("a stale ref charges another host, or its charge does not end")
	}
	if err := tb.CheckInvariants(); err != nil {
		t.Error(err)
	}
	if _, ok := tb.Lookup("a"); ok {
		t.Error("still found")
	}
}

// No refusal leaves before the most promising hosts were asked: open, labelled, most room first.
func TestPromising(t *testing.T) {
	tb := New(Options{})
	for i := range 50 {
		v := plain(fmt.Sprintf("h%d", i), gate.Bytes(i)*64*gate.MiB)
		if i == 49 {
			v.Intake = UnderPressure
		}
		tb.Observe(&v, 0)
	}
	a := stateful(16 * gate.GiB)
	got := tb.Promising(0, &a, &PickOptions{}, nil, 32)
	if len(got) != 32 || got[0].Host != "h48" || got[31].Host != "h17" || got[0].Need != 16*gate.GiB {
		t.Errorf("%v", got)
	}
}

func TestHotPathsAllocateNothing(t *testing.T) {
	tb := New(Options{})
	words := make([]Verdict, 500)
	for i := range words {
		words[i] = plain(fmt.Sprintf("h%d", i), gate.Bytes(i%30)*gate.GiB)
		words[i].Dims, words[i].Labels = []gate.Dim{{Name: "slots", N: 50}}, zones[:1]
		tb.Observe(&words[i], 0)
	}
	a := stateless(4 * gate.GiB)
	a.Dims, a.Labels = []gate.Dim{{Name: "slots", N: 1}}, zones[:1]
	n := uint64(0)
	op := func() {
		n++
		c, ok := tb.Pick(0, &a, &PickOptions{Rand: n})
		if !ok {
			t.Fatal("no room")
		}
		v := &words[n%500]
		v.Sequence++
		tb.Observe(v, 0)
		tb.Uncharge(tb.Charge(c.Ref, &a, 0))
	}
	for range 2000 {
		op()
	}
	if got := testing.AllocsPerRun(1000, op); got != 0 {
		t.Errorf("%v allocations", got)
	}
	giant := stateful(31 * gate.GiB)
	if got := testing.AllocsPerRun(100, func() {
		tb.Pick(0, &giant, &PickOptions{})
		tb.Explain(0, &giant, &PickOptions{}, 0)
	}); got != 0 && len(giant.Labels) == 0 {
		t.Errorf("refusal: %v allocations", got)
	}
}

func BenchmarkPickChargeUncharge(b *testing.B) {
	for _, hosts := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			tb := New(Options{})
			for i := range hosts {
				v := plain(fmt.Sprintf("h%d", i), gate.Bytes(i*7919%29)*gate.GiB)
				v.CPUFreeMilli = int64(i * 104729 % 16000)
				tb.Observe(&v, 0)
			}
			a, n := stateless(4*gate.GiB), uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				n++
				c, _ := tb.Pick(0, &a, &PickOptions{Rand: n})
				tb.Uncharge(tb.Charge(c.Ref, &a, 0))
			}
		})
	}
}
