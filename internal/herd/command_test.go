package herd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/plimsoll-project/plimsoll/internal/report/reporttest"
)

func fields(words string) []string { return strings.Fields(words) }

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	herd := "--hosts 10 --slots 10 --replicas 2 --lives 10s --loads 0.9 --requests 2000"
	burst := "--hosts 20 --creates 300 --replicas 4 --bursts 2"
	for _, c := range []struct {
		command *cobra.Command
		words   string
		want    []string
	}{
		{Command(), herd, []string{"heartbeats", "shared_ledger", "best_of_3", "deltas", "Erlang-B", "90 %", "deltas at 90 % of the slots: at most "}},
		{Command(), herd + " -o json", []string{`"rows":[{"policy":"heartbeats","replicas":2,"load":0.9,"life_s":10,"refused":`, `"erlang_b":`, `"excess":`, `"pooled":`, `"over_admissions":0`, `"assumed":["`}},
		{BurstCommand(), burst, []string{"max/mean", "deltas_without_a_share", "300 creates"}},
		{BurstCommand(), burst + " -o json", []string{`"creates":300`, `"over_admissions":0`, `"max_over_mean":`, `"reserve_calls_per_create":1`, `"peers":[{"policy":"deltas_without_a_share"`, `"assumed":["`}},
	} {
		page := filepath.Join(dir, "page.html")
		out, err := reporttest.Output(c.command, fields(c.words+" --report "+page)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(out, "\n", ""), `": `, `":`), want) && !strings.Contains(squeezed(out), want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		html, err := os.ReadFile(page)
		if err != nil || !strings.Contains(string(html), "deltas") {
			t.Errorf("%v: %.200s", err, html)
		}
		if !strings.Contains(c.words, "json") {
			reporttest.InBrowser(t, string(html))
		}
	}
}

// squeezed is JSON without what is there for the eye.
func squeezed(s string) string {
	return strings.NewReplacer("\n", "", "  ", "", `": `, `":`, ", \"", ",\"").Replace(s)
}

func TestMistakesOfTheCommands(t *testing.T) {
	for words, want := range map[string]string{
		"--replicas 0":          "--replicas 0: each number is 1 to 64",
		"--replicas 65":         "--replicas 65",
		"--lives 0s":            "--lives 0s: each is a time from 1ms",
		"--lives ten":           "--lives ten",
		"--loads 0":             "--loads 0: each is a part of the slots",
		"--loads NaN":           "--loads NaN",
		"--policies ours":       "--policies ours: there are heartbeats, shared_ledger, best_of_3, deltas",
		"--requests 1":          "--requests 1: from 20",
		"--hosts 0":             "--hosts 0: from 1",
		"--slots 0":             "--slots 0: from 1",
		"--jobs 0":              "--jobs 0: at least 1",
		"--report /nowhere/a.b": "--report /nowhere/a.b",
	} {
		if _, err := reporttest.Output(Command(), fields(words)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("herd %s: %v, want %s", words, err, want)
		}
	}
	for words, want := range map[string]string{
		"--creates 0":  "--creates 0: from 1",
		"--bursts 0":   "--bursts 0: from 1",
		"--replicas 0": "--replicas 0: from 1",
		"--within -1s": "--within -1s: from 0s",
		"--hosts 0":    "--hosts 0: from 1",
		"--slots -1":   "--slots -1: from 1",
		"--jobs 0":     "--jobs 0: at least 1",
	} {
		if _, err := reporttest.Output(BurstCommand(), fields(words)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("burst %s: %v, want %s", words, err, want)
		}
	}
}

// What ours promises and did not keep ends with status 1.
func TestBroken(t *testing.T) {
	if err := (&Result{Rows: []Row{{Policy: Heartbeats, WrongRefusals: 9}}}).Broken(); err != nil {
		t.Error(err)
	}
	if err := (&Result{Rows: []Row{{Policy: Deltas, WrongRefusals: 1}}}).Broken(); err == nil {
		t.Error("a wrong refusal of ours is none")
	}
	if err := (&BurstResult{Burst: Burst{OverAdmissions: 1}}).Broken(); err == nil {
		t.Error("an over-admission of ours is none")
	}
}

func TestHelp(t *testing.T) {
	for _, c := range []*cobra.Command{Command(), BurstCommand()} {
		out, err := reporttest.Output(c, "--help")
		if err != nil || !strings.Contains(out, "Assumed:") || !strings.Contains(out, "--report") {
			t.Errorf("%v: %s", err, out)
		}
	}
}
