package config

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const hashA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// fleet is a whole file around a few lines; they begin on line 1.
func fleet(lines string) string {
	return lines + `
fleet:
  default_quota: none
  pools: [{name: default, cap: 5}]
  classes: [{name: small, pool: default, memory: 512MiB}]
`
}

func TestBadFiles(t *testing.T) {
	files := badFiles()
	maps.Copy(files, badPools())
	for name, c := range files {
		t.Run(name, func(t *testing.T) {
			f, err := Parse("p.yaml", []byte(c.file))
			if f != nil || err == nil {
				t.Fatalf("taken: %+v", f)
			}
			if diff := cmp.Diff(strings.TrimSpace(c.want), err.Error()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			var faults Faults
			if !errors.As(err, &faults) || faults[0].File != "p.yaml" || faults[0].Line < 1 {
				t.Errorf("not Faults with file and line: %#v", err)
			}
		})
	}
}

type badFile struct{ file, want string }

func badFiles() map[string]badFile {
	return map[string]badFile{
		// Trap 9 and F06: a typo in caps is an error, never the default.
		"a letter in a cap": {
			"fleet:\n  default_quota: none\n  classes: []\n  pools:\n    - name: a\n      cap: 3O\n",
			`p.yaml:6: fleet.pools[0].cap: "3O" is no whole number; write digits, as in 30, or the word none`,
		},
		"a typo in the name of cap": {
			"fleet:\n  default_quota: none\n  classes: []\n  pools:\n    - name: a\n      cpa: 30\n",
			"p.yaml:5: fleet.pools[0].cap: is missing; state the cap: a whole number or the word none\n" +
				"p.yaml:6: fleet.pools[0].cpa: is not a setting; did you mean cap?",
		},
		"a negative cap": {
			"fleet: {default_quota: none, classes: [], pools: [{name: a, cap: -1}]}",
			`p.yaml:1: fleet.pools[0].cap: "-1" is below zero; write a whole number, or the word none`,
		},
		"a quoted cap": {
			"fleet: {default_quota: none, classes: [], pools: [{name: a, cap: '3'}]}",
			`p.yaml:1: fleet.pools[0].cap: is in quotes; write 3 without them, or the word none`,
		},
		"an octal, a float, a word, nothing": {
			"fleet:\n  default_quota: 010\n  classes: []\n  pools:\n  - {name: a, cap: 1.5}\n  - {name: b, cap: unlimited}\n  - {name: c, cap: }\n  - {name: d, cap: 1_000}\n",
			`p.yaml:2: fleet.default_quota: "010" is no whole number; write digits, as in 30, or the word none
p.yaml:5: fleet.pools[0].cap: "1.5" is no whole number; write digits, as in 30, or the word none
p.yaml:6: fleet.pools[1].cap: "unlimited" is no whole number; write digits, as in 30, or the word none
p.yaml:7: fleet.pools[2].cap: has no value; give it one or remove the key
p.yaml:8: fleet.pools[3].cap: "1_000" is no whole number; write digits, as in 30, or the word none`,
		},
		"caps over the ceiling": {
			"fleet:\n  default_quota: none\n  ceiling: 100\n  classes: []\n  pools:\n  - {name: a, cap: 60}\n  - {name: b, cap: 50}\n",
			`p.yaml:3: fleet.ceiling: the caps sum to 110 and the ceiling is 100; lower caps by 10 or raise the ceiling`,
		},
		"a class without a cap under a ceiling": {
			"fleet:\n  default_quota: none\n  ceiling: 100\n  pools:\n  - {name: a, cap: none}\n  classes:\n  - name: s\n    pool: a\n    memory: 1GiB\n",
			`p.yaml:8: fleet.classes[0].pool: pool "a" has no cap, and with a ceiling of 100 every class must be in a pool with one; give the pool a cap`,
		},
		"the cohort rule": {
			"fleet:\n  default_quota: none\n  cohort_per_host: 0\n  cohort_window: 2h\n  pools: [{name: a, cap: none}]\n  classes: []\n",
			`p.yaml:3: fleet.cohort_per_host: 0 is out of bounds; write a whole number from 1 to 10000, or none for no rule
p.yaml:4: fleet.cohort_window: 2h is out of bounds; write a duration from 1s to 1h`,
		},
		"no quota stated": {
			"fleet:\n  pools: [{name: a, cap: none}]\n  classes: []\n",
			`p.yaml:2: fleet.default_quota: is missing; state how many sandboxes a tenant without a quota of its own may hold: a whole number or the word none`,
		},
		"an empty file":     {"", `p.yaml:1: says nothing at all; write at least one setting, as in data_dir: /var/lib/plimsoll`},
		"only comments":     {"# nothing\n", `p.yaml:1: says nothing at all; write at least one setting, as in data_dir: /var/lib/plimsoll`},
		"only null":         {"~", `p.yaml:1: has no value; give it one or remove the key`},
		"a list":            {"- a\n", `p.yaml:1: is a list; write settings as name: value`},
		"two documents":     {"data_dir: /a\n---\nlisten: b\n", `p.yaml:2: a second document begins here; keep one and remove the line ---`},
		"broken YAML":       {"data_dir: /a\nhost: {id: [\n", "p.yaml:2: is not YAML: did not find expected node content; look at the indentation and the quotes around this line"},
		"an unknown key":    {"data_dri: /a\n", `p.yaml:1: data_dri: is not a setting; did you mean data_dir?`},
		"a far unknown key": {"x: 1\n", `p.yaml:1: x: is not a setting; known here are advertise, agent, agents, data_dir, fleet, host, keys, listen, metrics, plaintext, replica_id, stand_in, store, tls`},
		"a key twice": {
			"host:\n  id: a\n  mode: committed\n  id: b\n",
			`p.yaml:4: host.id: stands twice, first on line 2; remove one`,
		},
		"a section twice":      {"host: {}\nhost: {}\n", `p.yaml:2: host: stands twice, first on line 1; remove one`},
		"a label twice":        {"host: {labels: {a: x, a: y}}\n", `p.yaml:1: host.labels.a: stands twice, first on line 1; remove one`},
		"a section of nothing": {"host:\n", `p.yaml:1: host: has no value; give it one or remove the key`},
		"anchors": {
			"data_dir: &a /a\nstore: *a\n",
			"p.yaml:1: data_dir: uses an anchor or an alias; write the value out\np.yaml:2: store: uses an anchor or an alias; write the value out",
		},
		"a merge":            {"host:\n  <<: {id: a}\n", `p.yaml:2: host: merges another section; write the settings out`},
		"a tag":              {"data_dir: !!str /a\n", `p.yaml:1: data_dir: carries the tag !!str; write the value without it`},
		"a key of two lines": {"\"a\\nb\": 1\n", `p.yaml:1: "a\nb": is not a setting; known here are advertise, agent, agents, data_dir, fleet, host, keys, listen, metrics, plaintext, replica_id, stand_in, store, tls`},
		"a complex k":        {"? [a]\n: b\n", `p.yaml:1: has a key that is no plain word; write the name of a setting`},
		"sizes": {
			"host:\n  budget: 4096\n  headroom: 1GB\n",
			`p.yaml:2: host.budget: "4096" has no unit; write KiB, MiB, GiB or TiB behind it, as in 512MiB
p.yaml:3: host.headroom: "1GB" has the unit GB, which is not known; write KiB, MiB, GiB or TiB, as in 512MiB`,
		},
		"odd sizes": {
			"host:\n  budget: 4 GiB\n  headroom: 0.0001KiB\n",
			`p.yaml:2: host.budget: "4 GiB" is no size; write a number and its unit without a space, as in 512MiB
p.yaml:3: host.headroom: "0.0001KiB" is no whole number of bytes; write it in a smaller unit`,
		},
		"a giant":         {"host: {budget: 999999999999999999TiB}", `p.yaml:1: host.budget: "999999999999999999TiB" is more than any machine has; write at most 1048576TiB`},
		"a negative size": {"host: {budget: -1GiB}", `p.yaml:1: host.budget: "-1GiB" is below zero; write a size above it`},
		"zeros": {
			"host:\n  budget: 0MiB\n  headroom: 0KiB\n  max_starts: 0\n",
			`p.yaml:2: host.budget: is zero, so nothing would ever fit; write a size, or leave it out for what the machine has
p.yaml:3: host.headroom: is zero, so the kernel would run out of memory first; write a size, or leave it out for the larger of 5 % and 256MiB
p.yaml:4: host.max_starts: is 0, so nothing would ever start; write at least 1, or leave it out for twice the cores`,
		},
		"durations": {
			"host:\n  boot_within: 60\n  dwell: soon\n  stop_grace: -1s\n",
			`p.yaml:2: host.boot_within: "60" has no unit; write ms, s, m or h behind it, as in 15s
p.yaml:3: host.dwell: "soon" is no duration; write a number and its unit, as in 15s
p.yaml:4: host.stop_grace: "-1s" is below zero; write a duration above it`,
		},
		"kinds of the host": {
			"host:\n  id: true\n  budget: [1]\n  dwell: {}\n  mode: []\n  psi: 5\n  max_waiting_starts: -1\n  dimensions: {'a b': 1, c: -1}\n  labels: {'': x}\n  socket: 2026-01-01\n",
			`p.yaml:2: host.id: is a truth value; put it in quotes, as in "true"
p.yaml:3: host.budget: a list is no size; write a number and its unit, as in 512MiB
p.yaml:4: host.dwell: a mapping is no duration; write a number and its unit, as in 15s
p.yaml:5: host.mode: a list is not known here; write working-set or committed
p.yaml:6: host.psi: is a number; write settings as name: value
p.yaml:7: host.max_waiting_starts: is below zero; write 0 or more
p.yaml:8: host.dimensions.a b: the name is not allowed; write 1 to 64 of A-Z a-z 0-9 . _ / -
p.yaml:8: host.dimensions.c: -1 is below zero; write 0 or more
p.yaml:9: host.labels.: the name is not allowed; write 1 to 64 of A-Z a-z 0-9 . _ / -
p.yaml:10: host.socket: is a date; put it in quotes, as in "2026-01-01"`,
		},
		"marks": {
			"host:\n  psi:\n    some_shut: 101\n    some_open: 0\n    full_lost: 5.125\n",
			`p.yaml:3: host.psi.some_shut: 101 is no mark; write a percentage above 0 and up to 100
p.yaml:4: host.psi.some_open: 0 is no mark; write a percentage above 0 and up to 100
p.yaml:5: host.psi.full_lost: "5.125" has too many decimal places; write at most 2`,
		},
		"numbers of a class": {
			"fleet:\n  default_quota: 99999999999\n  pools: {}\n  classes:\n  - name: s\n    pool: a\n    memory: lots\n    cpu: -1\n    min_cpu: half\n    max_cpu: 1000001\n    priority: 1000001\n    reserve_fraction: []\n",
			`p.yaml:2: fleet.default_quota: "99999999999" is beyond any use; write at most 1000000000, or the word none
p.yaml:3: fleet.pools: is a mapping; write a list, as in [a, b]
p.yaml:7: fleet.classes[0].memory: "lots" is no size; write a number and its unit without a space, as in 512MiB
p.yaml:8: fleet.classes[0].cpu: "-1" is below zero; write a number above it
p.yaml:9: fleet.classes[0].min_cpu: "half" is no number; write it as in 0.5
p.yaml:10: fleet.classes[0].max_cpu: "1000001" is beyond any use; write at most 1000000
p.yaml:11: fleet.classes[0].priority: 1000001 is out of bounds; write a whole number from -1000000 to 1000000
p.yaml:12: fleet.classes[0].reserve_fraction: a list is no number; write it as in 0.5`,
		},
		"a broken second document": {"data_dir: /a\n---\n{\n", "p.yaml:3: is not YAML: did not find expected node content; look at the indentation and the quotes around this line"},
		"boot_within": {
			"host: {boot_within: 4s}",
			`p.yaml:1: host.boot_within: 4s is out of bounds; write a duration from 5s to 10m`,
		},
		"relations of the host": {
			"host:\n  budget: 1GiB\n  headroom: 1GiB\n  psi: {some_shut: 5, some_open: 5}\n  dwell: 10m\n  sample_limits: 2s\n",
			`p.yaml:3: host.headroom: the headroom 1GiB leaves nothing of the budget 1GiB; lower the headroom or raise the budget
p.yaml:4: host.psi.some_open: the valve opens below 5 % and shuts at 5 %; some_open must be less than some_shut, or it would flap
p.yaml:5: host.dwell: dwell 10m is longer than max_dwell 5m; lower the one or raise the other
p.yaml:6: host.sample_limits: limits are sampled every 2s, sandboxes every 1s; sample the limits at least as often
p.yaml:6: host.sample_limits: memory can grow by 2GiB between two samples 2s apart, and half the headroom is 512MiB, so the kernel could run out of it unseen; sample the limits more often, or raise the headroom`,
		},
		// T105: the headroom must outlast what grows unseen.
		"a headroom that is eaten between two samples": {
			"host: {sample_limits: 250ms}",
			`p.yaml:1: host.sample_limits: memory can grow by 256MiB between two samples 250ms apart, and half the headroom is 128MiB, so the kernel could run out of it unseen; sample the limits more often, or raise the headroom`,
		},
		"open raised over shut's default": {
			"host:\n  psi:\n    some_open: 12.5\n",
			`p.yaml:3: host.psi.some_open: the valve opens below 12.5 % and shuts at 10 %; some_open must be less than some_shut, or it would flap`,
		},
		"out_of_gate": {
			"host: {out_of_gate: kill}",
			`p.yaml:1: host.out_of_gate: "kill" is not known here; write alarm or stop`,
		},
		"out_of_gate stops nothing": {
			"host: {out_of_gate: stop, observe: {stateful_match: db}}",
			`p.yaml:1: host.out_of_gate: stop stops what host.observe finds and nobody tracked, and that finds nothing; state host.observe.cgroup_parent or host.observe.match, or write alarm`,
		},
		"a budget below the default headroom": {
			"host: {budget: 256MiB}",
			`p.yaml:1: host.budget: the headroom 256MiB leaves nothing of the budget 256MiB; lower the headroom or raise the budget`,
		},
		"types": {
			"data_dir: [/a]\nlisten: 7070\nhost:\n  id: 7\n  stream_restore: yes\n  labels: {zone: 1}\n  dimensions: {gpus: two}\n  mode: fast\n  max_starts: {}\n",
			`p.yaml:1: data_dir: is a list; write a text
p.yaml:2: listen: is a number; put it in quotes, as in "7070"
p.yaml:4: host.id: is a number; put it in quotes, as in "7"
p.yaml:5: host.stream_restore: "yes" is neither true nor false; write one of the two
p.yaml:6: host.labels.zone: is a number; put it in quotes, as in "1"
p.yaml:7: host.dimensions.gpus: "two" is no whole number; write digits, as in 30
p.yaml:8: host.mode: "fast" is not known here; write working-set or committed
p.yaml:9: host.max_starts: a mapping is no whole number; write digits, as in 30`,
		},
		"local texts": {
			"data_dir: a\nlisten: 127.0.0.1\nstore: mysql://root:secret@db\nhost:\n  id: a b\n  socket: agent.sock\n  cgroup_parent: ../up\n  labels: {zone: 'a,b'}\n",
			`p.yaml:1: data_dir: "a" is no absolute path; write it from the root, as in /var/lib/plimsoll
p.yaml:2: listen: "127.0.0.1" is no address; write host:port, as in 127.0.0.1:7070
p.yaml:3: store: is no store; write sqlite, sqlite:/absolute/path or postgres://user@host/database
p.yaml:5: host.id: "a b" is no name; write 1 to 128 of A-Z a-z 0-9 . _ : -
p.yaml:6: host.socket: "agent.sock" is no absolute path; write it from the root, as in /run/plimsoll/agent.sock
p.yaml:7: host.cgroup_parent: "../up" is no cgroup of its own; write one below the root, as in plimsoll/host-1
p.yaml:8: host.labels.zone: the value is not allowed; write up to 256 of A-Z a-z 0-9 . _ : / @ + = -`,
		},
		"ports":             {"listen: a:70000", `p.yaml:1: listen: "a:70000" has no port between 0 and 65535; write host:port, as in 127.0.0.1:7070`},
		"a relative sqlite": {"store: sqlite:plimsoll.db", `p.yaml:1: store: is no store; write sqlite, sqlite:/absolute/path or postgres://user@host/database`},
		"reserve": {
			`fleet:
  default_quota: none
  pools: [{name: a, cap: 5}]
  classes:
    - {name: s, pool: a, memory: 1GiB, reserve: fixed}
    - {name: t, pool: a, memory: 1GiB, reserve: learned}
    - name: u
      pool: a
      memory: 1GiB
      reserve: sometimes
`,
			`p.yaml:10: fleet.classes[2].reserve: "sometimes" is not known here; write learned or fixed`,
		},
		"classes": {
			`fleet:
  default_quota: none
  pools: [{name: a, cap: 5}]
  classes:
    - name: s
      pool: b
      memory: 512MiB
      min_memory: 1GiB
      cpu: 2
      max_cpu: 1
      reserve_fraction: 25
      reserve_until: never
    - name: s
      pool: a
      memory: 1.5KiB
      template: a/b
    - {name: z, pool: a, memory: 0MiB}
    - {pool: a}
`,
			`p.yaml:6: fleet.classes[0].pool: there is no pool "b"; name one of fleet.pools or add it there
p.yaml:7: fleet.classes[0].memory: 512MiB is not within min_memory 1GiB and max_memory 512MiB; widen the bounds or move it between them
p.yaml:9: fleet.classes[0].cpu: 2 is not within min_cpu 2 and max_cpu 1; widen the bounds or move it between them
p.yaml:11: fleet.classes[0].reserve_fraction: 25 is no fraction; write a number above 0 and up to 1, as in 0.25
p.yaml:12: fleet.classes[0].reserve_until: "never" is not known here; write end or settled
p.yaml:13: fleet.classes[1].name: the class "s" stands twice, first on line 5; remove or rename one
p.yaml:15: fleet.classes[1].memory: 1.5KiB is no whole number of MiB, in which requests ask; round it
p.yaml:16: fleet.classes[1].template: "a/b" is no template; write 1 to 64 of A-Z a-z 0-9 . _ -
p.yaml:17: fleet.classes[2].memory: is zero, so any number would fit; write a size, or say in dimensions what the class takes instead
p.yaml:18: fleet.classes[3].memory: is missing; state what a request gets by default, as in 512MiB
p.yaml:18: fleet.classes[3].name: is missing; give the class a name`,
		},
		"pools and quotas": {
			"fleet:\n  default_quota: 3\n  classes: []\n  pools: [{name: a, cap: 1, placement: none, max_waiting: -1}, {name: a, cap: 1}]\n  quotas: [{tenant: t, limit: 1}, {tenant: t, limit: none}, {tenant: 'a b'}]\n",
			`p.yaml:4: fleet.pools[0].max_waiting: is below zero; write 0 or more
p.yaml:4: fleet.pools[1].name: the pool "a" stands twice, first on line 4; remove or rename one
p.yaml:5: fleet.quotas[1].tenant: the tenant "t" stands twice, first on line 5; remove or rename one
p.yaml:5: fleet.quotas[2].limit: is missing; state the limit: a whole number or the word none
p.yaml:5: fleet.quotas[2].tenant: "a b" is no name; write 1 to 128 of A-Z a-z 0-9 . _ : -`,
		},
		"consumers": {
			fleet("") + `  consumers:
    - name: ci
      roles: [boss]
      token_sha256: [hunter2]
    - name: a
      token_sha256: [` + hashA + `]
    - name: b
      token_sha256: [` + strings.ToUpper(hashA) + `]
    - name: c
      token_sha256: [e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855]
    - {name: d, token_sha256: []}
`,
			`p.yaml:8: fleet.consumers[0].roles[0]: "boss" is not known here; write consumer, operator, admin or substrate
p.yaml:9: fleet.consumers[0].token_sha256[0]: is no SHA-256 in hex; write 64 hex digits in quotes, as printed by: printf %s "$TOKEN" | sha256sum
p.yaml:13: fleet.consumers[2].token_sha256[0]: is the token of line 11 as well, so it would name two callers; give each a token of its own
p.yaml:15: fleet.consumers[3].token_sha256[0]: is the SHA-256 of nothing: the variable was empty when it was hashed; hash the token itself`,
		},
	}
}

// TestFaultsTogether: local and fleet faults of one file come in one answer, in its order.
func TestFaultsTogether(t *testing.T) {
	_, err := Parse("p.yaml", []byte("listen: x\nhsot: {}\nfleet: {default_quota: no}\n"))
	want := Faults{
		{File: "p.yaml", Line: 1, Path: "listen"},
		{File: "p.yaml", Line: 2, Path: "hsot"},
		{File: "p.yaml", Line: 3, Path: "fleet.classes"},
		{File: "p.yaml", Line: 3, Path: "fleet.default_quota"},
		{File: "p.yaml", Line: 3, Path: "fleet.pools"},
	}
	if diff := cmp.Diff(want, err, cmpopts.IgnoreFields(Fault{}, "Message")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestParseFleetNamesItsOwnLines: in the document alone there is no fleet section above.
func TestParseFleetNamesItsOwnLines(t *testing.T) {
	_, err := ParseFleet("fleet.yaml", []byte("default_quota: none\npools: [{name: a, cap: none}]\nclasses:\n- {name: s, pool: x}\n"))
	want := `fleet.yaml:4: classes[0].pool: there is no pool "x"; name one of fleet.pools or add it there`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestWhatHasNoDefault: T42, a tenant or a pool without a word is not without limit.
func TestWhatHasNoDefault(t *testing.T) {
	for _, path := range []string{"fleet.default_quota", "fleet.pools[0].cap"} {
		_, err := Parse("p.yaml", []byte("fleet: {pools: [{name: a}], classes: []}"))
		var faults Faults
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), path+": is missing") {
			t.Errorf("%s was not demanded: %v", path, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range badFiles() {
		f.Add([]byte(c.file))
	}
	for _, c := range badPools() {
		f.Add([]byte(c.file))
	}
	f.Add([]byte("fleet: {default_quota: none, classes: [], pools: []}")) // a list that must be stated, of nothing
	f.Add([]byte(Example()))
	f.Add([]byte(NoHostsExample()))
	f.Add([]byte(withoutHosts))
	f.Add([]byte(fleet("")))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f.yaml", data)
		if err != nil {
			var faults Faults
			if !errors.As(err, &faults) || len(faults) == 0 || faults[0].Line < 1 || faults[0].Message == "" {
				t.Fatalf("no Faults with a line: %#v", err)
			}
			return
		}
		if file.Fleet == nil {
			return
		}
		again, err := ParseFleet("again.yaml", []byte(file.FleetDocument))
		if err != nil {
			t.Fatalf("the canonical document is refused: %v\n%s", err, file.FleetDocument)
		}
		if diff := cmp.Diff(file.Fleet, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the canonical document says something else: %s\n%s", diff, file.FleetDocument)
		}
	})
}
