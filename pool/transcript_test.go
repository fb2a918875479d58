package pool

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
			} else if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("(file -, now +)\n%s", diff)
			}
		})
	}
}

func play(t *testing.T, text string) string {
	var out strings.Builder
	p := &player{m: NewModel()}
	p.m.Advance(start)
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fmt.Fprintf(&out, "  %s\n%s", p.run(t, line), p.state())
		if err := p.m.CheckInvariants(); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	return out.String()
}

const start Time = 1_780_000_000_000

// player runs commands: a verb, most often a key, and name=value or bare words after it.
type player struct {
	m   *Model
	ids int
}

type words map[string]string

func (p *player) run(t *testing.T, line string) string {
	fields := strings.Fields(line)
	verb, key, w := fields[0], "", words{}
	for i, f := range fields[1:] {
		name, value, pair := strings.Cut(f, "=")
		if i == 0 && !pair {
			key = f
		}
		w[name] = value
	}
	command, ok := commands[verb]
	if !ok {
		t.Fatalf("unknown command %q", line)
	}
	r, _ := p.m.Get(consumerOf(key), key)
	return command(p, r, key, w)
}

// consumerOf is what stands before a slash in a key; without one it is c's.
func consumerOf(key string) string {
	if name, _, ok := strings.Cut(key, "/"); ok {
		return name
	}
	return "c"
}

func (w words) number(name string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(w[name], 10, 64); err == nil {
		return n
	}
	return otherwise
}

func (w words) text(name, otherwise string) string {
	if v, ok := w[name]; ok {
		return v
	}
	return otherwise
}

func (w words) present() time.Duration {
	if _, ok := w["present"]; ok {
		return PresentFor
	}
	return 0
}

func (w words) has(name string) bool {
	_, ok := w[name]
	return ok
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

// commands: verb -> what it does to the admission of a key and answers.
var commands = map[string]func(p *player, r Row, key string, w words) string{
	"limits": func(p *player, _ Row, _ string, w words) string {
		s := Settings{Pools: map[string]Limits{}, Quotas: map[string]int64{}, DefaultQuota: w.number("default", Unlimited), Ceiling: w.number("ceiling", Unlimited)}
		if w.has("quotas-in-shadow") {
			s.QuotaEnforcement = Shadow
		}
		for name, value := range w {
			if pool, ok := strings.CutPrefix(name, "pool."); ok {
				s.Pools[pool] = limitsOf(value, w)
			}
			if tenant, ok := strings.CutPrefix(name, "quota."); ok {
				s.Quotas[tenant] = words{"": value}.number("", 0)
			}
		}
		p.m.Configure(s)
		return "ok"
	},
	"claim":   func(p *player, _ Row, key string, w words) string { return p.claim(key, w, false) },
	"attempt": func(p *player, _ Row, key string, w words) string { return p.claim(key, w, true) },
	"settle": func(p *player, r Row, _ string, w words) string {
		_, ok := p.m.Settle(r.ID, w.number("gen", r.Gen), w.text("host", "h1"), duration(w.text("for", "60s")))
		return fmt.Sprint(ok)
	},
	"noroom": func(p *player, r Row, _ string, w words) string {
		return told(p.m.NoRoom(r.ID, w.number("gen", r.Gen), w.has("hostless"), w.present()))
	},
	"regen": func(p *player, r Row, _ string, w words) string {
		return fmt.Sprint(p.m.Regen(r.ID, w.number("gen", r.Gen)))
	},
	"attend": func(p *player, r Row, _ string, w words) string { return fmt.Sprint(p.m.Attend(r.ID, w.present())) },
	"move": func(p *player, r Row, _ string, w words) string {
		_, ok := p.m.Move(r.ID, w.number("epoch", r.Epoch), w.has("acknowledged"))
		return fmt.Sprint(ok)
	},
	"renew": func(p *player, r Row, _ string, w words) string {
		_, ok := p.m.Renew(r.ID, w.number("epoch", r.Epoch), time.Minute)
		return fmt.Sprint(ok)
	},
	"track": func(p *player, r Row, _ string, w words) string {
		return fmt.Sprint(p.m.Track(r.ID, w.number("epoch", r.Epoch)))
	},
	"leave": func(p *player, r Row, _ string, w words) string {
		of := Passage{}
		if w.has("gen") {
			of = Passage{w.number("gen", 0), r.QueuedAt}
		}
		_, ok := p.m.Leave(r.ID, of)
		return fmt.Sprint(ok)
	},
	"end": func(p *player, r Row, _ string, w words) string {
		written, again := p.m.End(r.ID, w.number("epoch", r.Epoch), State(w.text("to", "released")), "exit")
		return fmt.Sprintf("written=%v again=%v", written, again)
	},
	"stand": func(p *player, r Row, _ string, w words) string {
		return fmt.Sprint(p.m.Stand(r.ID, w.text("host", "h1")))
	},
	"reopen": func(p *player, r Row, _ string, w words) string {
		return fmt.Sprint(p.m.Reopen(r.ID, w.number("epoch", r.Epoch), time.Minute))
	},
	"return": func(p *player, r Row, _ string, w words) string {
		return fmt.Sprint(p.m.Return(r.ID, w.number("epoch", r.Epoch), w.text("host", "h1")))
	},
	"hear": func(p *player, r Row, _ string, w words) string {
		_, ok := p.m.Hear(r.ID, w.number("epoch", r.Epoch))
		return fmt.Sprint(ok)
	},
	"seen": func(p *player, r Row, _ string, w words) string {
		return fmt.Sprint(p.m.Seen([]Ref{{r.ID, w.number("epoch", r.Epoch)}})[0])
	},
	"redeem": func(p *player, r Row, _ string, w words) string {
		v, _ := p.m.Redeem(Redemption{
			ID: r.ID, Epoch: w.number("epoch", r.Epoch), Audience: w.text("audience", "cloud"),
			Expires: p.m.Now().Add(duration(w.text("expires", "10m"))), Instance: w.text("as", ""),
		})
		return string(v)
	},
	"pulse":     func(p *player, _ Row, _ string, _ words) string { return fmt.Sprint(p.m.Pulse().HeardSince - start) },
	"hear-host": func(p *player, _ Row, host string, _ words) string { p.m.HearHost(host); return "ok" },
	"override": func(p *player, _ Row, pool string, w words) string {
		o := Override{Cap: w.number("cap", 0), By: "operator", Reason: w.text("reason", "")}
		v, was := p.m.Override(pool, o, duration(w.text("for", "0s")))
		return fmt.Sprintf("%s, the cap was %d", v, was.Cap)
	},
	"resume": func(p *player, _ Row, pool string, _ words) string {
		v, was := p.m.Resume(pool)
		return fmt.Sprintf("%s, the cap was %d", v, was.Cap)
	},
	"shadow": func(p *player, _ Row, name string, w words) string {
		return string(p.m.Shadow(target(name), "operator", w.text("reason", "")))
	},
	"enforce": func(p *player, _ Row, name string, _ words) string { return string(p.m.Enforce(target(name))) },
	"sweep": func(p *player, _ Row, _ string, _ words) string {
		return fmt.Sprintf("%d changed", len(p.m.Sweep()))
	},
	"advance": func(p *player, _ Row, key string, w words) string {
		p.advance(duration(key), w.has("unheard"), strings.FieldsFunc(w["hearing"], func(r rune) bool { return r == ',' }))
		return "ok"
	},
}

// target reads all, quotas, pool/NAME or host/NAME.
func target(s string) Target {
	scope, name, _ := strings.Cut(s, "/")
	return Target{Scope(scope), name}
}

// limitsOf reads CAP, or CAP@AUDIENCE whose slots live for life=, and the shares that
// share.NAME=RESERVED or share.NAME=RESERVED/MAX gives; a NAME that is a number is a priority's.
func limitsOf(value string, w words) Limits {
	cap, audience, _ := strings.Cut(value, "@")
	l := Limits{Cap: words{"": cap}.number("", 0), MaxWaiting: w.number("line", 10), Audience: audience}
	if w.has("in-shadow") {
		l.Enforcement = Shadow
	}
	if audience != "" {
		l.SlotTTL, l.TicketTTL = DefaultSlotTTL, DefaultTicketTTL
		if w.has("life") {
			l.SlotTTL, l.TicketTTL = duration(w["life"]), duration(w["life"])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w)) {
		of, ok := strings.CutPrefix(name, "share.")
		if !ok {
			continue
		}
		reserved, most, _ := strings.Cut(w[name], "/")
		s := Share{Consumer: of, Reserved: words{"": reserved}.number("", 0), Max: words{"": most}.number("", 0)}
		if n, err := strconv.ParseInt(of, 10, 64); err == nil {
			s.Consumer, s.Priority = "", n
		}
		l.Shares = append(l.Shares, s)
	}
	return l
}

func (p *player) claim(key string, w words, attempt bool) string {
	p.ids++
	return told(p.m.Claim(Claim{
		ID: fmt.Sprintf("a%d", p.ids), Consumer: consumerOf(key), Key: key, Attempt: attempt, Pool: w.text("pool", "p"),
		Contents: Contents{
			Tenant: w.text("tenant", "t"), Class: w.text("class", "small"), Priority: w.number("priority", 0),
			HoldOnExit: w.has("hold-on-exit"), Stateful: w.has("stateful"),
		},
		Mode: Mode(w.text("mode", "queue")), MaxQueueAge: duration(w.text("age", "10m")), Present: w.present(),
	}))
}

// told is an answer as a caller hears it.
func told(c Claimed) string {
	out := string(c.Verdict)
	if c.Would != "" {
		out += " would=" + string(c.Would)
	}
	if s := c.Standing; s.Position > 0 {
		out += fmt.Sprintf(" position=%d busy=%d free_slots_kept=%d in_line=%d quota_use=%d", s.Position, s.Busy, s.OnTimeAhead(), s.InLine, s.QuotaUse)
	}
	return out
}

// state is everything that is in the model.
func (p *player) state() string {
	var out strings.Builder
	for _, l := range p.m.Lines() {
		shadow := ""
		if l.Limits.Enforcement == Shadow {
			shadow = ", in shadow"
		}
		fmt.Fprintf(&out, "    pool %s: %d of %d busy, %d waiting%s\n", l.Name, l.Busy, l.Limits.Cap, l.Waiting, shadow)
	}
	rows := p.m.Rows()
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Key, b.Key) })
	for _, r := range rows {
		fmt.Fprintf(&out, "    %s %s%s\n", r.Key, r.State, p.details(r))
	}
	return out.String()
}

func (p *player) details(r Row) string {
	var out strings.Builder
	number := func(name string, n int64) {
		if n != 0 {
			fmt.Fprintf(&out, " %s=%d", name, n)
		}
	}
	flag := func(name string, on bool) {
		if on {
			fmt.Fprintf(&out, " %s", name)
		}
	}
	number("gen", r.Gen)
	number("epoch", r.Epoch)
	flag("on "+r.Host, r.Host != "")
	flag("for "+r.Audience, r.Audience != "")
	flag("as "+r.Instance, r.Instance != "")
	flag(fmt.Sprintf("live for %v", r.LiveUntil.Since(p.m.Now())), r.live())
	number("place", r.Place)
	flag("for "+r.WaitingFor, r.WaitingFor != "")
	flag("present", r.present(p.m.Now()))
	flag("late", r.Late)
	flag("spared", r.SparedAt != 0)
	flag("hostless", r.hostless(p.m.Now()))
	flag(fmt.Sprintf("since %v", p.m.Now().Since(r.HostlessSince)), r.HostlessSince != 0 && r.hostless(p.m.Now()))
	flag("stands at "+r.StandAt, r.StandAt != "")
	flag("("+r.Reason+")", r.Reason != "")
	return out.String()
}

// advance lets time pass while replicas write their pulse and hear some hosts, or unheard.
func (p *player) advance(by time.Duration, unheard bool, hearing []string) {
	end := p.m.Now().Add(by)
	every := p.m.books.Pulse().Gap / 2
	pulse := func() {
		for _, id := range hearing {
			p.m.HearHost(id)
		}
		p.m.Pulse()
	}
	for !unheard && p.m.Now().Add(every) < end {
		pulse()
		p.m.Advance(p.m.Now().Add(every))
	}
	if !unheard {
		pulse()
	}
	p.m.Advance(end)
}
