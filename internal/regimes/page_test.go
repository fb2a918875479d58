package regimes

import (
	"bytes"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll-project/plimsoll/internal/report/reporttest"
)

// words is what a page says, with plain spaces.
func words(page string) string {
	return strings.ReplaceAll(html.UnescapeString(page), "\u00a0", " ")
}

func pageOf(t *testing.T, r *Result) string {
	t.Helper()
	var out bytes.Buffer
	if err := r.Page().Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The page says what was found, assumed, and what it would cost to be wrong; and the same seed is
// the same page.
func TestPage(t *testing.T) {
	o := small()
	o.Hours, o.Load = 0.1, 200
	r := result(t, o)
	page := pageOf(t, r)
	for _, want := range append([]string{
		"a host holds", "Who pays when too much was admitted", "Who is told no", "With a quota for each tenant", "At other loads",
		"If sandboxes of a batch peak together", "What it would cost to be wrong", "Too little admitted costs machines", "answers against a host's own word",
	}, r.Assumed...) {
		if !strings.Contains(words(page), want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if len(page) > 150_000 {
		t.Errorf("%d bytes", len(page))
	}
	o.Jobs = 1
	if pageOf(t, result(t, o)) != page {
		t.Error("the same seed gave another page")
	}
}

// A page is written where --report says, beside what is printed.
func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.html")
	if _, err := command("--hosts", "1", "--hours", "0.02", "--seed", "3", "--report", file); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(page), "--hosts 1 --hours 0.02 --seed 3") {
		t.Errorf("%v: %.200s", err, page)
	}
}

// docs/regimes.html is written by make regimes from the defaults. Whether its figures are those of
// now takes the whole play; that it assumes what is assumed now is seen at once.
func TestDocumentIsOfThisPlay(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "regimes.html"))
	if err != nil {
		t.Fatal(err)
	}
	o := DefaultOptions()
	in, err := o.load()
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{Options: o, in: in, load: o.Load, limit: o.quota(o.Load)}
	text := words(string(page))
	for _, sentence := range s.result(nil, nil, nil).Assumed {
		if !strings.Contains(text, sentence) {
			t.Errorf("%q is not in docs/regimes.html: run make regimes", sentence)
		}
	}
	if len(page) > 150_000 {
		t.Errorf("docs/regimes.html has %d bytes", len(page))
	}
	reporttest.InBrowser(t, string(page))
}
