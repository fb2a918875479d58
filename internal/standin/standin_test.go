package standin_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/internal/standin"
)

const id = "agent-3f2a"

// essay is the essay's heartbeat, at a second of its hour.
func essay(t testing.TB, second int) string {
	t.Helper()
	data, err := os.ReadFile("../../table/testdata/heartbeat.json")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(data), "11:04:22Z", fmt.Sprintf("11:%02d:%02dZ", second/60, second%60), 1)
}

func at(second int) time.Time { return time.Unix(1_800_000_000+int64(second), 0) }

// ledger is the host's own arithmetic over what was reported.
func ledger() *host.Host {
	cfg := host.DefaultConfig(id, 0)
	cfg.Headroom, cfg.MaxStarts = standin.Headroom, 1<<20
	return host.New(cfg, 1)
}

// The essay's fixture: 25 stateless creates of 4 GiB fit, and the 26th does not; or 6 stateful.
func TestTheEssaysFixture(t *testing.T) {
	for stateful, fit := range map[bool]int{false: 25, true: 6} {
		hosts := standin.New(gate.WorkingSet, []string{id})
		if _, err := hosts.Take(at(0), []byte(essay(t, 0))); err != nil {
			t.Fatal(err)
		}
		sample, err := hosts.Host(id).Sample(at(1))
		if err != nil {
			t.Fatal(err)
		}
		h := ledger()
		h.Step(time.Second, sample)
		for i := range fit + 1 {
			ask := gate.Ask{Memory: 4 * gate.GiB, Stateful: stateful, Rule: gate.DefaultReserveRule()}
			a := h.Step(time.Second, host.Reserve{ID: fmt.Sprint(i), Gen: 1, Ask: ask, Until: time.Minute, Incarnation: 1}).Answer
			if yes := a.Denial == ""; yes != (i < fit) {
				t.Errorf("stateful %v: number %d: %q, %s are admittable", stateful, i+1, a.Denial, h.Admittable())
			}
		}
		if err := h.CheckInvariants(); err != nil {
			t.Error(err)
		}
	}
}

// What has booted is in the report, and reserved as well until it is released: it counts once if
// the report names it, and twice if not, which fills a host to half. What is released, or no
// longer named, makes no room that the host has not reported.
func TestNamedSandboxesCountOnce(t *testing.T) {
	for named, fit := range map[bool]int{true: 25, false: 13} {
		hosts, h := standin.New(gate.WorkingSet, []string{id}), ledger()
		ask := gate.Ask{Memory: 4 * gate.GiB, Rule: gate.DefaultReserveRule()}
		var ids []string
		report := func(second, running int, ids []string) {
			text := strings.Replace(essay(t, second), "25600", fmt.Sprint(25600-1024*running), 1)
			if named {
				list, _ := json.Marshal(ids)
				text = strings.Replace(text, `"agent_id"`, `"sandbox_ids": `+string(list)+`, "agent_id"`, 1)
			}
			if _, err := hosts.Take(at(second), []byte(text)); err != nil {
				t.Fatal(err)
			}
			sample, err := hosts.Host(id).Sample(at(second))
			if err != nil {
				t.Fatal(err)
			}
			h.Step(time.Second, sample)
			if err := h.CheckInvariants(); err != nil {
				t.Fatal(err)
			}
		}
		report(0, 0, nil)
		for i := range 40 { // each boots, and is reported, before the next is asked for
			one := fmt.Sprint("adm-", i)
			a := h.Step(time.Second, host.Reserve{ID: one, Gen: 1, Ask: ask, Until: time.Minute, Incarnation: 1}).Answer
			if a.Denial != "" {
				break
			}
			ids = append(ids, one)
			report(1+i, len(ids), append(ids, "adm-of-nobody"))
		}
		if len(ids) != fit {
			t.Errorf("named %v: %d came to run, want %d", named, len(ids), fit)
		}
		was := h.Admittable()
		h.Step(time.Second, host.Release{ID: ids[0], Gen: 1})
		if named && h.Admittable() != was {
			t.Errorf("released, and still running there: %s, and then %s", was, h.Admittable())
		}
		report(50, len(ids)-1, ids[1:])
		if now := h.Admittable(); named && now != gate.GiB {
			t.Errorf("it is gone there: %s", now)
		}
		report(51, len(ids)-1, nil) // no longer named: nobody knows, so both count
		if now := h.Admittable(); named && now != 0 {
			t.Errorf("named no more: %s", now)
		}
	}
}

// T17: what cannot be true is refused and counted, and its host promises nothing until it
// reports what can.
func TestReportsThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct{ old, new, why string }{
		"below zero":            {`25600`, `-1`, standin.Untrue},
		"used above total":      {`4180`, `32769`, standin.Untrue},
		"NaN":                   {`4.2`, `NaN`, standin.Malformed},
		"a number too large":    {`25600`, `1e999`, standin.Untrue},
		"nothing at all":        {`"memory_mb_total": 32768,`, ``, standin.Untrue},
		"total of nothing":      {`32768`, `0`, standin.Untrue},
		"another mode":          {`working-set`, `committed`, standin.Untrue},
		"a version of tomorrow": {`"region"`, `"version": 2, "region"`, standin.Version},
		"a version in words":    {`"region"`, `"version": "new", "region"`, standin.Version},
		"another host":          {id, "stranger", standin.Unknown},
		"cut short":             {`}`, ``, standin.Malformed},
	} {
		hosts := standin.New(gate.WorkingSet, []string{id})
		if _, err := hosts.Take(at(0), []byte(essay(t, 0))); err != nil {
			t.Fatal(err)
		}
		_, err := hosts.Take(at(1), []byte(strings.Replace(essay(t, 1), tt.old, tt.new, 1)))
		var no *standin.Refused
		if !errors.As(err, &no) || no.Why != tt.why {
			t.Errorf("%s: %v", name, err)
		}
		s := hosts.Summary(at(1), []string{id})
		if s.Refused[tt.why] != 1 || s.Hosts[0].Taken != 1 {
			t.Errorf("%s: %+v", name, s)
		}
		_, err = hosts.Host(id).Sample(at(1))
		if doubted := tt.why == standin.Untrue; doubted != errors.Is(err, standin.ErrNotReported) {
			t.Errorf("%s: sample %v", name, err)
		}
		if _, err := hosts.Take(at(2), []byte(essay(t, 2))); err != nil {
			t.Errorf("%s: a good one afterwards: %v", name, err)
		}
		if _, err := hosts.Host(id).Sample(at(2)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	hosts := standin.New(gate.WorkingSet, []string{id})
	hosts.Take(at(0), []byte(strings.Replace(essay(t, 0), `"region"`, `"version": 1, "region"`, 1)))
	if s := hosts.Summary(at(0), []string{id}); s.Hosts[0].Taken != 1 || len(s.Refused) != 0 {
		t.Errorf("version 1: %+v", s)
	}
}

// T52, F10: the last good report expires, by when it was received; the same one again does
// not keep it young, and an older one changes nothing.
func TestReportsGrowStale(t *testing.T) {
	hosts := standin.New(gate.WorkingSet, []string{id})
	h := hosts.Host(id)
	if _, err := h.Sample(at(0)); !errors.Is(err, standin.ErrNotReported) {
		t.Errorf("before any report: %v", err)
	}
	hosts.Take(at(0), []byte(essay(t, 10)))
	hosts.Take(at(20), []byte(essay(t, 10)))
	var no *standin.Refused
	if _, err := hosts.Take(at(20), []byte(essay(t, 9))); !errors.As(err, &no) || no.Why != standin.Older {
		t.Errorf("an older one: %v", err)
	}
	if _, err := h.Sample(at(29)); err != nil {
		t.Error(err)
	}
	if _, err := h.Sample(at(30)); !errors.Is(err, standin.ErrNotReported) {
		t.Errorf("after 30 s: %v", err)
	}
	if s := hosts.Summary(at(30), []string{id}).Hosts[0]; !s.Stale || *s.AgeMS != 30_000 || s.AdmittableMB != 25600 {
		t.Errorf("%+v", s)
	}
	// A clock that was set back is believed again once the host was silent for as long.
	if _, err := hosts.Take(at(31), []byte(essay(t, 3))); err != nil {
		t.Error(err)
	}
	if _, err := h.Sample(at(31)); err != nil {
		t.Error(err)
	}
}

func TestReportsOverHTTP(t *testing.T) {
	told := 0
	s := httptest.NewServer((&standin.Server{
		Hosts: standin.New(gate.WorkingSet, []string{id}), IDs: []string{id}, Token: sha256.Sum256([]byte("a good long token")),
		Taken: func(_ context.Context, h *standin.Host) { told++ }, Now: func() time.Time { return at(0) },
	}).Handler())
	defer s.Close()
	for _, tt := range []struct {
		method, token, body string
		status              int
		code                string
	}{
		{"POST", "a good long token", essay(t, 0), 204, ""},
		{"POST", "", essay(t, 0), 401, "unauthenticated"},
		{"POST", "another", essay(t, 0), 401, "unauthenticated"},
		{"GET", "", "", 401, "unauthenticated"},
		{"POST", "a good long token", strings.Replace(essay(t, 0), id, "x", 1), 404, "not_found"},
		{"POST", "a good long token", strings.Replace(essay(t, 0), "25600", "-1", 1), 400, "invalid_request"},
		{"POST", "a good long token", strings.Repeat(" ", 70_000), 413, "body_too_large"},
		{"GET", "a good long token", "", 200, ""},
		{"PUT", "a good long token", "", 405, ""},
	} {
		q, _ := http.NewRequest(tt.method, s.URL+"/v1/reports", strings.NewReader(tt.body))
		if tt.token != "" {
			q.Header.Set("Authorization", "Bearer "+tt.token)
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Code    string
			Refused map[string]int64
		}
		json.NewDecoder(r.Body).Decode(&body)
		r.Body.Close()
		if r.StatusCode != tt.status || body.Code != tt.code || tt.status == 200 && (body.Refused[standin.Unknown] != 1 || body.Refused[standin.Untrue] != 1) {
			t.Errorf("%s as %q: %d %+v, want %d", tt.method, tt.token, r.StatusCode, body, tt.status)
		}
	}
	if told != 1 {
		t.Errorf("told of %d", told)
	}
}

// FuzzReports: whatever is posted, what was taken can be stepped, and breaks nothing.
func FuzzReports(f *testing.F) {
	f.Add(essay(f, 0))
	f.Add(`{"agent_id":"agent-3f2a","version":1}`)
	f.Fuzz(func(t *testing.T, data string) {
		hosts := standin.New(gate.WorkingSet, []string{id})
		if _, err := hosts.Take(at(0), []byte(data)); err != nil {
			return
		}
		sample, err := hosts.Host(id).Sample(at(0))
		if err != nil {
			t.Fatal(err)
		}
		h := ledger()
		h.Step(time.Second, sample)
		if err := h.CheckInvariants(); err != nil || h.Admittable() < 0 {
			t.Fatal(err, h.Admittable())
		}
	})
}
