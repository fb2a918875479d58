package learned_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/learned"
	"github.com/plimsoll-project/plimsoll/learn"
	"github.com/plimsoll-project/plimsoll/pool"
)

const minute = pool.Time(time.Minute / time.Millisecond)

var rules = learned.Rules{"agent": gate.DefaultReserveRule()}

// hostOf grows what one host saw, word by word.
type hostOf struct {
	id   string
	life int64
	seq  int64
	runs learn.Runs
}

func (h *hostOf) ran(n int, peak, reserve gate.Bytes) {
	for range n {
		h.runs.Ended(peak, reserve)
	}
}

func (h *hostOf) word() learned.Word {
	h.seq++
	w := learned.Word{Host: h.id, Incarnation: h.life, Seen: host.Seen{Class: "agent", Template: "base", Sequence: h.seq, Size: 4 * gate.GiB}}
	w.Runs.Merge(&h.runs)
	return w
}

func take(b *learned.Book, now pool.Time, lives map[string]int64, told ...learned.Word) {
	b.Take(now, lives, rules, told)
	b.Settle()
}

func only(t *testing.T, b *learned.Book) learned.Known {
	t.Helper()
	list := b.List()
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	return list[0]
}

// Whatever order hosts' words come in, however often and late, and through however many lives,
// each run counts once: the answer is that of one who saw them all.
func TestEachRunCountsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := learn.Runs{}
		hosts := []*hostOf{{id: "h1", life: 1}, {id: "h2", life: 2}, {id: "h3", life: 3}}
		var said []learned.Word
		b := learned.NewBook()
		lives := func() map[string]int64 {
			out := map[string]int64{}
			for _, h := range hosts {
				out[h.id] = h.life
			}
			return out
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			h := rapid.SampledFrom(hosts).Draw(t, "host")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0: // its next life begins, and it tells of that before the old words come again
				take(b, 1, lives(), h.word()) // all of the former one was told
				h.life, h.seq, h.runs = h.life+10, 0, learn.Runs{}
				take(b, 1, lives(), h.word())
			case 1, 2:
				if len(said) > 0 {
					take(b, 1, lives(), rapid.SampledFrom(said).Draw(t, "again"))
				}
			default:
				n, peak := rapid.IntRange(0, 5).Draw(t, "runs"), gate.FromMiB(rapid.Int64Range(1, 4096).Draw(t, "peak"))
				h.ran(n, peak, 0)
				for range n {
					all.Ended(peak, 0)
				}
				w := h.word()
				said = append(said, w)
				take(b, 1, lives(), w)
			}
		}
		for _, h := range hosts {
			take(b, minute, lives(), h.word())
		}
		take(b, 2*minute, lives())
		want := all.Reserve(4 * gate.GiB)
		list := b.List()
		if len(list) == 0 || list[0].Runs != all.N() {
			t.Fatalf("%d runs, and %+v is known", all.N(), list)
		}
		var merged learn.Runs
		merged.Merge(&b.Templates[list[0].ID()].All.Runs)
		if diff := cmp.Diff(want, merged.Reserve(4*gate.GiB)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A template is learned after 30 runs, judged by those that stood under what was learned, and
// back to the rule when they peak higher; that is dated, for the alarm.
func TestBroken(t *testing.T) {
	b, h, now := learned.NewBook(), &hostOf{id: "h1", life: 1}, pool.Time(time.Hour/time.Millisecond)
	lives := map[string]int64{"h1": 1}
	h.ran(29, 200*gate.MiB, 0)
	take(b, now, lives, h.word())
	if k := only(t, b); k.Estimate.Learned || k.Estimate.Reserve != gate.GiB || k.Prior != gate.GiB {
		t.Fatalf("after 29 runs: %+v", k)
	}
	h.ran(1, 200*gate.MiB, 0)
	take(b, now+1, lives, h.word())
	if k := only(t, b); !k.Estimate.Learned || k.Estimate.Reserve != 200*gate.MiB || k.BrokeAt != 0 {
		t.Fatalf("after 30 runs: %+v", k)
	}
	for i := range 2 {
		h.ran(5, gate.GiB, 200*gate.MiB)
		take(b, now+2, lives, h.word())
		if k := only(t, b); k.Runs != int64(30+5*(i+1)) {
			t.Fatalf("%+v", k)
		}
		now += minute
	}
	if k := only(t, b); k.Estimate.Learned || !k.Estimate.Broken || k.Estimate.Reserve != gate.GiB || k.BrokeAt == 0 {
		t.Errorf("after runs far above: %+v", k)
	}
}

// Reserves sink with time, though nothing new is seen: what is due is stepped all the same.
func TestDue(t *testing.T) {
	b, h := learned.NewBook(), &hostOf{id: "h1", life: 1}
	now := pool.Time(time.Hour / time.Millisecond)
	h.ran(31, 1000*gate.MiB, 0)
	take(b, now, map[string]int64{"h1": 1}, h.word())
	if learned.Due(now.Add(learned.StepEvery-time.Millisecond), b.List()) || !learned.Due(now.Add(learned.StepEvery), b.List()) {
		t.Errorf("due at the wrong time: %+v", b.List())
	}
	was := only(t, b)
	now = now.Add(30 * time.Minute)
	take(b, now, nil)
	if k := only(t, b); k.SteppedAt != now || k.RanAt != was.RanAt {
		t.Errorf("%+v", k)
	}
}

// A book that holds only what one step needs comes to what the whole one does.
func TestPartOfTheBook(t *testing.T) {
	whole, lives := learned.NewBook(), map[string]int64{}
	var hosts []*hostOf
	for i := range 5 {
		h := &hostOf{id: fmt.Sprint("h", i), life: int64(i + 1)}
		h.ran(9, gate.FromMiB(int64(100+i)), 0)
		lives[h.id] = h.life
		hosts = append(hosts, h)
		take(whole, 1, lives, h.word())
	}
	part := learned.NewBook()
	for id, template := range whole.Templates {
		same, document := &learned.Template{Known: template.Known}, []byte(nil)
		var err error
		if document, err = json.Marshal(template); err == nil {
			err = json.Unmarshal(document, same)
		}
		if err != nil {
			t.Fatal(err)
		}
		part.Templates[id] = same
	}
	hosts[4].seq--
	was, w := hosts[4].word(), hosts[4].word()
	w.Runs.Ended(gate.GiB, 0)
	part.Load(&was)
	part.Take(minute+1, map[string]int64{hosts[4].id: 5}, rules, []learned.Word{w})
	take(whole, minute+1, lives, w)
	if diff := cmp.Diff(whole.List(), part.List()); diff != "" {
		t.Error(diff)
	}
}

// One step of a template that so many hosts run, each of which saw runs of many amounts.
func BenchmarkStep(b *testing.B) {
	for _, hosts := range []int{10, 1000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) {
			book, lives := learned.NewBook(), map[string]int64{}
			var all []*hostOf
			for i := range hosts {
				h := &hostOf{id: fmt.Sprint("h", i), life: 1}
				for j := range 200 {
					h.ran(1, gate.FromMiB(int64(150+7*j+i%7)), 0)
					h.runs.Sampled(gate.FromMiB(int64(100+j)), 60)
				}
				lives[h.id] = 1
				all = append(all, h)
				take(book, 1, lives, h.word())
			}
			for i := 0; b.Loop(); i++ {
				take(book, pool.Time(i+1)*minute, lives, all[i%hosts].word())
			}
		})
	}
}
