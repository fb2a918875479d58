package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

func TestSettings(t *testing.T) {
	f := parse(t, `
fleet:
  default_quota: 3
  pools: [{name: a, cap: 30}, {name: b, cap: none}, {name: c, cap: 30, max_waiting: 0}]
  classes: []
  quotas: [{tenant: acme, limit: 10}, {tenant: free, limit: none}]
`)
	want := pool.Settings{
		Pools:        map[string]pool.Limits{"a": {Cap: 30, MaxWaiting: 300}, "b": {Cap: pool.Unlimited, MaxWaiting: 1000}, "c": {Cap: 30}},
		Quotas:       map[string]int64{"acme": 10, "free": pool.Unlimited},
		DefaultQuota: 3, Ceiling: pool.Unlimited,
	}
	if diff := cmp.Diff(want, f.Fleet.Settings()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if q := Default("h").Fleet.Settings().DefaultQuota; q != pool.Unlimited {
		t.Errorf("the default file has a quota of %d", q)
	}
}

func exampleClass(t *testing.T, name string) *Class {
	t.Helper()
	c, ok := parse(t, Example()).Fleet.Class(name)
	if !ok {
		t.Fatalf("no class %s", name)
	}
	return c
}

func TestAsk(t *testing.T) {
	c := exampleClass(t, "database")
	ask, contents, err := c.Ask(nil, nil, "", map[string]string{"rack": "3", "zone": "a"})
	if err != nil {
		t.Fatal(err)
	}
	wantContents := pool.Contents{Class: "database", Template: "database", MemoryMB: 2048, CPUMilli: 1000, Labels: "rack=3,zone=a", Stateful: true, Priority: 100}
	want := gate.Ask{
		Class: "database", Template: "database", Memory: 2 * gate.GiB, CPUMilli: 1000, Priority: 100, Stateful: true,
		Rule:   gate.DefaultReserveRule(),
		Dims:   []gate.Dim{{Name: "gpus", N: 1}},
		Labels: []gate.Label{{Name: "rack", Value: "3"}, {Name: "zone", Value: "a"}},
	}
	if diff := cmp.Diff(wantContents, contents); diff != "" {
		t.Errorf("contents (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(want, ask); diff != "" {
		t.Errorf("ask (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(ask, c.AskOf(contents)); diff != "" {
		t.Errorf("the row gives another ask\n%s", diff)
	}
}

func TestAskWithinBounds(t *testing.T) {
	memory, cpu := int64(1024), 0.2901
	ask, contents, err := exampleClass(t, "small").Ask(&memory, &cpu, "img-1", nil)
	if err != nil || ask.Memory != gate.GiB || ask.CPUMilli != 291 || contents.Template != "img-1" || contents.Labels != "" {
		t.Errorf("%+v %+v %v", ask, contents, err)
	}
	for cores, milli := range map[float64]int64{0.29: 290, 1.1: 1100, 0.5: 500, 0.2500001: 251, 2: 2000} {
		if got := roundUp(cores); got != milli {
			t.Errorf("%v cores are %d, want %d", cores, got, milli)
		}
	}
}

func TestAskRefusals(t *testing.T) {
	many := map[string]string{}
	for i := range maxLabels + 1 {
		many[fmt.Sprint("l", i)] = ""
	}
	i := func(n int64) *int64 { return &n }
	f := func(n float64) *float64 { return &n }
	for _, c := range []struct {
		memory   *int64
		cpu      *float64
		template string
		labels   map[string]string
		code     api.Code
		detail   string
	}{
		{i(2048), nil, "", nil, api.TooLarge, "memory_mb: 2048 is outside class small; ask for 128 to 1024"},
		{i(127), nil, "", nil, api.TooLarge, "memory_mb: 127 is outside class small; ask for 128 to 1024"},
		{i(math.MaxInt64), nil, "", nil, api.TooLarge, "ask for 128 to 1024"},
		{i(0), nil, "", nil, api.InvalidRequest, "memory_mb: 0 is no size; ask for 128 to 1024"},
		{i(math.MinInt64), nil, "", nil, api.InvalidRequest, "memory_mb"},
		{nil, f(2.0001), "", nil, api.TooLarge, "cpu: 2.0001 is outside class small; ask for 0.25 to 2"},
		{nil, f(0), "", nil, api.TooLarge, "cpu: 0 is outside class small; ask for 0.25 to 2"},
		{nil, f(1e300), "", nil, api.TooLarge, "cpu"},
		{nil, f(math.NaN()), "", nil, api.InvalidRequest, "cpu: NaN is no number of cores"},
		{nil, f(math.Inf(1)), "", nil, api.InvalidRequest, "cpu"},
		{nil, f(-1), "", nil, api.InvalidRequest, "cpu: -1 is no number of cores"},
		{nil, nil, "a/b", nil, api.InvalidRequest, `template: "a/b" is not allowed`},
		{nil, nil, strings.Repeat("a", 65), nil, api.InvalidRequest, "template"},
		{nil, nil, "", many, api.InvalidRequest, "labels: 33 of them"},
		{nil, nil, "", map[string]string{"a=b": "c"}, api.InvalidRequest, "labels.a=b: the name is not allowed"},
		{nil, nil, "", map[string]string{"a": "b,c"}, api.InvalidRequest, "labels.a: the value is not allowed"},
	} {
		_, _, err := exampleClass(t, "small").Ask(c.memory, c.cpu, c.template, c.labels)
		refusal, ok := api.AsRefusal(err)
		if !ok || !errors.Is(err, c.code) || !strings.Contains(refusal.Detail, c.detail) {
			t.Errorf("want %s: %s\ngot  %v", c.code, c.detail, err)
		}
	}
	_, _, err := exampleClass(t, "database").Ask(nil, nil, "", map[string]string{"zone": "b"})
	if !errors.Is(err, api.InvalidRequest) || !strings.Contains(err.Error(), `class database demands "a"`) {
		t.Errorf("a contradiction was taken: %v", err)
	}
}

func TestAuthenticate(t *testing.T) {
	hash := func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }
	f := parse(t, fleet("")+`
  consumers:
    - {name: ops, roles: [operator], token_sha256: ["`+hash("one")+`", "`+hash("two")+`"], tenants: ["*"]}
    - {name: ci, token_sha256: ["`+hash("three")+`"]}
    - {name: web, token_sha256: ["`+hash("four")+`"], tenants: [a, b], pin_hosts: true}
    - {name: one, token_sha256: ["`+hash("five")+`"], tenants: [acme]}
`)
	for token, name := range map[string]string{"one": "ops", "two": "ops", "three": "ci", "four": "web", "five": "one", "six": "", "": ""} {
		c, ok := f.Fleet.Authenticate(sha256.Sum256([]byte(token)))
		if ok != (name != "") || (ok && c.Name != name) {
			t.Errorf("token %q is %v, want %q", token, c, name)
		}
	}
	for _, c := range []struct{ consumer, asked, want, refused string }{
		{"ops", "", "ops", ""},
		{"ops", "acme", "acme", ""},
		{"ops", "a b", "", "invalid_request"},
		{"ops", "*", "", "invalid_request"},
		{"ci", "", "ci", ""},
		{"ci", "acme", "", "forbidden"},
		{"web", "a", "a", ""},
		{"web", "", "", "invalid_request"},
		{"web", "web", "", "forbidden"},
		{"one", "", "acme", ""},
		{"one", "one", "", "forbidden"},
	} {
		got, err := consumer(f.Fleet, c.consumer).Tenant(c.asked)
		if got != c.want || (err == nil) != (c.refused == "") || (err != nil && !errors.Is(err, api.Code(c.refused))) {
			t.Errorf("%s asks for %q: %q, %v", c.consumer, c.asked, got, err)
		}
	}
}

func consumer(f *Fleet, name string) *Consumer {
	for i := range f.Consumers {
		if f.Consumers[i].Name == name {
			return &f.Consumers[i]
		}
	}
	return nil
}

func TestRolesInclude(t *testing.T) {
	order := []Role{RoleConsumer, RoleOperator, RoleAdmin}
	for i, has := range order {
		c := Consumer{Roles: []Role{has}}
		for j, role := range order {
			if c.Has(role) != (j <= i) {
				t.Errorf("%s has %s: %v", has, role, c.Has(role))
			}
		}
		if c.Has("root") {
			t.Errorf("%s has a role that does not exist", has)
		}
	}
}

func TestHostConfig(t *testing.T) {
	l := parse(t, Example()).Local
	got := l.HostConfig(8, map[string]string{"zone": "z", "arch": "arm64"})
	want := host.DefaultConfig("host-1", 8)
	want.Headroom, want.MaxStarts, want.Reclaim = 512*gate.MiB, 4, host.ReclaimOn
	want.Labels = []gate.Label{{Name: "arch", Value: "arm64"}, {Name: "zone", Value: "a"}}
	want.Dims = []gate.Dim{{Name: "gpus", N: 2}, {Name: "hugepages", N: 1024}, {Name: "sandboxes", N: 100}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := Default("h").Local.HostConfig(3, nil).MaxStarts; n != 6 {
		t.Errorf("max_starts of 3 cores is %d", n)
	}
	want = host.DefaultConfig("h", 4)
	want.Reclaim = host.ReclaimOn
	if diff := cmp.Diff(want, Default("h").Local.HostConfig(4, nil)); diff != "" {
		t.Errorf("the defaults are not host's (-want +got)\n%s", diff)
	}
}

// TestNoHostSection: the defaults are the same as of an empty one.
func TestNoHostSection(t *testing.T) {
	without, with := parse(t, "data_dir: /a\n").Local, parse(t, "host: {}\n").Local
	if diff := cmp.Diff(with.HostConfig(2, nil), without.HostConfig(2, nil)); diff != "" {
		t.Errorf("(-with +without)\n%s", diff)
	}
	if _, ok := Default("h").Fleet.Class("nope"); ok {
		t.Error("found a class that does not exist")
	}
}

func TestDerivedPaths(t *testing.T) {
	l := Default("h").Local
	db, embedded := l.SQLitePath()
	if _, pg := l.PostgresURL(); pg || !embedded || db != "/var/lib/plimsoll/plimsoll.db" {
		t.Errorf("store at %q", db)
	}
	if l.AgentSocket() != "/var/lib/plimsoll/agent.sock" || l.AgentCgroup() != "plimsoll/h" {
		t.Errorf("%s %s", l.AgentSocket(), l.AgentCgroup())
	}
	l = parse(t, "store: postgres://u@h/db\nhost: {}\n").Local
	if url, pg := l.PostgresURL(); !pg || url != "postgres://u@h/db" {
		t.Errorf("store at %q", url)
	}
	if !namePattern.MatchString(l.HostID()) {
		t.Errorf("the machine's name became %q", l.HostID())
	}
}

// TestReclaim: a lost bet is paid where the host enforces and promises more than it has, unless
// it is said otherwise.
func TestReclaim(t *testing.T) {
	for said, want := range map[string]host.Reclaim{
		"{}": host.ReclaimOn, "{mode: committed}": host.ReclaimOff, "{enforcement: shadow}": host.ReclaimOff, "{enforcement: observe}": host.ReclaimOff,
		"{reclaim: off}": host.ReclaimOff, "{reclaim: dry-run}": host.ReclaimDryRun, "{mode: committed, reclaim: on}": host.ReclaimOn,
		"{enforcement: shadow, reclaim: dry-run}": host.ReclaimDryRun,
	} {
		l := parse(t, "host: "+said+"\n").Local
		if got := l.HostConfig(1, nil).Reclaim; got != want {
			t.Errorf("host: %s: %s, want %s", said, got, want)
		}
	}
	for said, why := range map[string]string{
		"{reclaim: maybe}":                           `host.reclaim: "maybe" is not known here; write off, dry-run or on`,
		"{reclaim: on, enforcement: shadow}":         "is on for a host in shadow, which ends nothing; write dry-run to be told who would go",
		"{reclaim: dry-run, enforcement: observe}":   "is dry-run on a host that only observes, and ends nothing",
		"{hooks: {stop: {exec: [stop]}}}":            `"stop" is no program by its absolute path`,
		"{hooks: {stop: {webhook: 'ftp://h/x'}}}":    `"ftp://h/x" is no address that can be told`,
		"{hooks: {hibernate: {within: 2m}}}":         "host.hooks.hibernate.within: 2m is out of bounds; write a duration from 10ms to 1m",
		"{hooks: {hibernate: {}}}":                   "p.yaml:1: host.hooks.hibernate: would do nothing; write exec: [/usr/local/bin/hibernate], webhook: http://127.0.0.1:9000/hibernate or both, or leave it out",
		"{hooks: {stop: {within: 5s}}}":              "host.hooks.stop: would do nothing; write exec: [/usr/local/bin/stop]",
		"{hooks: {intake_shut: {exec: []}}}":         "host.hooks.intake_shut: would do nothing",
		"{hooks: {wake: {exec: [/bin/true]}}}":       "host.hooks.wake: is not a setting",
		"{hooks: {hibernate: {exec: [\"/a\\0b\"]}}}": "is no program by its absolute path",
	} {
		if _, err := Parse("p.yaml", []byte("host: "+said+"\n")); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("host: %s: %v, want %q", said, err, why)
		}
	}
	l := parse(t, "host: {}\n").Local
	err := Overlay(&l, func(name string) string {
		return map[string]string{"PLIMSOLL_HOST_RECLAIM": "dry-run", "PLIMSOLL_HOST_HOOKS_STOP_EXEC": "/bin/stop,-x"}[name]
	})
	if err != nil || *l.Host.Reclaim != host.ReclaimDryRun || len(l.Host.Hooks.Stop.Exec) != 2 || l.Host.Hooks.Stop.Within != 2*time.Second {
		t.Errorf("%v: %+v", err, l.Host)
	}
}

func TestOverlay(t *testing.T) {
	env := map[string]string{
		"PLIMSOLL_DATA_DIR": "/data", "PLIMSOLL_HOST_ID": "7", "PLIMSOLL_HOST_BUDGET": "4GiB",
		"PLIMSOLL_HOST_LABELS": "zone=b,rack=3", "PLIMSOLL_HOST_DIMENSIONS": "gpus=2",
		"PLIMSOLL_HOST_PSI_SOME_SHUT": "20.5", "PLIMSOLL_HOST_MODE": "committed",
		"PLIMSOLL_HOST_STREAM_RESTORE": "true", "PLIMSOLL_HOST_DWELL": "20s",
	}
	l := parse(t, "listen: 127.0.0.1:1\n").Local
	if err := Overlay(&l, func(name string) string { return env[name] }); err != nil {
		t.Fatal(err)
	}
	var want Local
	want.defaults()
	want.DataDir, want.Listen, want.Host = "/data", "127.0.0.1:1", new(Host)
	want.Host.defaults()
	want.Host.ID, want.Host.Budget, want.Host.Mode, want.Host.StreamRestore = "7", 4*gate.GiB, gate.Committed, true
	want.Host.Labels, want.Host.Dimensions = map[string]string{"zone": "b", "rack": "3"}, map[string]int64{"gpus": 2}
	want.Host.PSI.SomeShut, want.Host.Dwell = 2050, 20*time.Second
	if diff := cmp.Diff(want, l); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestOverlayFaults(t *testing.T) {
	for name, c := range map[string]struct{ value, message string }{
		"PLIMSOLL_HOST_BUDGET":         {"4096", `"4096" has no unit; write KiB, MiB, GiB or TiB behind it, as in 512MiB`},
		"PLIMSOLL_HOST_MAX_STARTS":     {"many", `"many" is no whole number; write digits, as in 30`},
		"PLIMSOLL_HOST_LABELS":         {"zone", `"zone" is no name=value; write them joined by commas, as in zone=a,rack=3`},
		"PLIMSOLL_HOST_HEADROOM":       {"0MiB", `is zero, so the kernel would run out of memory first; write a size, or leave it out for the larger of 5 % and 256MiB`},
		"PLIMSOLL_HOST_PSI_SOME_OPEN":  {"10", `the valve opens below 10 % and shuts at 10 %; some_open must be less than some_shut, or it would flap`},
		"PLIMSOLL_HOST_BOOT_WITHIN":    {"1s", `1s is out of bounds; write a duration from 5s to 10m`},
		"PLIMSOLL_LISTEN":              {"7070", `"7070" is no address; write host:port, as in 127.0.0.1:7070`},
		"PLIMSOLL_HOST_STREAM_RESTORE": {"1", `"1" is neither true nor false; write one of the two`},
		"PLIMSOLL_DATA_DIR":            {"/" + strings.Repeat("a", 100), `the agent's socket has a path of 112 bytes and the kernel takes 107; set host.socket to a shorter one`},
	} {
		l := Default("h").Local
		err := Overlay(&l, func(n string) string {
			if n == name {
				return c.value
			}
			return ""
		})
		want := Faults{{File: "environment", Path: name, Message: c.message}}
		if diff := cmp.Diff(want, err); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if diff := cmp.Diff(Default("h").Local, l); diff != "" {
			t.Errorf("%s: the settings changed\n%s", name, diff)
		}
	}
}

// TestVariables: every local setting has one, and taking it reaches that setting.
func TestVariables(t *testing.T) {
	vars := Variables()
	if len(vars) < 20 || vars[0] != (Variable{"PLIMSOLL_DATA_DIR", "data_dir"}) {
		t.Errorf("%v", vars)
	}
	for _, v := range vars {
		asked := ""
		var l Local
		l.defaults()
		err := Overlay(&l, func(name string) string {
			if name == v.Name {
				asked = name
				return "\x00"
			}
			return ""
		})
		if asked == "" || err == nil || !strings.Contains(err.Error(), v.Name) {
			t.Errorf("%s: nonsense was taken: %v", v.Name, err)
		}
	}
}

// TestWarnings: T77, a cap larger than what memory can hold is named with the real number.
func TestWarnings(t *testing.T) {
	f := parse(t, `
listen: 0.0.0.0:7070
plaintext: true
host: {budget: 2GiB, headroom: 256MiB, dimensions: {sandboxes: 3}}
fleet:
  default_quota: none
  pools: [{name: a, cap: 8}, {name: b, cap: 2}, {name: idle, cap: 1}]
  classes:
    - {name: one, pool: a, memory: 512MiB}
    - {name: big, pool: a, memory: 512MiB, max_memory: 4GiB, stateful: true}
    - {name: giant, pool: b, memory: 4GiB, stateful: true}
    - {name: gpu, pool: b, memory: 128MiB, dimensions: {gpus: 1}}
`)
	got := Warnings(*f, []gate.Limit{{Name: "machine", Size: 8 * gate.GiB, Used: 7 * gate.GiB}})
	want := []string{
		"listen: 0.0.0.0:7070 is reachable from other machines and speaks plain HTTP, so tokens travel in clear; put TLS in front of it",
		"pool idle: no class uses it, so its cap of 1 is set aside for nothing",
		"class big: at its max_memory it needs 4GiB and this host, empty, promises 1792MiB (limit: budget); the largest requests never fit here",
		"class giant: needs 4GiB at least and this host, empty, promises 1792MiB (limit: budget), so it never fits here",
		"class gpu: takes 1 of gpus and this host has 0, so it never fits here",
		"pool a: the cap is 8 and this host, empty, has room for 3 (class big, 512MiB each of 1792MiB, limit: budget); until smaller reserves are learned, the cap needs 3 such hosts",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNothingToWarnOf(t *testing.T) {
	for _, limits := range [][]gate.Limit{nil, {{Name: "machine", Size: 64 * gate.GiB}}} {
		if got := Warnings(*Default("h"), limits); got != nil {
			t.Errorf("%q", got)
		}
	}
	if got := Warnings(*parse(t, "listen: localhost:1\n"), nil); got != nil {
		t.Errorf("%q", got)
	}
}

// The cohort rule has defaults, can be switched off, and is not written into a document that
// does not say it.
func TestCohortRule(t *testing.T) {
	const document = "pools: [{name: a, cap: none}]\nclasses: [{name: s, pool: a, memory: 1GiB}]\ndefault_quota: none\n"
	for said, want := range map[string][2]int64{
		"":                        {8, 60},
		"cohort_per_host: none\n": {0, 60},
		"cohort_per_host: 3\ncohort_window: 5s\n": {3, 5},
	} {
		f, err := ParseFleet("test", []byte(document+said))
		if err != nil {
			t.Fatal(err)
		}
		perHost, window := f.CohortRule()
		if perHost != int(want[0]) || window != time.Duration(want[1])*time.Second {
			t.Errorf("%q: %d within %v", said, perHost, window)
		}
		again, err := ParseFleet("again", []byte(f.Document()))
		if n, w := again.CohortRule(); err != nil || n != perHost || w != window || strings.Contains(f.Document(), "cohort") != (said != "") {
			t.Errorf("%q comes back as %d within %v, %v:\n%s", said, n, w, err, f.Document())
		}
	}
}
