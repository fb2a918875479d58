package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-project/plimsoll/api"
)

// TestDrawHost draws each testdata/host/*.json and compares it with the .txt beside it.
// UPDATE_SCRIPTS=1 writes them anew.
func TestDrawHost(t *testing.T) {
	files, err := filepath.Glob("testdata/host/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var h api.Host
		if err := json.Unmarshal(text, &h); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		p := unicodePen()
		if strings.Contains(file, "ascii") {
			p = asciiPen()
		}
		var out bytes.Buffer
		if err := drawHost(&out, h, p); err != nil {
			t.Fatal(err)
		}
		compare(t, strings.TrimSuffix(file, ".json")+".txt", out.String())
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", file, n, line)
			}
		}
	}
}

func compare(t *testing.T, golden, got string) {
	t.Helper()
	if os.Getenv("UPDATE_SCRIPTS") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}

// The sum that is shown adds up, whatever the agent says.
func TestTheSumAddsUp(t *testing.T) {
	for _, h := range []api.Host{
		{Intake: api.IntakeOpen, Limits: []api.Limit{{Name: "m", SizeMB: 4096, UsedMB: 400}}, FreeMB: 3695, HeadroomMB: 256, UnresidentMB: 880, ReservedMB: 128, AdmittableMB: 2430},
		{Intake: api.IntakeOpen, Limits: []api.Limit{{Name: "m", SizeMB: 4096, UsedMB: 400}}, FreeMB: 3697, AdmittableMB: 3698},
		{Intake: api.IntakeOpen},
	} {
		s := sumOf(h)
		total := int64(0)
		for i, line := range s.steps(h, asciiPen()) {
			switch {
			case line.ruled && total != line.amount:
				t.Errorf("%+v: %s is %d, the lines above come to %d", h, line.name, line.amount, total)
			case line.ruled:
			case line.minus:
				total -= line.amount
			case i == 0 || line.name == "rounding":
				total += line.amount
			}
		}
	}
}

func TestBarFillsItsWidth(t *testing.T) {
	p := asciiPen()
	for _, amounts := range [][parts]int64{
		{}, {1, 1, 1, 1, 1}, {1, 0, 0, 0, 1 << 40}, {1 << 40, 1, 1, 1, 0}, {0, 0, 0, 0, 7}, {99, 1, 99, 1, 99}, {3, 3, 3, 0, 0},
	} {
		total := int64(0)
		for _, n := range amounts {
			total += n
		}
		bar := p.bar(amounts, total, 40)
		if len(bar) != 40 {
			t.Errorf("%v: %d cells: %s", amounts, len(bar), bar)
		}
		for i, n := range amounts {
			if n > 0 && !strings.Contains(bar, p.glyphs[part(i)]) {
				t.Errorf("%v: part %d is not seen: %s", amounts, i, bar)
			}
		}
	}
}

func TestColourIsOnlyAddedAround(t *testing.T) {
	p := asciiPen()
	amounts := [parts]int64{1, 2, 3, 4, 5}
	bare := p.bar(amounts, 15, 30)
	p.colour = true
	painted := p.bar(amounts, 15, 30)
	for _, code := range []string{"34", "36", "33", "90", "32", "0"} {
		painted = strings.ReplaceAll(painted, "\x1b["+code+"m", "")
	}
	if painted != bare {
		t.Errorf("%q, without colour %q", painted, bare)
	}
}

func TestWords(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %s", n, got)
		}
	}
	for d, want := range map[time.Duration]string{2400 * time.Millisecond: "2.4 s", 12400 * time.Millisecond: "12 s", 3 * time.Minute: "3 min", time.Millisecond: "0 s"} {
		if got := seconds(d); got != want {
			t.Errorf("seconds(%s) = %s", d, got)
		}
	}
	for d, want := range map[time.Duration]string{-time.Second: "0 s", 90 * time.Second: "90 s", 2 * time.Hour: "2 h", 50 * time.Hour: "2 d", time.Hour: "60 min"} {
		if got := age(d); got != want {
			t.Errorf("age(%s) = %s", d, got)
		}
	}
	if got := plain("a\x1b[2Jb\tc"); got != "a?[2Jb?c" {
		t.Error(got)
	}
}

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{"512MiB": 512, "1GiB": 1024, "1.5GiB": 1536, "2 TiB": 2 << 20} {
		if got, err := parseMemory(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "512", "512MB", "-1GiB", "0MiB", "1.7MiB", "99999999999GiB", "GiB", "1e3MiB"} {
		if got, err := parseMemory(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func FuzzParseMemory(f *testing.F) {
	for _, text := range []string{"512MiB", "1.5GiB", "0.000001TiB", "9999999999999GiB", "\x00MiB"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseMemory(text); err == nil && n <= 0 {
			t.Errorf("%q is %d MiB", text, n)
		}
	})
}
