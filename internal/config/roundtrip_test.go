package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/plimsoll-project/plimsoll/gate"
)

func parse(t *testing.T, data string) *File {
	t.Helper()
	f, err := Parse("p.yaml", []byte(data))
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return f
}

// TestExampleStatesEveryKey walks the types: a new setting that the example does not show
// fails here.
func TestExampleStatesEveryKey(t *testing.T) {
	parse(t, Example())
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(Example()), &doc); err != nil {
		t.Fatal(err)
	}
	stated := map[string]bool{}
	statedKeys("", doc.Content[0], stated)
	for _, path := range settingsOf("", reflect.TypeFor[root]()) {
		if !stated[path] {
			t.Errorf("the example does not show %s", path)
		}
	}
}

func statedKeys(path string, n *yaml.Node, stated map[string]bool) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			at := join(path, n.Content[i].Value)
			stated[at] = true
			statedKeys(at, n.Content[i+1], stated)
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			statedKeys(path, item, stated)
		}
	}
}

func settingsOf(path string, t reflect.Type) (paths []string) {
	for _, key := range slices.Sorted(maps.Keys(fieldsOf(t))) {
		at, inner := join(path, key), fieldsOf(t)[key].Type
		paths = append(paths, at)
		if inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			paths = append(paths, settingsOf(at, inner)...)
		}
	}
	return paths
}

// TestEveryFieldIsASetting: a field without a key could be set by no file.
func TestEveryFieldIsASetting(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[Local](), reflect.TypeFor[Host](), reflect.TypeFor[PSI](), reflect.TypeFor[Hooks](), reflect.TypeFor[Hook](), reflect.TypeFor[TLS](), reflect.TypeFor[Agents](), reflect.TypeFor[Agent](), reflect.TypeFor[Fleet](),
		reflect.TypeFor[Pool](), reflect.TypeFor[Share](), reflect.TypeFor[Class](), reflect.TypeFor[Quota](), reflect.TypeFor[Consumer](),
	} {
		if typ.NumField() != len(fieldsOf(typ)) {
			t.Errorf("%s has %d fields and %d settings", typ, typ.NumField(), len(fieldsOf(typ)))
		}
	}
}

func TestDocumentRoundTrip(t *testing.T) {
	for name, f := range map[string]*File{"example": parse(t, Example()), "no hosts": parse(t, NoHostsExample()), "default": Default("h"), "short": parse(t, fleet(""))} {
		t.Run(name, func(t *testing.T) {
			again, err := ParseFleet("doc", []byte(f.FleetDocument))
			if err != nil {
				t.Fatalf("refused: %v\n%s", err, f.FleetDocument)
			}
			if diff := cmp.Diff(f.Fleet, again); diff != "" {
				t.Errorf("(-first +again)\n%s", diff)
			}
			if again.Document() != f.FleetDocument {
				t.Error("the second document differs from the first")
			}
		})
	}
}

// TestDocumentIsStable: the order and the form of the file are not in the document.
func TestDocumentIsStable(t *testing.T) {
	a := parse(t, `
fleet:
  quotas: [{tenant: b, limit: 1}, {tenant: a, limit: none}]
  classes: [{name: s, pool: p, memory: 1GiB, labels: {y: "1", x: "2"}}, {name: r, pool: q, memory: 1024MiB}]
  pools: [{name: q, cap: 3}, {name: p, cap: none}]
  default_quota: 7
`)
	b := parse(t, `
fleet:
  default_quota: 7
  pools:
    - {cap: none, name: p}
    - {max_waiting: 30, name: q, cap: 3}
  classes:
    - {name: r, memory: 1GiB, pool: q}
    - {labels: {x: "2", y: "1"}, name: s, memory: 1048576KiB, pool: p}
  quotas: [{tenant: a, limit: none}, {tenant: b, limit: 1}]
`)
	if d := Diff(a.FleetDocument, b.FleetDocument); d != "" {
		t.Errorf("equal settings, other documents:\n%s", d)
	}
}

// TestDefaults pins the configuration table.
func TestDefaults(t *testing.T) {
	f := parse(t, "host: {}\n"+fleet(""))
	want := Local{
		DataDir: "/var/lib/plimsoll", Listen: "127.0.0.1:7070", Store: "sqlite",
		Host: &Host{
			BootWithin: time.Minute, MaxWaitingStarts: 64, StopGrace: 10 * time.Second,
			SampleLimits: 50 * time.Millisecond, SampleSandboxes: time.Second,
			PSI: PSI{1000, 500, 500}, Dwell: 15 * time.Second, MaxDwell: 5 * time.Minute, OutOfGate: AlarmOutOfGate,
			Hooks: Hooks{Hook{Within: 2 * time.Second}, Hook{Within: 2 * time.Second}, Hook{Within: 2 * time.Second}, Hook{Within: 2 * time.Second}},
		},
	}
	if diff := cmp.Diff(want, f.Local); diff != "" {
		t.Errorf("local (-want +got)\n%s", diff)
	}
	class := Class{
		Name: "small", Pool: "default", Memory: 512 * gate.MiB, MinMemory: 512 * gate.MiB, MaxMemory: 512 * gate.MiB,
		CPU: 1000, MinCPU: 1000, MaxCPU: 1000, ReserveFraction: 250, ReserveFloor: 512 * gate.MiB,
		SettleAfter: 10 * time.Second, Template: "small",
	}
	if diff := cmp.Diff(class, f.Fleet.Classes[0]); diff != "" {
		t.Errorf("class (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(Pool{Name: "default", Placement: OnHost, Cap: 5, MaxWaiting: 50}, f.Fleet.Pools[0]); diff != "" {
		t.Errorf("pool (-want +got)\n%s", diff)
	}
}

// TestNamesThatYAMLTakesForSomethingElse survive the document as texts.
func TestNamesThatYAMLTakesForSomethingElse(t *testing.T) {
	for _, name := range []string{"1", "0x10", "1e3", "-1", "none", "null", "yes", "true", "on", "2024-01-01", "1:30", "-", ".", ":", ".inf", "a:", "_1"} {
		var f Fleet
		f.defaults()
		f.Pools = []Pool{{Name: name, Placement: OnHost, Cap: 1, SlotTTL: unset, TicketTTL: unset}}
		f.Classes = []Class{defaultClass("c", gate.GiB, false)}
		f.Classes[0].Pool, f.Classes[0].Labels = name, map[string]string{"a": name, "b": "", "c": "=", "1": "@x"}
		f.derive()
		again, err := ParseFleet("doc", []byte(f.Document()))
		if err != nil {
			t.Errorf("%q is refused: %v\n%s", name, err, f.Document())
			continue
		}
		if diff := cmp.Diff(&f, again); diff != "" {
			t.Errorf("%q (-want +got)\n%s", name, diff)
		}
	}
}

func TestNoSections(t *testing.T) {
	f := parse(t, "data_dir: /srv/plimsoll\n")
	if f.Local.Host != nil || f.Fleet != nil || f.FleetDocument != "" {
		t.Errorf("sections that nobody wrote: %+v", f)
	}
}

func TestUnitsRoundTrip(t *testing.T) {
	for _, s := range []string{"1TiB", "1536MiB", "1KiB", "0KiB", "0.5KiB", "0.0009765625KiB"} {
		b, text := parseBytes(s)
		if text != "" || formatBytes(b) != s {
			t.Errorf("%s became %s %s", s, formatBytes(b), text)
		}
	}
	if b, _ := parseBytes("1.5GiB"); b != 1536*gate.MiB {
		t.Errorf("1.5GiB is %s", b)
	}
	for _, s := range []string{"0s", "50ms", "15s", "1m", "1m30s", "5m", "1h", "1h0m5s", "1h30m", "10h"} {
		d, text := parseDuration(s)
		if text != "" || formatDuration(d) != s {
			t.Errorf("%s became %s %s", s, formatDuration(d), text)
		}
	}
	for _, s := range []string{"0", "0.5", "0.001", "12", "100"} {
		n, text := parseDecimal(s, 3)
		if text != "" || formatDecimal(n, 3) != s {
			t.Errorf("%s became %s %s", s, formatDecimal(n, 3), text)
		}
	}
	if _, text := parseDecimal("0.0001", 3); !strings.Contains(text, "at most 3") {
		t.Errorf("0.0001: %s", text)
	}
}

func TestDiff(t *testing.T) {
	lines := strings.Split("abcdefghijklmnop", "")
	a := strings.Join(lines, "\n") + "\n"
	b := strings.Replace(strings.Replace(a, "c\n", "", 1), "o\n", "O\nP\n", 1)
	want := `  a
  b
- c
  d
  e
  f
  …
  l
  m
  n
- o
+ O
+ P
  p
`
	if diff := cmp.Diff(want, Diff(a, b)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if Diff(a, a) != "" || Diff("", "") != "" || Diff("", "a\n") != "+ a\n" || Diff("a\n", "") != "- a\n" {
		t.Error("the ends are wrong")
	}
}

func FuzzDiff(f *testing.F) {
	f.Add("a\nb\n", "b\nc\n")
	f.Add("a\nb\nc\n", "x\nc\nb\na\n")
	f.Fuzz(func(t *testing.T, a, b string) {
		var before, after []string
		for _, e := range compare(linesOf(a), linesOf(b)) {
			if e.sign != '+' {
				before = append(before, e.line)
			}
			if e.sign != '-' {
				after = append(after, e.line)
			}
		}
		if !slices.Equal(before, linesOf(a)) || !slices.Equal(after, linesOf(b)) {
			t.Fatalf("%q and %q became %q and %q", a, b, before, after)
		}
	})
}
