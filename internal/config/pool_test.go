package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/pool"
)

func badPools() map[string]badFile {
	return map[string]badFile{
		"words of the other placement": {
			`fleet:
  default_quota: none
  pools:
  - {name: a, cap: 1, audience: x, slot_ttl: 0s, ticket_ttl: 5m}
  - {name: b, cap: 1, placement: none, audience: 'a b', slot_ttl: 1s, ticket_ttl: 25h}
  - {name: c, cap: 1, placement: none, slot_ttl: 1m, ticket_ttl: 2m}
  - {name: d, cap: 1, placement: nowhere, slot_ttl: 2m}
  classes:
  - {name: s, pool: b, hold_on_exit: true, max_memory: 1GiB}
  - {name: t, pool: a, hold_on_exit: true}
`,
			`p.yaml:4: fleet.pools[0].audience: is for pools whose tickets no host of ours redeems; write placement: none, or remove it
p.yaml:4: fleet.pools[0].slot_ttl: is for pools whose tickets no host of ours redeems; write placement: none, or remove it
p.yaml:4: fleet.pools[0].ticket_ttl: is for pools whose tickets no host of ours redeems; write placement: none, or remove it
p.yaml:5: fleet.pools[1].audience: "a b" is no name; write 1 to 128 of A-Z a-z 0-9 . _ : -
p.yaml:5: fleet.pools[1].slot_ttl: 1s is out of bounds; write a duration from 5s to 24h
p.yaml:5: fleet.pools[1].ticket_ttl: 25h is out of bounds; write a duration from 5s to 24h
p.yaml:5: fleet.pools[1].ticket_ttl: a ticket of 25h would outlive its slot of 1s and boot what nobody counts; lower the one or raise the other
p.yaml:6: fleet.pools[2].ticket_ttl: a ticket of 2m would outlive its slot of 1m and boot what nobody counts; lower the one or raise the other
p.yaml:7: fleet.pools[3].placement: "nowhere" is not known here; write host or none
p.yaml:9: fleet.classes[0].hold_on_exit: pool "b" is without hosts, so nobody here sees the exit; its slot lives by its caller's heartbeat anyway: remove it
p.yaml:10: fleet.classes[1].memory: is missing; state what a request gets by default, as in 512MiB`,
		},
		"a name too long for a ticket": {
			"fleet: {default_quota: none, classes: [], pools: [{name: " + strings.Repeat("a", 101) + ", cap: 1, placement: none}]}",
			`p.yaml:1: fleet.pools[0].name: the audience is 101 bytes long and a ticket has room for 100; give it a shorter name`,
		},
		"shares": {
			`fleet:
  default_quota: none
  classes: []
  consumers: [{name: ci}, {name: chat}]
  pools:
  - name: a
    cap: 5
    shares:
    - {consumer: ci, reserved: 3}
    - {priority: 7, reserved: 3}
  - name: b
    cap: none
    shares:
    - {priority: 1, reserved: 1}
  - name: c
    cap: 9
    shares:
    - {consumer: ci, priority: 1, reserved: 1}
    - {reserved: 1}
    - {consumer: nobody, max: 1}
    - {priority: 2000000, max: 1}
    - {consumer: chat}
    - {priority: 3, max: 0}
    - {priority: 4, reserved: 2, max: 1}
    - {priority: 5, reserved: -1, max: 1}
    - {priority: 4, max: 4}
    - {consumer: '', max: 4}
    - {consumr: ci, max: many}
  - name: d
    cap: 1
    shares: {consumer: ci}
`,
			`p.yaml:8: fleet.pools[0].shares: 6 slots are reserved in all and the cap is 5; reserve 1 fewer or raise the cap
p.yaml:13: fleet.pools[1].shares: of a pool without a cap nothing can be reserved; give the pool a cap, or leave out reserved
p.yaml:18: fleet.pools[2].shares[0]: is of a consumer and of a priority; write two shares, or remove one of the words
p.yaml:19: fleet.pools[2].shares[1]: is nobody's; write consumer: NAME or priority: NUMBER
p.yaml:20: fleet.pools[2].shares[2].consumer: there is no consumer "nobody"; name one of fleet.consumers or add it there
p.yaml:21: fleet.pools[2].shares[3].priority: 2000000 is out of bounds; write a whole number from -1000000 to 1000000
p.yaml:22: fleet.pools[2].shares[4]: reserves nothing and bounds nothing; write reserved, max or both
p.yaml:23: fleet.pools[2].shares[5].max: is 0, so nothing of it would ever be admitted; write at least 1, or leave it out for no bound
p.yaml:24: fleet.pools[2].shares[6].max: 1 is less than the 2 that are reserved, which nobody could use then; raise max or reserve fewer
p.yaml:25: fleet.pools[2].shares[7].reserved: is below zero; write 0 or more
p.yaml:26: fleet.pools[2].shares[8]: the share of "priority 4" stands twice, first on line 24; remove or rename one
p.yaml:27: fleet.pools[2].shares[9].consumer: there is no consumer ""; name one of fleet.consumers or add it there
p.yaml:28: fleet.pools[2].shares[10]: is nobody's; write consumer: NAME or priority: NUMBER
p.yaml:28: fleet.pools[2].shares[10].consumr: is not a setting; did you mean consumer?
p.yaml:28: fleet.pools[2].shares[10].max: "many" is no whole number; write digits, as in 30, or the word none
p.yaml:31: fleet.pools[3].shares: is a mapping; write a list, as in [a, b]`,
		},
		"substrates": {
			`fleet:
  default_quota: none
  classes: []
  pools: [{name: a, cap: 1}, {name: b, cap: 1, placement: none}, {name: c, cap: 1, placement: none, audience: d}]
  consumers:
  - {name: v, roles: [substrate]}
  - {name: w, audiences: [b]}
  - {name: x, roles: [substrate], audiences: [a, c, d]}
  - {name: y, roles: [], audiences: []}
`,
			`p.yaml:6: fleet.consumers[0].roles: a substrate redeems the tickets of its audiences and this one has none; list them in audiences, as in [b, d]
p.yaml:7: fleet.consumers[1].audiences: is for the role substrate; add that to roles, or remove it
p.yaml:8: fleet.consumers[2].audiences[0]: no pool has the audience "a"; there is b or d
p.yaml:8: fleet.consumers[2].audiences[1]: no pool has the audience "c"; there is b or d
p.yaml:9: fleet.consumers[3].roles: is empty; list at least one, or remove the consumer`,
		},
		"a substrate of a fleet with hosts alone": {
			fleet("") + "  consumers: [{name: x, roles: [substrate], audiences: [default]}]\n",
			`p.yaml:6: fleet.consumers[0].audiences[0]: no pool has the audience "default"; there is none: no pool has placement: none`,
		},
		"local words of a replica": {
			"advertise: 10.0.0.1:7070\nreplica_id: a b\nkeys: keys.json\n",
			`p.yaml:1: advertise: "10.0.0.1:7070" is no address of an API; write it as others reach it, as in http://10.0.0.1:7070
p.yaml:2: replica_id: "a b" is no name; write 1 to 128 of A-Z a-z 0-9 . _ : -
p.yaml:3: keys: "keys.json" is no absolute path; write it from the root, as in /etc/plimsoll/keys.json`,
		},
	}
}

// withoutHosts is a fleet with every word that pools without hosts, and shares, have.
const withoutHosts = `
fleet:
  ceiling: 30
  default_quota: none
  pools:
    - {name: builds, placement: none, cap: 10, audience: cloud, slot_ttl: 5m,
       shares: [{priority: 0, max: 8}, {consumer: ci, reserved: 2}, {consumer: chat, reserved: 4, max: 6}, {priority: 9, reserved: 1}]}
    - {name: chats, placement: none, cap: 20}
  classes:
    - {name: build, pool: builds}
    - {name: urgent, pool: builds, priority: 9, memory: 1GiB}
    - {name: chat, pool: chats, max_memory: 2GiB}
  consumers:
    - {name: chat}
    - {name: ci}
    - {name: provider, roles: [substrate, consumer], audiences: [cloud, chats]}
`

func TestPoolsWithoutHosts(t *testing.T) {
	f := parse(t, withoutHosts).Fleet
	want := map[string]pool.Limits{
		"builds": {
			Cap: 10, MaxWaiting: 100, Audience: "cloud", SlotTTL: 5 * time.Minute, TicketTTL: 5 * time.Minute,
			Shares: []pool.Share{
				{Consumer: "chat", Reserved: 4, Max: 6},
				{Consumer: "ci", Reserved: 2},
				{Priority: 9, Reserved: 1},
				{Priority: 0, Max: 8},
			},
		},
		"chats": {Cap: 20, MaxWaiting: 200, Audience: "chats", SlotTTL: 10 * time.Minute, TicketTTL: 10 * time.Minute},
	}
	s := f.Settings()
	if diff := cmp.Diff(want, s.Pools); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if s.Ceiling != 30 || !f.AnyWithoutHosts() {
		t.Errorf("ceiling %d", s.Ceiling)
	}
	again, err := ParseFleet("doc", []byte(f.Document()))
	if err != nil {
		t.Fatalf("%v\n%s", err, f.Document())
	}
	if diff := cmp.Diff(f, again); diff != "" {
		t.Errorf("(-first +again)\n%s", diff)
	}
}

// Without hosts memory is a word on the ticket: nobody has to say it.
func TestMemoryWithoutHosts(t *testing.T) {
	f := parse(t, withoutHosts).Fleet
	one := int64(1024)
	for _, c := range []struct {
		class string
		asked *int64
		mb    int64
		code  api.Code
	}{
		{"build", nil, 0, ""},
		{"build", &one, 0, api.InvalidRequest},
		{"urgent", nil, 1024, ""},
		{"chat", nil, 0, ""},
		{"chat", &one, 1024, ""},
	} {
		class, _ := f.Class(c.class)
		_, got, err := class.Ask(c.asked, nil, "", nil)
		if (c.code == "") != (err == nil) || (err != nil && !errors.Is(err, c.code)) || got.MemoryMB != c.mb {
			t.Errorf("%s: %+v %v", c.class, got, err)
		}
		if err == nil && got.Priority != int64(class.Priority) {
			t.Errorf("%s: priority %d", c.class, got.Priority)
		}
	}
}

// What runs on may be started anew under the same admission, and says so in its row.
func TestHoldOnExit(t *testing.T) {
	f := parse(t, strings.Replace(fleet(""), "memory: 512MiB", "memory: 512MiB, hold_on_exit: true", 1)).Fleet
	ask, contents, err := f.Classes[0].Ask(nil, nil, "", nil)
	if err != nil || !contents.HoldOnExit || !ask.HoldOnExit {
		t.Errorf("%+v, asked of a host %+v, %v", contents, ask, err)
	}
	if !strings.Contains(f.Document(), "hold_on_exit: true") {
		t.Error("not in the document")
	}
}

// A version from before these words reads a document that uses none of them, and a stored
// document of that version is not another one for this.
func TestNewWordsStayOutOfOldDocuments(t *testing.T) {
	doc := parse(t, fleet("")).FleetDocument
	for _, word := range []string{"shares", "audience", "_ttl", "hold_on_exit", "audiences", "record"} {
		if strings.Contains(doc, word) {
			t.Errorf("%s stands in\n%s", word, doc)
		}
	}
}

func TestSubstratesServeTheirAudiences(t *testing.T) {
	f := parse(t, withoutHosts).Fleet
	provider := consumer(f, "provider")
	if !provider.Serves("cloud") || !provider.Serves("chats") || provider.Serves("builds") || provider.Serves("") {
		t.Error("the provider serves others than its audiences")
	}
	if !provider.Has(RoleConsumer) || provider.Has(RoleOperator) || consumer(f, "ci").Serves("cloud") {
		t.Error("roles are mixed up")
	}
	all := Consumer{Roles: []Role{RoleSubstrate}, Audiences: []string{AnyAudience}}
	if !all.Serves("cloud") || all.Has(RoleConsumer) || all.Has(RoleAdmin) {
		t.Error("a substrate for all is not what it should be")
	}
	boss := Consumer{Roles: []Role{RoleAdmin}}
	if !boss.Serves("cloud") || !boss.Has(RoleSubstrate) {
		t.Error("an admin is no substrate")
	}
}

func TestWarningsWithoutHosts(t *testing.T) {
	f := parse(t, `
host: {budget: 2GiB}
fleet:
  default_quota: none
  pools:
    - {name: a, placement: none, cap: 1000, shares: [{priority: 3, reserved: 1}]}
  classes:
    - {name: one, pool: a, memory: 64GiB, labels: {zone: a}, dimensions: {gpus: 2}, reserve_fraction: 0.5}
    - {name: two, pool: a, stateful: true}
  consumers: [{name: ci}]
`)
	want := []string{
		"pool a: no class of it has priority 3, so the share of that priority is nobody's",
		"class one: its pool is without hosts, so nothing comes of labels, dimensions, its reserve settings",
		"consumer ci: has no token, so nobody can be it; plimsoll token create --consumer ci makes one",
	}
	if diff := cmp.Diff(want, Warnings(*f, nil)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A file that says nothing of a consumer's tokens takes none away; one that lists them, or
// lists none, is taken at its word.
func TestKeepTokens(t *testing.T) {
	doc := func(consumers string) *Fleet {
		return parse(t, fleet("")+"  consumers: ["+consumers+"]\n").Fleet
	}
	inForce := doc("{name: a, token_sha256: ['" + hashA + "']}, {name: b, token_sha256: ['" + strings.ReplaceAll(hashA, "a", "b") + "']}")
	f := doc("{name: a}, {name: b, token_sha256: []}, {name: c}")
	f.KeepTokens(inForce)
	if len(f.Consumers[0].Tokens) != 1 || len(f.Consumers[1].Tokens) != 0 || len(f.Consumers[2].Tokens) != 0 {
		t.Errorf("%+v", f.Consumers)
	}
	if f.Consumers[0].Tokens[0] != inForce.Consumers[0].Tokens[0] {
		t.Error("another token")
	}
}

// The shortest file there is for two services on one account: fifteen lines, and nothing to
// warn of but the tokens that are still to be made.
func TestNoHostsExample(t *testing.T) {
	if n := strings.Count(NoHostsExample(), "\n"); n > 15 {
		t.Errorf("%d lines", n)
	}
	f := parse(t, NoHostsExample())
	for _, w := range Warnings(*f, nil) {
		if !strings.Contains(w, "plimsoll token create") {
			t.Error(w)
		}
	}
	if f.Local.Host != nil || !f.Fleet.AnyWithoutHosts() {
		t.Error("it has a host")
	}
}

func TestLocalWordsOfAReplica(t *testing.T) {
	l := parse(t, "advertise: https://plimsoll.example:7070\nreplica_id: r1\nkeys: /etc/k.json\n").Local
	if l.KeysFile() != "/etc/k.json" || l.Address(addr("127.0.0.1:1")) != "https://plimsoll.example:7070" || l.ReplicaID != "r1" {
		t.Errorf("%+v", l)
	}
	l = parse(t, "data_dir: /d\n").Local
	if l.KeysFile() != "/d/keys.json" || l.Address(addr("127.0.0.1:1")) != "http://127.0.0.1:1" {
		t.Errorf("%+v", l)
	}
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }
