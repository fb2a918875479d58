package regimes

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/played"
	"github.com/plimsoll-project/plimsoll/internal/report/reporttest"
	"github.com/plimsoll-project/plimsoll/internal/workload"
)

// small is a fleet that is soon full.
func small() Options {
	o := DefaultOptions()
	o.Hosts, o.Hours, o.Tenants, o.Jobs = 1, 0.2, 5, 2
	return o
}

func result(t *testing.T, o Options) *Result {
	t.Helper()
	in, err := o.load()
	if err != nil {
		t.Fatal(err)
	}
	r, err := simulate(t.Context(), o, in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func text(t *testing.T, r *Result) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// One seed is one answer, however many fleets are played at a time; another seed is another.
func TestSameSeedSameAnswer(t *testing.T) {
	o := small()
	o.Hours = 0.05
	first := text(t, result(t, o))
	o.Jobs = 3
	if second := text(t, result(t, o)); second != first {
		t.Errorf("seed 1 gave\n%s\nand\n%s", first, second)
	}
	o.Seed = 2
	if other := text(t, result(t, o)); other == first {
		t.Error("seed 2 gave what seed 1 gave")
	}
}

// row is one of a result.
func (r *Result) row(regime string, quota bool) *Row {
	return &r.Regimes[slices.IndexFunc(r.Regimes, func(row Row) bool { return row.Regime == regime && row.Quota == quota })]
}

// The order is what all of this is about; and of what is promised nothing is broken. In batches
// and one by one.
func TestFittedRegimes(t *testing.T) {
	for _, batched := range []bool{false, true} {
		o := small()
		o.Batched, o.Load = batched, 220
		r := result(t, o)
		if err := r.Broken(); err != nil {
			t.Error(err)
		}
		if len(r.Regimes) != 10 || len(r.Sensitivity) != 20 || len(r.Together) != 10 {
			t.Fatalf("%d rows, %d at other loads, %d together", len(r.Regimes), len(r.Sensitivity), len(r.Together))
		}
		committed, learned, hindsight := r.row(Committed, false), r.row(Learned, false), r.row(Hindsight, false)
		if committed.MostPerHost != 7 || learned.PerHost < 10*committed.PerHost || hindsight.MostPerHost <= learned.MostPerHost {
			t.Errorf("per host: committed %v, learned %v, hindsight %v", committed.Figures, learned.Figures, hindsight.Figures)
		}
		for i := range r.Regimes {
			row := &r.Regimes[i]
			if row.Regime != None && row.Kills+row.OverPhysical != 0 || (row.Regime == Learned || row.Regime == Committed) && row.Evicted != 0 {
				t.Errorf("%s: %+v", row.Regime, row.Figures)
			}
			if row.Asked != r.Regimes[0].Asked || row.HostSeconds != r.Regimes[0].HostSeconds {
				t.Errorf("%s was asked for %d in %d host-seconds, and none for %d in %d", row.Regime, row.Asked, row.HostSeconds, r.Regimes[0].Asked, r.Regimes[0].HostSeconds)
			}
			if row.Regime == Hindsight && (row.WrongRefusals != 0 || row.Excess != 0) {
				t.Errorf("hindsight: %+v", row.Figures)
			}
			if n := row.Refused - row.Refusals.Quota - row.Waited - row.GaveUp - row.StillWaiting; n > 0 || !row.Quota && n < 0 {
				t.Errorf("%s: of those that were refused %d are nowhere: %+v", row.Regime, n, row.Figures)
			}
		}
	}
}

// steady are creates of lives that hold one amount, one a second.
func steady(n, seconds int, mib int64) (all []create) {
	life := played.AsItWas(slices.Repeat([]gate.Bytes{gate.FromMiB(mib)}, seconds))
	for i := range n {
		all = append(all, create{id: string(rune('a'+i/26)) + string(rune('a'+i%26)), at: time.Duration(i) * time.Second, size: 4 * gate.GiB, life: life})
	}
	return all
}

func played1(t *testing.T, name string, creates []create, quota int64) Figures {
	t.Helper()
	all := regimesAll()
	r := all[slices.IndexFunc(all, func(r regime) bool { return r.name == name })]
	p := play{
		regime: r, quota: quota, creates: creates, asks: asks{r.rule(nil, 4*gate.GiB), 4 * gate.GiB},
		size: 1, memory: 32 * gate.GiB, seconds: 300, tenants: 1, patient: 20 * time.Second, seed: 1,
	}
	f, err := p.run(t.Context(), func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// By hand: a host of 32 GiB holds 7 of 4 GiB by committed accounting. Of 20 that hold 2,000 MiB
// each, 15 fit below the headroom (31,129 MiB), and the 17th has the kernel kill one each time.
// Each refusal is judged for itself, beside those that run.
func TestByHand(t *testing.T) {
	twenty := steady(20, 250, 2000)
	for _, c := range []struct {
		regime                     string
		most                       int
		killed, refused, wrong     int64
		gaveUp, evicted, overQuota int64
		quota                      int64
	}{
		{regime: None, most: 17, killed: 4},
		{regime: Committed, most: 7, refused: 13, wrong: 13, gaveUp: 13},
		{regime: Hindsight, most: 15, refused: 5, gaveUp: 5},
		{regime: Hindsight, most: 6, refused: 14, overQuota: 14, quota: 6},
		{regime: None, most: 6, refused: 14, overQuota: 14, quota: 6},
		{regime: Committed, most: 6, refused: 14, overQuota: 14, quota: 6},
	} {
		f := played1(t, c.regime, twenty, c.quota)
		if f.MostPerHost != c.most || f.Kills != c.killed || f.Refused != c.refused || f.WrongRefusals != c.wrong ||
			f.GaveUp != c.gaveUp || f.Evicted != c.evicted || f.OverQuota != c.overQuota || f.Asked != 20 {
			t.Errorf("%s, quota %d: %+v\nwant %+v", c.regime, c.quota, f, c)
		}
	}
}

// A bet that is lost is paid by the host before the kernel comes: sandboxes that all grow.
func TestReclaimIsBeforeTheKernel(t *testing.T) {
	grows := make([]gate.Bytes, 200)
	for s := range grows {
		grows[s] = gate.FromMiB(100 + 5*int64(s))
	}
	creates := steady(30, 200, 0)
	for i := range creates {
		creates[i].at, creates[i].life = time.Duration(i)*time.Millisecond, played.AsItWas(grows)
	}
	f := played1(t, Essay, creates, 0)
	if f.Evicted == 0 || f.Kills != 0 || f.OverPhysical != 0 || f.LostWork == 0 || f.InHeadroom == 0 {
		t.Errorf("essay: %+v", f)
	}
	if f = played1(t, None, creates, 0); f.Kills == 0 || f.Evicted != 0 || f.LostWork == 0 {
		t.Errorf("none: %+v", f)
	}
}

// Who was refused is admitted when somebody has gone.
func TestRefusedComeBack(t *testing.T) {
	f := played1(t, Committed, steady(9, 15, 100), 0)
	if f.Refused != 2 || f.Waited != 2 || f.GaveUp != 0 || f.P50 <= 0 || f.P99 > 20 || f.PerHost < 5 {
		t.Errorf("%+v", f)
	}
}

// What lives on a host is counted to its end, and one that is taken out from then on.
func TestFuture(t *testing.T) {
	f := make(future, 6)
	life := played.AsItWas([]gate.Bytes{1, 2, 3})
	f.add(&life, 1, 0, +1)
	f.add(&life, 4, 0, +1)
	if want := (future{0, 1, 2, 3, 1, 2}); !slices.Equal(f, want) {
		t.Errorf("%v, want %v", f, want)
	}
	if !f.holds(&life, 2, 5) || f.holds(&life, 2, 4) || !f.holds(&life, 5, 3) {
		t.Errorf("%v holds what it does not, or not what it does", f)
	}
	f.add(&life, 1, 2, -1)
	if want := (future{0, 1, 2, 0, 1, 2}); !slices.Equal(f, want) {
		t.Errorf("%v, want %v", f, want)
	}
}

// Lives of a file are runs drawn out and in proportion to the size; another load leaves batches
// out, or has them twice; who still ran lives to the end.
func TestRecorded(t *testing.T) {
	o := small()
	o.Hours, o.ConfiguredMB = 1, 4096
	in := input{judged: []workload.Run{{Resident: []gate.Bytes{100, 200}}}}
	for b := range 200 {
		in.arrivals = append(in.arrivals, workload.Arrival{At: time.Duration(b) * time.Second, Batch: b, Configured: 8 * gate.GiB, Life: 3500 * time.Millisecond, Censored: b == 7})
	}
	all := in.creates(&o, 1)
	if c := &all[0]; len(all) != 200 || c.life.Seconds != 4 || c.life.At(1) != 200 || c.life.At(2) != 400 || c.size != 8*gate.GiB {
		t.Errorf("%d creates, the first %+v", len(all), all[0])
	}
	if got := all[7].life.Seconds; got != 3600-7 {
		t.Errorf("one that still ran lives for %d s", got)
	}
	for factor, want := range map[float64]int{0.8: 160, 1.2: 240} {
		if n := len(in.creates(&o, factor)); n < want-20 || n > want+20 {
			t.Errorf("%g of 200: %d", factor, n)
		}
	}
	o.Hours = 10.0 / 3600
	if n := len(in.creates(&o, 1)); n != 10 {
		t.Errorf("%d creates within 10 s", n)
	}
}

// Those of a batch live lives of their own, or all the same one.
func TestAlike(t *testing.T) {
	o := small()
	o.Batched = true
	in, err := o.load()
	if err != nil {
		t.Fatal(err)
	}
	different := func() (n int) {
		all := in.creates(&o, 1)
		for i := 1; i < len(all); i++ {
			if all[i].at == all[i-1].at && &all[i].life.Resident[0] != &all[i-1].life.Resident[0] {
				n++
			}
		}
		return n
	}
	if different() == 0 {
		t.Error("those of a batch live the same life")
	}
	if o.Alike = true; different() != 0 {
		t.Error("those of a batch do not live the same life")
	}
}

// A play that is stopped ends with the context's error, and soon.
func TestCanBeStopped(t *testing.T) {
	o := DefaultOptions()
	in, err := o.load()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	o.Progress = func(int64, int64) { stop() }
	if _, err := simulate(ctx, o, in); err == nil {
		t.Error("it went on to the end")
	}
}

// command runs plimsoll sim regimes with these words.
func command(words ...string) (string, error) {
	return reporttest.Output(Command(), words...)
}

func TestCommand(t *testing.T) {
	out, err := command("--hosts", "1", "--hours", "0.1", "--quota", "3")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"committed", "essay", "learned", "hindsight", "at other loads", "1 hosts of 32768 MiB for 0.1 h, 150 sandboxes"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestMistakesOfTheCommand(t *testing.T) {
	for words, want := range map[string]string{
		"--runs a.csv":                        "--runs and --memory go together",
		"--hosts 0":                           "--hosts 0",
		"--hosts 1001":                        "--hosts at most 1000",
		"--jobs 0":                            "--jobs 0",
		"--host-mb -1":                        "--host-mb -1",
		"--configured-mb 2048 --host-mb 1024": "--configured-mb 2048 is more than --host-mb 1024",
		"--hours 0":                           "--hours 0: above 0",
		"--hours NaN":                         "--hours NaN",
		"--hours 0.0001":                      "at least one second",
		"--hours 1000 --hosts 1000":           "give fewer --hours or --hosts",
		"--load 0":                            "--load 0: sandboxes per host",
		"--tenants 0":                         "--tenants 0: from 1",
		"--quota -1":                          "--quota -1",
		"--alike":                             "--alike: singles are like nobody",
		"--patience 1ms":                      "--patience 1ms: from 1s",
		"--arrivals a.csv --load 3":           "--load with --arrivals: the file says",
		"--arrivals a.csv --batched":          "--batched with --arrivals",
		"--arrivals none.csv":                 "none.csv",
		"--runs none.csv --memory none.csv":   "none.csv",
		"more":                                "unknown command",
	} {
		if _, err := command(strings.Fields(words)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", words, err, want)
		}
	}
}
