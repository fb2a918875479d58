package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../../scenarios/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no scenario (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { playFile(t, file) })
	}
}

func playFile(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all, err := ParseScenarios("scenarios/"+filepath.Base(file), string(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range all {
		for seed := uint64(1); seed <= uint64(sc.Seeds); seed++ {
			if err := sc.Play(seed); err != nil {
				t.Errorf("section %q, seed %d: %v", sc.Name, seed, err)
				break
			}
		}
	}
}

// A line that says something else than what happens is found, with its place, both sides,
// and the story that led to it.
func TestScenarioWrongExpectation(t *testing.T) {
	const fleet = "# a story\nhost h1 8GiB\nreplica r1\npool p cap 2\nclass agent 4GiB\nafter 1s\n\ncreate k1..k3 agent\nafter 1s\n"
	for _, c := range []struct{ line, want string }{
		{"expect 3 admitted", "expected 3 admitted, and it was 2; in all: 1 refused pool_full, 2 admitted"},
		{"expect k1..k3 admitted", "nobody created"},
		{"expect pool p busy 1", "expected 1, and it was 2"},
		{"expect pool q busy 1", `there is no pool "q"`},
		{"expect h1 admittable 7782", "expected 7782, and it was 5734"},
		{"expect h1 admittable at least 6000", "expected at least 6000, and it was 5734"},
		{"expect h1 reserved at most 2000", "expected at most 2000, and it was 2048"},
		{"expect h1 intake pressure", "expected pressure, and it was open"},
		{"expect h2 intake open", `there is no host "h2"`},
		{"expect idle", "expected every gauge to be zero, and a-k"},
		{"expect k4 admitted", `nobody created "k4"`},
		{"expect k1 gone", "expected gone, and it was "},
		{"expect k1 history admitted", "k1 is no app"},
		{"expect k1 is running", "expected running, and it was "},
		{"expect k1 runs on h1", "expected h1, and it was nowhere"},
		{"expect k1 tries 2", "expected 2, and it was 1"},
		{"boot k9", `nobody created "k9"`},
		{"boot k1 with ticket 2", "k1 has no such ticket"},
		{"end k1", "k1 runs nowhere"},
		{"at 1s", "it is 2s already"},
		{"replica r3", "this one is r2"},
		{"restart r1", "r1 is up"},
		{"ceiling 1", "the caps sum to 2, over the ceiling of 1"},
		{"host h1 1GiB", "there is a host h1 already"},
		{"share q chat reserved 1", `there is no pool "q"`},
		{"list cloud", `there is no substrate "cloud"`},
		{"set p cap 4 is refused", "expected that it is refused: true, and it was overridden"},
		{"hold q", `there is no pool "q"`},
		{"class job 1GiB in q", "the class is in no pool"},
	} {
		all, err := ParseScenarios("x.txt", fleet+c.line+"\nexpect k1 tries 1\n")
		if err != nil {
			t.Fatal(err)
		}
		err = all[0].Play(1)
		if err == nil || !strings.HasPrefix(err.Error(), "x.txt:10: "+c.line+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwanted line 10 and %q", c.line, err, c.want)
		} else if !strings.Contains(err.Error(), "the story so far:") || !strings.Contains(err.Error(), "k1 on replica 1: claim") {
			t.Errorf("%s: no story in\n%v", c.line, err)
		}
	}
}

// A violated invariant fails the line during which it happened.
func TestScenarioFindsViolation(t *testing.T) {
	all, err := ParseScenarios("x.txt", "host h1 8GiB\nreplica r1\npool p cap 2\nclass agent 4GiB\nafter 1s\nexpect idle\n")
	if err != nil {
		t.Fatal(err)
	}
	sc := all[0]
	sc.steps[4].do = func(s *stage) error {
		s.after(0, func() { s.violate(promised, "as if") })
		return s.until(s.now)
	}
	if err := sc.Play(1); err == nil || !strings.Contains(err.Error(), "x.txt:5: after 1s: 0.000s: invariant 1 (nothing is promised that does not fit): as if") {
		t.Errorf("got %v", err)
	}
}

func TestScenarioParserRefuses(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"frobnicate h1", `unknown command "frobnicate"`},
		{"host", "a host is missing"},
		{"host h1", "a size is missing"},
		{"host 1 4GiB", `"1" is no name for a host`},
		{"host h1 4GB", `"4GB" is no size`},
		{"host h1 4GiB comitted", `nobody knows what "comitted" means here`},
		{"pool p", `"cap" is missing`},
		{"pool p cap four", `"four" is no number`},
		{"pool p cap -1", `"-1" is no number`},
		{"class c 1GiB fraction 25", `"25" is no percentage`},
		{"replica", "a replica is missing"},
		{"after 2", `"2" is no time`},
		{"create k1..j3 agent", `is no range of keys`},
		{"create k3..k1 agent", `is no range of keys`},
		{"create k1..k99999 agent", `is no range of keys`},
		{"create a..b agent", `"a..b" is no key`},
		{"create k1 agent agent", `nobody knows what "agent" means here`},
		{"hang k1", `"up" is missing`},
		{"kill r1 before lunch of k1", `a passage never does "lunch"`},
		{"kill r1 before settle", `"of" is missing`},
		{"kill r1 now", `nobody knows what "now" means here`},
		{"lose next pigeon to h1", `there is no frame "pigeon"`},
		{"lose next answer to reserve to h1", `"of" is missing`},
		{"store fails next lunch", `no transition "lunch"`},
		{"store sideways", `"fails next" is missing`},
		{"flutter h1 1GiB 2GiB every 0s for 1m", "every must be above zero"},
		{"stalls h1 120%", `"120%" is no percentage`},
		{"expect", "what is expected is missing"},
		{"expect k1", "what of k1?"},
		{"expect k1 happy", `there is no outcome "happy"`},
		{"expect k1 is happy", `there is no state "happy"`},
		{"expect k1 refused", "a code is missing"},
		{"expect k1 waited at most soon", `"soon" is no time`},
		{"expect h1 admittable many", `"many" is no number`},
		{"expect h1 intake ajar", `there is no intake "ajar"`},
		{"expect 7", "what of 7?"},
		{"expect 7 admitted, refused", `"refused" is not how many of what`},
		{"expect pool p happy 1", `a pool is not "happy"`},
		{"expect order k1", "at least two keys"},
		{"seeds none", "how many seeds?"},
		{"share p", "a consumer is missing"},
		{"share p chat floor 2", `nobody knows what "floor" means here`},
		{"pool p cap 4 for", "who boots what it admits is missing"},
		{"keep k1 every 0s", "every must be above zero"},
		{"stream k 10 job every 1s", "say how often"},
		{"crowd k 10 job lasts 1s", "say how often"},
		{"set p cap", "the cap is missing"},
		{"hold p now", `nobody knows what "now" means here`},
		{"expect idle hands", `nobody knows what "hands" means here`},
	} {
		_, err := ParseScenarios("x.txt", "# one\n\n  "+c.line+"\nexpect idle\n")
		if err == nil || !strings.HasPrefix(err.Error(), "x.txt:3: "+c.line+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, wanted line 3 and %q", c.line, err, c.want)
		}
	}
	if _, err := ParseScenarios("x.txt", "host h1 4GiB\n== nothing\nafter 1s\n"); err == nil || !strings.Contains(err.Error(), `"nothing" expects nothing`) {
		t.Errorf("a section without an expectation: %v", err)
	}
}

// The language is written down where it is read: every command, every gauge.
func TestScenarioLanguageIsDocumented(t *testing.T) {
	text, err := os.ReadFile("scenario.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, _, _ := strings.Cut(string(text), "type Scenario struct")
	for verb := range verbs() {
		if !strings.Contains(doc, "\t"+verb+" ") && !strings.Contains(doc, "| "+verb+" ") && !strings.Contains(doc, "\t"+verb+"\n") {
			t.Errorf("the command %q is not documented", verb)
		}
	}
	for gauge := range gauges() {
		if !strings.Contains(doc, gauge) {
			t.Errorf("the gauge %q is not documented", gauge)
		}
	}
}

func FuzzParseScenarios(f *testing.F) {
	files, _ := filepath.Glob("../../scenarios/*.txt")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			f.Add(string(text))
		}
	}
	f.Fuzz(func(_ *testing.T, text string) { _, _ = ParseScenarios("x.txt", text) })
}
