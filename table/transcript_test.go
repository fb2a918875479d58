package table

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/plimsoll-project/plimsoll/gate"
)

var update = flag.Bool("update", false, "write what the transcripts' commands do into testdata")

// A transcript is a command per line, and indented under it what it answered and the whole
// state after it; lines that begin with # say why.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			} else if diff := diff.Diff(string(text), got); diff != "" {
				t.Errorf("(file -, now +)\n%s", diff)
			}
		})
	}
}

// player runs a transcript over one table.
type player struct {
	tb   *Table
	now  time.Duration
	seq  int64
	asks []asking // under way, the oldest first
}

type asking struct {
	host   string
	charge Charge
}

func play(t *testing.T, text string) string {
	var out strings.Builder
	p := &player{tb: New(Options{Buckets: 128})}
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "  ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fmt.Fprintf(&out, "  %s\n%s", p.run(t, strings.Fields(line)), p.state())
		if err := p.tb.CheckInvariants(); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	return out.String()
}

func (p *player) run(t *testing.T, f []string) string {
	t.Helper()
	switch arg := slices.Concat(f, []string{"", "", ""}); f[0] {
	case "at":
		d, err := time.ParseDuration(arg[1])
		if err != nil {
			t.Fatal(err)
		}
		p.now = d
		p.tb.advance(d)
		return "ok"
	case "host": // says its word: host ID MiB [incarnation]
		p.seq++
		v := plain(arg[1], gate.FromMiB(number(t, arg[2])))
		v.Sequence, v.Incarnation = p.seq, number(t, cmp.Or(arg[3], "0"))
		_, err := p.tb.Observe(&v, p.now)
		return fmt.Sprint("heard ", err == nil)
	case "rule": // at most N of a cohort on a host, within WINDOW
		d, err := time.ParseDuration(arg[2])
		if err != nil {
			t.Fatal(err)
		}
		p.tb.SetCohortRule(int(number(t, arg[1])), d)
		return "ok"
	case "ask", "last": // TENANT/TEMPLATE MiB [require=ID | prefer=ID]
		return p.ask(t, f[0] == "last", arg[1], number(t, arg[2]), arg[3])
	case "yes", "no", "unanswered": // the oldest ask that is under way ends
		return p.end(f[0])
	}
	r, _ := p.tb.Lookup(f[1])
	map[string]func(Ref, time.Duration){"bootfailed": p.tb.BootFailed, "booted": p.tb.Booted}[f[0]](r, p.now)
	return "ok"
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (p *player) ask(t *testing.T, last bool, cohort string, mib int64, where string) string {
	t.Helper()
	tenant, template, _ := strings.Cut(cohort, "/")
	a := gate.Ask{Memory: gate.FromMiB(mib), Rule: gate.ReserveRule{Permille: 1000}}
	o := PickOptions{Cohort: CohortOf(tenant, template), Gross: last, HeardSince: p.now}
	switch how, id, _ := strings.Cut(where, "="); how {
	case "require":
		o.Require = id
	case "prefer":
		o.Prefer = id
	}
	c, ok := p.tb.Pick(p.now, &a, &o)
	if !ok {
		y := p.tb.Explain(p.now, &a, &o, 0)
		return fmt.Sprint("no: ", y.Map())
	}
	p.asks = append(p.asks, asking{c.Host, p.tb.Charge(c.Ref, &a, o.Cohort)})
	return "asks " + c.Host
}

func (p *player) end(how string) string {
	a := p.asks[0]
	p.asks = p.asks[1:]
	r, _ := p.tb.Lookup(a.host)
	switch how {
	case "yes":
		p.tb.Place(a.charge, p.now)
		p.tb.Answered(r, p.now)
	case "no":
		p.tb.Answered(r, p.now)
	case "unanswered":
		p.tb.Unanswered(r, p.now)
	}
	p.tb.Uncharge(a.charge)
	return a.host
}

// state is every host with its standing, what is held against it, and the cohorts on it.
func (p *player) state() string {
	var b strings.Builder
	var ids []string
	for id := range p.tb.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		r, _ := p.tb.Lookup(id)
		h := &p.tb.hosts[r.index]
		fmt.Fprintf(&b, "    %s %s, %d MiB left", id, h.standing, h.room())
		if k := p.tb.records[r.index]; k != nil && k.cause != Trusted {
			fmt.Fprintf(&b, ", %s until %v, %d in a row", k.cause, k.until, k.times)
			if n := p.tb.UnansweredBy(id); n > 0 {
				fmt.Fprintf(&b, ", %d unanswered", n)
			}
			if k.asked {
				fmt.Fprint(&b, ", being asked")
			}
		} else if k != nil {
			fmt.Fprintf(&b, ", %d unanswered, %d boots failed", k.mute, k.fails)
		}
		var counts []string
		for at, n := range p.tb.cohorts.at {
			if at.host == r {
				counts = append(counts, fmt.Sprint(n))
			}
		}
		slices.Sort(counts)
		if len(counts) > 0 {
			fmt.Fprintf(&b, ", of cohorts %s", strings.Join(counts, " "))
		}
		b.WriteString("\n")
	}
	return b.String()
}
