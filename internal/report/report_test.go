package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// sample has everything that a page can have, and words that must not be taken for HTML.
func sample() *Page {
	return &Page{
		Title:   "A host holds 116 <sandboxes> & more",
		Lead:    "By what was learned it holds 16 times as many as by what is configured.",
		Figures: []Figure{{"116", "sandboxes on a host", "committed: 7", Orange}, {"0 s", "over physical memory", "", Red}},
		Command: "plimsoll sim density --runs '<a>.csv'",
		Assumed: []string{"Hosts are always full & <never> rest."},
		Risks:   []string{"A guess that is <too low> stops a sandbox."},
		Sections: []Section{{
			Title: "By <policy>",
			Text:  []string{"One <b>paragraph</b>."}, Points: []string{"A <point> within 3 s."},
			Charts: []Chart{
				Bars{"Sandboxes <on> a host", "a host", "the <mean>", []Bar{{Label: "committed <i>", Value: 7}, {"learned", 115.9, "115.9 & more", Orange}}, &Mark{120, "<ceiling>"}},
				Lines{"Refused <over> replicas", "on the lower edge: <none>", Axis{Name: "replicas <n>", Log: true}, Axis{Name: "part <refused>", Log: true}, []Series{
					{"heartbeats <h>", Grey, []float64{1, 2, 4}, []float64{.02, .1, .3}},
					{"deltas", Orange, []float64{1, 2, 4}, []float64{0, 1e-6, 1e-6}},
				}, []Mark{{2, "<two>"}}, []Mark{{1e-5, "<limit>"}}},
			},
			Tables:  []Table{{"Each <one>", []string{"policy", "per <host>"}, [][]string{{"learned", "<116>"}}, "a <note>", "learned", true}},
			Command: "plimsoll sim <x>",
		}},
	}
}

func written(t *testing.T, p *Page) string {
	t.Helper()
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Whatever words a page is given are words on it, and the same words give the same bytes.
func TestPageEscapes(t *testing.T) {
	page := written(t, sample())
	if page != written(t, sample()) {
		t.Error("the same page has other bytes")
	}
	for _, word := range []string{"sandboxes", "never", "too low", "policy", "b", "on", "mean", "i", "ceiling", "over", "none", "n", "refused", "h", "one", "host", "116", "note", "x", "a", "two", "limit", "point"} {
		if strings.Contains(page, "<"+word+">") {
			t.Errorf("<%s> is not escaped", word)
		}
		if !strings.Contains(page, "&lt;"+word+"&gt;") {
			t.Errorf("<%s> is lost", word)
		}
	}
}

// No line breaks between a figure and its unit.
func TestPageKeepsTogether(t *testing.T) {
	if page := written(t, sample()); !strings.Contains(page, "within 3\u00a0s.") {
		t.Error("a figure may be broken off its unit")
	}
}

// A page asks for nothing else and runs nothing.
func TestPageStandsAlone(t *testing.T) {
	page := written(t, sample())
	if found := regexp.MustCompile(`(?i)<script|<link|<img|<iframe|src=|href=|url\(|@import|https?:|onload`).FindAllString(page, -1); found != nil {
		t.Errorf("the page asks for more: %q", found)
	}
	if !strings.Contains(page, `content="default-src 'none'; style-src 'unsafe-inline'"`) {
		t.Error("the page does not forbid what it does not need")
	}
}

// Each picture is well-formed, says in words what it shows, and by ids of its own; each chart has
// its figures as a table.
func TestChartsSayWhatTheyShow(t *testing.T) {
	page := written(t, sample())
	ids := map[string]bool{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] {
			t.Errorf("the id %q is there twice", m[1])
		}
		ids[m[1]] = true
	}
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(pictures) != 4 || strings.Count(page, "<details>") != 2 || strings.Count(page, `<details class="fold"><summary>Each &lt;one&gt;</summary>`) != 1 {
		t.Fatalf("two charts have %d pictures and %d tables", len(pictures), strings.Count(page, "<details>"))
	}
	for _, p := range pictures {
		if regexp.MustCompile(`NaN|Inf`).MatchString(p) {
			t.Errorf("a figure that is none in %s", p)
		}
		for d := xml.NewDecoder(strings.NewReader(p)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range regexp.MustCompile(`aria-labelledby="(\S+) (\S+)"`).FindAllStringSubmatch(p, -1) {
			if !strings.Contains(p, `<title id="`+m[1]+`">`) || !strings.Contains(p, `<desc id="`+m[2]+`">`) {
				t.Errorf("%s is not named by what is in it", m[0])
			}
		}
	}
}

// What cannot be shown is said, and names what it is.
func TestPageThatCannotBeShown(t *testing.T) {
	nan := sample().Sections[0].Charts[1].(Lines)
	nan.Series = []Series{{"s", "", []float64{1}, []float64{1 / zero()}}}
	uneven := Lines{Title: "u", Series: []Series{{"s", "", []float64{1, 2}, []float64{1}}}}
	for want, s := range map[string]Section{
		`the series "s" has the value +Inf`:                          {Charts: []Chart{nan}},
		`the series "s" has 2 values of x and 1 of y`:                {Charts: []Chart{uneven}},
		`the chart "empty" has no bars`:                              {Charts: []Chart{Bars{Title: "empty"}}},
		`the bar "b" has the value -1`:                               {Charts: []Chart{Bars{Bars: []Bar{{Label: "b", Value: -1}}}}},
		`a table of "T": row 1 has 1 cells, and there are 2 columns`: {Title: "T", Tables: []Table{{Columns: []string{"a", "b"}, Rows: [][]string{{"1"}}}}},
		`the chart "none" has no series`:                             {Charts: []Chart{Lines{Title: "none"}}},
		"one that is folded has no title":                            {Tables: []Table{{Fold: true}}},
	} {
		err := (&Page{Title: "P", Sections: []Section{s}}).Write(io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := (&Page{}).Write(io.Discard); err == nil {
		t.Error("a page without a title was written")
	}
}

func zero() float64 { return 0 }

// result is what a command shows.
type result struct{}

func (result) Print(w io.Writer) error { _, err := io.WriteString(w, "table\n"); return err }
func (result) Page() *Page             { return sample() }

// What was played is shown, though its page could not be written after all.
func TestReportThatIsLost(t *testing.T) {
	c := &cobra.Command{Use: "play"}
	var out bytes.Buffer
	c.SetOut(&out)
	file := filepath.Join(t.TempDir(), "gone", "out.html")
	if err := Show(c, result{}, file); err == nil || !strings.Contains(err.Error(), "write the report to "+file) || out.String() != "table\n" {
		t.Errorf("%v, and %q is shown", err, out.String())
	}
}

func run(words ...string) (string, error) {
	var to string
	c := &cobra.Command{Use: "play", SilenceUsage: true, SilenceErrors: true}
	c.RunE = func(c *cobra.Command, _ []string) error { return Show(c, result{}, to) }
	c.Flags().Int("seed", 1, "")
	c.Flags().Int("jobs", 1, "")
	c.Flags().String("runs", "", "")
	c.Flags().IntSlice("cohorts", nil, "")
	c.Flags().Bool("batched", false, "")
	Flag(c, &to)
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetArgs(words)
	err := c.Execute()
	return out.String(), err
}

// The page has the command that plays the same, without what changes no figure.
func TestReportOfACommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.html")
	out, err := run("--report", file, "--jobs", "7", "--seed", "3", "--runs", "my runs.csv", "--cohorts", "1,32", "--batched")
	if err != nil || out != "table\n" {
		t.Fatal(out, err)
	}
	page, err := os.ReadFile(file)
	if want := "<code>play --batched --cohorts 1,32 --runs &#39;my runs.csv&#39; --seed 3</code>"; err != nil || !strings.Contains(string(page), want) {
		t.Errorf("%v, and not %s", err, want)
	}
}

// That a page cannot be written is said before anything is played.
func TestReportWithoutAPlace(t *testing.T) {
	dir := t.TempDir()
	for place, want := range map[string]string{
		"":                                   "name the file to write",
		dir:                                  "is a directory: name a file in it",
		filepath.Join(dir, "none", "a.html"): "its directory must be there",
	} {
		if out, err := run("--report", place); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%q: %v %q, want %s", place, err, out, want)
		}
	}
}
