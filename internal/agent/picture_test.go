package agent_test

import (
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/client/boot"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/internal/agent"
	"github.com/plimsoll-project/plimsoll/internal/hostmem"
	"github.com/plimsoll-project/plimsoll/internal/workload"
)

// What the pictures of docs/pictures show is measured here, of real processes under real
// limits, and written where internal/pictures draws from.
var measureInto = flag.String("measure", "", "write what the pictures are drawn from into this `directory`")

// notes is a CSV file that grows, with what it was measured by above its header.
type notes struct {
	t    *testing.T
	name string
	rows [][]string
}

func measured(t *testing.T, name string, header ...string) *notes {
	t.Helper()
	if *measureInto == "" {
		t.Skip("measures for minutes what a picture is drawn from: go test -measure DIR")
	}
	needsCgroups(t)
	return &notes{t: t, name: name, rows: [][]string{header}}
}

func (n *notes) add(fields ...any) {
	row := make([]string, len(fields))
	for i, f := range fields {
		row[i] = fmt.Sprint(f)
	}
	n.rows = append(n.rows, row)
}

func (n *notes) save() {
	n.t.Helper()
	into, err := filepath.Abs(*measureInto)
	if err != nil {
		n.t.Fatal(err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# go test ./internal/agent -run ^%s$ -args -measure ../pictures/data\n", n.t.Name())
	w := csv.NewWriter(&text)
	if err := w.WriteAll(n.rows); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(into, n.name), []byte(text.String()), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// every calls f so often until it says that it is done, with the time since it began.
func every(each time.Duration, f func(at time.Duration) bool) {
	tick := time.NewTicker(each)
	defer tick.Stop()
	for began := time.Now(); !f(time.Since(began)); {
		<-tick.C
	}
}

// A life: two processes that hold, second by second, what one run of the fitted model does. One
// stands under the prior, the other under a learned reserve of 258 MiB, which is what half of
// the real runs taught.
func TestPictureOfALife(t *testing.T) {
	n := measured(t, "life.csv", "s", "resident_mb", "charge_prior_mb", "charge_learned_mb")
	run := workload.Fitted(200, 2)[36]
	r := startRig(t, func(c *agent.Config) { c.SampleSandboxes = 500 * time.Millisecond })
	prior := gate.Ask{Class: "agent", Memory: 4 * gate.GiB, Rule: gate.DefaultReserveRule()}
	learned := prior
	learned.Rule.Learned = gate.FromMiB(258)
	all := []*fed{r.feed("prior", prior), r.feed("learned", learned)}
	every(time.Second, func(at time.Duration) bool {
		s := int(at.Round(time.Second) / time.Second)
		v := r.view()
		if len(v.Sandboxes) != 2 {
			t.Fatalf("%d sandboxes after %d s", len(v.Sandboxes), s)
		}
		row := map[string]gate.Bytes{}
		for i, b := range v.Sandboxes {
			row[b.ID], row[b.ID+" holds"] = v.Charges[i], b.Usage.Resident
		}
		n.add(s, row["learned holds"].CeilMiB(), row["prior"].CeilMiB(), row["learned"].CeilMiB())
		if s >= len(run.Resident) {
			return true
		}
		for _, f := range all {
			f.eat(int(run.Resident[s].CeilMiB())-ownMiB, 800)
		}
		return false
	})
	n.save()
}

// ownMiB is what an eater holds besides.
const ownMiB = 3

// limited gives all sandboxes of the rig together a limit that the kernel keeps.
func (r *rig) limited(limit gate.Bytes) {
	r.t.Helper()
	own := r.cfg.Machine.Memory()
	file := map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}[own.Version]
	if err := os.WriteFile(filepath.Join(own.Dir(r.parent), file), []byte(strconv.FormatInt(int64(limit), 10)), 0); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("the limit to bind", func() bool { return strings.HasPrefix(r.view().Binding, "cgroup:") })
}

// A lost bet: four processes within 2 GiB, which the kernel would keep by killing. Two of them
// leak, 50 MiB a second together, until one has to go, and again until another has.
func TestPictureOfALostBet(t *testing.T) {
	n := measured(t, "lost-bet.csv", "ms", "free_mb", "admittable_mb", "shut_by", "gone", "database_mb", "idle_mb", "build_mb", "tests_mb")
	r := startRig(t, paying(0, func(c *agent.Config) {
		c.Host.Headroom, c.SampleSandboxes, c.SampleLimits = 256*gate.MiB, time.Second, 50*time.Millisecond
	}))
	before := kernelKills(t, r.cfg.Machine, r.parent)
	database := r.feed("database", sized(512, true, 0))
	idle, build, tests := r.feed("idle", sized(2048, false, 0)), r.feed("build", sized(2048, false, 0)), r.feed("tests", sized(2048, false, 1))
	r.limited(2 * gate.GiB)
	database.eat(400, 1000)
	idle.eat(280, 1000)
	build.eat(280, 1000)
	tests.eat(280, 1000)
	for _, f := range []*fed{database, idle, build, tests} {
		f.holds(270)
	}
	r.eventually("the intake to be open", func() bool { return r.view().Shut == "" })
	time.Sleep(20 * time.Second) // more than a dwell, so that the next one is not doubled
	cgroups := map[string]string{}
	for _, s := range r.view().Sandboxes {
		cgroups[s.ID] = s.Process.Cgroup
	}
	build.eat(280+25*22, 22_000)
	tests.eat(280+25*22, 22_000)
	told := 0
	every(100*time.Millisecond, func(at time.Duration) bool {
		v := r.view()
		gone := ""
		for ; told < len(v.Evictions) && v.Evictions[told].Gone > 0; told++ {
			gone = v.Evictions[told].ID
		}
		row := []any{at.Milliseconds(), v.Reading.Free.CeilMiB(), v.Verdict.Admittable.FloorMiB(), v.Shut, gone}
		for _, id := range []string{"database", "idle", "build", "tests"} {
			held, err := r.cfg.Machine.ResidentCgroup(cgroups[id])
			if err != nil { // it has gone
				held = hostmem.Resident{}
			}
			row = append(row, held.Bytes.CeilMiB())
		}
		n.add(row...)
		return at > 25*time.Second && v.Shut == "" || at > time.Minute
	})
	if !alive(database.pid) {
		t.Error("the one that keeps state is gone")
	}
	if kills := kernelKills(t, r.cfg.Machine, r.parent) - before; kills > 0 {
		t.Errorf("the kernel killed %d", kills)
	}
	r.checkDeeds()
	n.save()
}

// What a class's runs teach: each a process that holds a quarter of the peak of a run of the
// fitted model, the later ones twice that, on a host that learns for itself.
func TestPictureOfLearning(t *testing.T) {
	n := measured(t, "learning.csv", "run", "reserve_mb", "peak_mb", "doubled")
	r := startRig(t, alone)
	const calm, all = 65, 120
	for i, run := range workload.Fitted(all, 7) {
		mib, doubled := int(run.Peak.CeilMiB())/4, 0
		if i >= calm {
			mib, doubled = 2*mib, 1
		}
		reserved := r.reserveOwn(boot.Ask{MemoryMB: 2048, Class: "job"})
		s := r.redeem(reserved.Ticket)
		c := startChild(t, "perl", "-e", `my @held; push @held, 'x' x 1048576 for 1 .. $ARGV[0]; sleep 1000`, strconv.Itoa(mib-ownMiB))
		if err := s.Track(t.Context(), c.pid()); err != nil {
			t.Fatal(err)
		}
		var peak gate.Bytes
		r.eventually("it to be measured", func() bool {
			b, _ := r.sandbox(reserved.ID)
			peak = b.Peak
			return peak >= gate.FromMiB(int64(mib)-ownMiB)
		})
		end(t, s, c)
		n.add(i+1, reserved.NeedMB, peak.CeilMiB(), doubled)
	}
	n.save()
}

func end(t *testing.T, s *boot.Start, c *child) {
	t.Helper()
	c.Process.Kill()
	<-c.over
	if err := s.Done(t.Context(), "over"); err != nil {
		t.Error(err)
	}
}

// File cache: a sandbox under a limit of 4 GiB reads files of 2 GiB, writes one of 512 MiB,
// has it written to the disk, and another then takes 768 MiB of memory.
func TestPictureOfFileCache(t *testing.T) {
	n := measured(t, "file-cache.csv", "ms", "anon_mb", "dirty_mb", "clean_mb", "admittable_mb", "doing")
	r := startRig(t, paying(0, func(c *agent.Config) { c.Host.Headroom = 256 * gate.MiB; c.SampleSandboxes = 200 * time.Millisecond }))
	files, step := filepath.Join(r.tmp, "files"), filepath.Join(r.tmp, "step")
	if err := os.WriteFile(files, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(files, 2<<30); err != nil { // a hole takes no disk, and as much cache as anything
		t.Fatal(err)
	}
	eats := r.feed("eats", sized(2048, false, 0))
	r.limited(4 * gate.GiB)
	script := strings.NewReplacer("FILES", files, "STEP", step).Replace(`sleep 3
		echo reads >STEP; cat FILES >/dev/null; echo rests >STEP; sleep 3
		echo writes >STEP; dd if=/dev/zero of=FILES.new bs=1M count=512; echo rests >STEP; sleep 3
		echo syncs >STEP; sync FILES.new; echo rests >STEP; sleep 3
		echo over >STEP; exec sleep 1000`)
	c := shell(script)
	c.Detach = true
	if _, err := r.boot.Run(t.Context(), r.reserveFor("files", 1, time.Minute, sized(4096, false, 0)), c, io.Discard, io.Discard, nil); err != nil {
		t.Fatal(err)
	}
	var over time.Duration
	every(100*time.Millisecond, func(at time.Duration) bool {
		doing, _ := os.ReadFile(step)
		if over == 0 && strings.TrimSpace(string(doing)) == "over" {
			over = at
			eats.eat(768, 3000)
		}
		stat := r.stat()
		dirty := stat.Dirty.Add(stat.Writeback)
		n.add(at.Milliseconds(), stat.Anon.Add(stat.Shmem).CeilMiB(), dirty.CeilMiB(), stat.CleanFile().CeilMiB(),
			r.view().Verdict.Admittable.FloorMiB(), strings.TrimSpace(string(doing)))
		return over > 0 && at > over+12*time.Second || at > 2*time.Minute
	})
	n.save()
}

// stat is what the kernel says of all sandboxes together.
func (r *rig) stat() hostmem.Stat {
	r.t.Helper()
	own := r.cfg.Machine.Memory()
	text, err := os.ReadFile(filepath.Join(own.Dir(r.parent), "memory.stat"))
	if err != nil {
		r.t.Fatal(err)
	}
	parse := hostmem.ParseStatV2
	if own.Version == 1 {
		parse = hostmem.ParseStatV1
	}
	stat, err := parse(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return stat
}
