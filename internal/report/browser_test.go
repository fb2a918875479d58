package report

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// faults are looked for in a real browser: a page wider than its window, a chart whose words leave
// it or lie over each other, and whatever the page's own policy forbids.
const faults = `<!doctype html><pre id="out"></pre><script>
const page = %s, found = [];
const sees = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
function look(frame, width) {
  const d = frame.contentDocument, root = d.documentElement;
  if (root.scrollWidth > root.clientWidth) found.push(width + ": the page is " + root.scrollWidth + " wide");
  let charts = 0;
  for (const svg of d.querySelectorAll("svg")) {
    const box = svg.getBoundingClientRect(), words = [...svg.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
    if (box.width == 0) continue;
    charts++;
    words.forEach(([text, at], i) => {
      if (at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 2 || at.bottom > box.bottom + 1)
        found.push(width + ": " + text + " leaves its chart");
      for (const [other, where] of words.slice(i + 1)) if (sees(at, where)) found.push(width + ": " + text + " lies over " + other);
    });
  }
  if (charts != %d) found.push(width + ": " + charts + " charts are shown");
}
let waits = 0;
for (const width of [1280, 860, 640, 400, 320]) {
  const frame = document.createElement("iframe");
  frame.style.cssText = "border:0;height:900px;width:" + width + "px";
  frame.srcdoc = page;
  waits++;
  frame.onload = () => { look(frame, width); if (--waits == 0) document.getElementById("out").textContent = JSON.stringify(found); };
  document.body.append(frame);
}
</script>`

// browser returns what is wrong with a page in a real browser that has one.
func browser(t *testing.T, page string, charts int) (wrong []string) {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skipf("no browser is here: %v", err)
	}
	text, err := json.Marshal(page) // <, > and & are escaped in it, so that no script ends early
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "look.html")
	if err := os.WriteFile(file, fmt.Appendf(nil, faults, text, charts), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	dom, err := exec.CommandContext(ctx, chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir="+filepath.Join(dir, "profile"),
		"--virtual-time-budget=20000", "--dump-dom", "file://"+file).Output()
	found := regexp.MustCompile(`(?s)<pre id="out">(.*?)</pre>`).FindSubmatch(dom)
	if err != nil || found == nil {
		t.Fatalf("the browser: %v", err)
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(string(found[1]))), &wrong); err != nil {
		t.Fatalf("%v: %q", err, found[1])
	}
	return wrong
}

// crowded has charts that are hard to fit: long names, lines that end together, many marks.
func crowded() *Page {
	far := Lines{
		Title: "Far", X: Axis{Name: "seconds since the load began to be three times what is released"}, Y: Axis{Name: "attempts in a second"},
		At: []Mark{{60, "the load ends"}, {95, "the backlog could be empty"}, {299, "the end"}},
	}
	near := Lines{Title: "Near", X: Axis{Name: "replicas", Log: true}, Y: Axis{Name: "excess", Log: true}, Limits: []Mark{{5e-4, "the target at 95 %"}}}
	for i, name := range []string{"fixed", "exponential, no jitter", "essay_sdk", "retry_after obeyed", "sdk"} {
		s := Series{Name: name}
		for x := range 300 {
			s.X, s.Y = append(s.X, float64(x)), append(s.Y, float64(max(0, 100*i+x*(200-x))))
		}
		far.Series = append(far.Series, s)
		near.Series = append(near.Series, Series{Name: name, X: []float64{1, 2, 4, 8, 16}, Y: []float64{0, 1e-9, 1e-5, 1e-3, power(-i)}})
	}
	long := Bars{Title: "Bars", Unit: "kills", Mark: &Mark{At: 100, Label: "a limit of which much can be said"}, Bars: []Bar{
		{Label: "committed, with a quota for each tenant", Value: 100, Text: "1,234,567 MiB, over physical memory"}, {Label: "none", Value: 0}, {Label: "learned", Value: 99.9},
	}}
	return &Page{
		Title: "Crowded", Lead: "A long word: " + filepath.Join("a", "very", "long", "path"), Command: "plimsoll sim regimes --runs /a/path/that/is/long/and/has/no/place/to/break/runs.csv",
		Figures:  []Figure{{"1,234,567 MiB", "the first", "", Red}, {"12.3 %", "the second", "committed: 99.9 %", ""}, {"3", "the third", "", ""}, {"4", "the fourth", "", ""}},
		Sections: []Section{{Title: "S", Charts: []Chart{far, near, long}, Tables: []Table{{Columns: []string{"a", "a long name of a column", "another long name", "one more of them", "the last of them"}, Rows: [][]string{{"a", "1,234,567 MiB", "1,234,567 MiB", "1,234,567 MiB", "1,234,567 MiB"}}}}}},
	}
}

// A page fits its window from 320 pixels on, and what is written in a chart can be read.
func TestPageInABrowser(t *testing.T) {
	for _, p := range []*Page{sample(), crowded()} {
		for _, wrong := range browser(t, written(t, p), len(p.Sections[0].Charts)) {
			t.Errorf("%s: at %s", p.Title, wrong)
		}
	}
}
