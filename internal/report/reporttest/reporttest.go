// Package reporttest looks at pages of package report as a reader does: in a real browser.
//
// It is for tests alone. Safe for concurrent use.
package reporttest

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// look is what is looked for in a real browser: a page wider than its window, a chart whose words leave
// it or lie over each other, and whatever the page's own policy forbids.
const look = `<!doctype html><pre id="out"></pre><script>
const page = %s, found = [];
const sees = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
function judge(frame, width) {
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
  frame.onload = () => { judge(frame, width); if (--waits == 0) document.getElementById("out").textContent = JSON.stringify(found); };
  document.body.append(frame);
}
</script>`

// InBrowser fails a test for what is wrong with a page from 320 pixels on, and skips it where there
// is no Chromium.
func InBrowser(t *testing.T, page string) {
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
	if err := os.WriteFile(file, fmt.Appendf(nil, look, text, strings.Count(page, "<figure>")), 0o600); err != nil {
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
	var wrong []string
	if err := json.Unmarshal([]byte(html.UnescapeString(string(found[1]))), &wrong); err != nil {
		t.Fatalf("%v: %q", err, found[1])
	}
	for _, what := range wrong {
		t.Errorf("at %s", what)
	}
}
