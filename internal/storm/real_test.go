package storm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/client"
	"github.com/plimsoll-project/plimsoll/internal/report/reporttest"
	"github.com/plimsoll-project/plimsoll/pool"
)

func bench(words ...string) (string, error) {
	return reporttest.Output(BenchCommand("test"), words...)
}

// stormOf is a storm of some seconds in one mode.
func stormOf(t *testing.T, mode, deadline string, words ...string) *RealRun {
	t.Helper()
	words = append(words, "--clients", "40", "--cap", "10", "--load", "2", "--storm", "1s", "--before", "500ms", "--mode", mode, "--deadline", deadline, "-o", "json")
	out, err := bench(words...)
	if err != nil {
		t.Fatal(err)
	}
	r := new(RealResult)
	if err := json.Unmarshal([]byte(out), r); err != nil || len(r.Runs) != 1 || r.Runs[0].Mode != mode {
		t.Fatalf("%v: %s", err, out)
	}
	one := &r.Runs[0]
	if m := one.Measured; m.Callers != 40 || one.Errors != 0 || m.Waiters < 10 || m.Attempts < 1 || one.Connections < 40 || one.MostOpen > one.Connections || one.PostP50 <= 0 {
		t.Errorf("%+v", one)
	}
	return one
}

// Real clients that wait in line at a real replica all get a slot, as those that are played do, and the
// page is one that can be read.
func TestRealStorm(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.html")
	one := stormOf(t, "queue", "1m", "--report", file)
	m, played := one.Measured, one.Played
	if m.GaveUps != 0 || m.Attempts < 2 || m.Hints < m.Waiters || played.Callers != m.Callers || played.GaveUps != 0 || played.Attempts > 3 {
		t.Errorf("%+v", one)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"storm --before 500ms", "Who waits", "first told right"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	reporttest.InBrowser(t, string(page))
}

// In refuse mode some may give up, and each of the others has been told as often as it was refused.
func TestRealStormInRefuseMode(t *testing.T) {
	t.Parallel()
	one := stormOf(t, "refuse", "3s")
	if m := one.Measured; m.Hints < m.Waiters-m.GaveUps || m.GaveUps > m.Waiters || m.Recovery == 0 {
		t.Errorf("%+v", one)
	}
}

// Whoever interrupts it has given back what it held and the places that it had: of a replica that goes on.
func TestInterruptedStormGivesBack(t *testing.T) {
	t.Parallel()
	o := DefaultRealOptions()
	o.Clients, o.Cap, o.Storm, o.Before, o.Modes = 60, 10, 2*time.Second, 0, []pool.Mode{pool.Queue}
	at, err := o.replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := at.stop(); err != nil {
			t.Error(err)
		}
	}()
	c, err := client.New(at.address, at.token)
	if err != nil {
		t.Fatal(err)
	}
	again := o
	again.Address, again.Token, again.Class = at.address, at.token, "queue"
	ctx, cancel := context.WithCancel(t.Context())
	again.Progress = func(over bool, _ string, _ ...any) {
		if pools, err := c.Pools(ctx); !over && err == nil && pools.Pools[0].Busy == 10 && pools.Pools[0].Waiting > 0 {
			cancel()
		}
	}
	if _, err := Run(ctx, again); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	pools, err := c.Pools(t.Context())
	if err != nil || pools.Pools[0].Name != "queue" || pools.Pools[0].Busy != 0 || pools.Pools[0].Waiting != 0 {
		t.Errorf("%+v, %v", pools, err)
	}
}

// The storm has exactly as many clients as are asked for, of which as many as the load says can be
// served meanwhile.
func TestRealCallers(t *testing.T) {
	o := DefaultRealOptions()
	if o.Life() != 18*time.Second {
		t.Errorf("a life of %v", o.Life())
	}
	before, storm, last := 0, 0, -o.Before
	for _, a := range o.callers() {
		if a.at < last || a.at >= o.Storm || a.life < 0 {
			t.Fatalf("%+v after %v", a, last)
		}
		if last = a.at; a.at < 0 {
			before++
		} else {
			storm++
		}
	}
	if storm != 2000 || before < 1000 || before > 1400 {
		t.Errorf("%d before, %d in the storm", before, storm)
	}
}

func TestMistakesOfTheRealStorm(t *testing.T) {
	for words, want := range map[string]string{
		"--clients 0":                  "--clients 0: 1 to",
		"--cap 0":                      "--cap 0: 1 to",
		"--load NaN":                   "--load NaN: above 0",
		"--storm 0s":                   "--storm 0s",
		"--deadline 2h":                "--deadline 2h0m0s",
		"--before -1s":                 "--before -1s",
		"--clients 9":                  "would live for 1h6m40s",
		"--clients 20000 --cap 1":      "would live for 9ms",
		"--mode sometimes":             "--mode sometimes: write queue",
		"--class a":                    "--class: only with --address",
		"--address http://127.0.0.1:1": "--address: name with --class",
		"--report /nowhere/a.html":     "--report /nowhere/a.html",
		"storm":                        "unknown command",
	} {
		if _, err := bench(strings.Fields(words)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", words, err, want)
		}
	}
}

// A replica that is not there is an error for each who asks, and no hang.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	out, err := bench("--clients", "5", "--cap", "1", "--load", "1", "--storm", "1s", "--before", "0s", "--deadline", "1s", "--mode", "refuse", "--address", "http://127.0.0.1:1", "--class", "a", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var r RealResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Runs[0].Measured.Waiters != 5 || r.Runs[0].Measured.GaveUps != 5 {
		t.Errorf("%v: %s", err, out)
	}
}

// What the gate counts of its hints (plimsoll_retry_after_error_ratio) is what its clients see: one for each
// who waited and was admitted.
func TestGateJudgesItsHintsAsItsClientsDo(t *testing.T) {
	t.Parallel()
	o := DefaultRealOptions()
	o.Clients, o.Cap, o.Load, o.Storm, o.Deadline, o.Before, o.Modes = 40, 10, 2, time.Second, time.Minute, 0, []pool.Mode{pool.Queue}
	at, err := o.replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer at.stop()
	again := o
	again.Address, again.Token, again.Class = at.address, at.token, "queue"
	r, err := Run(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	if counted, m := gateJudged(t, at.address), r.Runs[0].Measured; m.GaveUps > 0 || m.Waiters < 10 || counted != float64(m.Waiters) {
		t.Errorf("the gate counts %v; its clients %+v", counted, m)
	}
}

// gateJudged is how many hints a replica has judged.
func gateJudged(t *testing.T, address string) (all float64) {
	resp, err := http.Get(address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if n, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(name, "plimsoll_retry_after_error_ratio_count{") {
			all += n
		}
	}
	return all
}
