package explaintest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
	"github.com/plimsoll-project/plimsoll/host"
	"github.com/plimsoll-project/plimsoll/pool"
)

// scenario brings one no about, and says what may then be done about it.
type scenario struct {
	code   api.Code
	about  string
	fleet  func(string) string // changes the document; "" for none at all
	hosts  func() []*fakeHost  // default: h1 with 4 GiB
	token  string              // default: alice's
	before func(*stage)        // what makes it a no
	body   string              // of the create
	kinds  string              // of the changes that explain must name, in order
	line   string              // a part of what it must say
	near   string              // the nearest miss
	once   bool                // a second create is another one: it would not get this no again
	time   func(*stage)        // what time brings
	agent  func(*stage)        // an agent is started again
	joins  *fakeHost           // what joins, where a host is added; default: 64 GiB
	mend   func(*stage)        // the server is mended
	redone func(string) string // the request as its caller mends it, where no field is named
}

func hosts(all ...*fakeHost) func() []*fakeHost {
	return func() []*fakeHost {
		var out []*fakeHost
		for _, h := range all {
			out = append(out, newHost(h.id, h.budget, h.config))
		}
		return out
	}
}

func one(mib int64, config func(*host.Config)) func() []*fakeHost {
	return hosts(newHost("h1", gate.FromMiB(mib), config))
}

func zone(name string) func(*host.Config) {
	return func(c *host.Config) { c.Labels = []gate.Label{{Name: "zone", Value: name}} }
}

func instead(old, with string) func(string) string {
	return func(document string) string { return strings.Replace(document, old, with, 1) }
}

// fills takes all but some MiB of h1's 3,840.
func fills(leaving int64) func(*stage) {
	return func(s *stage) {
		s.hold("full", "base", fmt.Sprintf(`,"memory_mb":%d,"host":{"id":"h1","mode":"require"}`, 3840-leaving))
	}
}

func takes(class string, keys ...string) func(*stage) {
	return func(s *stage) {
		for _, key := range keys {
			s.hold(key, class)
		}
	}
}

func gives(keys ...string) func(*stage) {
	return func(s *stage) {
		for _, key := range keys {
			s.release(key)
		}
	}
}

func all(steps ...func(*stage)) func(*stage) {
	return func(s *stage) {
		for _, step := range steps {
			step(s)
		}
	}
}

// cordoned waits until the hosts themselves were told.
func cordoned(ids ...string) func(*stage) {
	return func(s *stage) {
		for _, id := range ids {
			s.eventually(id+" to be told", func() bool {
				v, err := s.hosts[id].View(s.t.Context())
				return err == nil && v.Verdict.Intake == host.IntakeCordoned
			})
		}
		s.settled()
	}
}

func does(line string) func(*stage) { return func(s *stage) { s.run(line) } }

func waits(key, class string, more string) func(*stage) {
	return func(s *stage) {
		if got := s.post("alicealice", fmt.Sprintf(`{"key":%q,"class":%q,"mode":"queue"%s}`, key, class, more)); got.status != 202 {
			s.t.Fatalf("%d %s", got.status, got.body)
		}
	}
}

// capacity are the noes for want of room, a slot or quota.
var capacity = []scenario{
	{
		code: api.NoCapacity, about: "no host has the memory", before: fills(812),
		body: `{"key":"k","class":"small","memory_mb":4096}`, kinds: "smaller wait queue add",
		line: "the fleet says not now (no_capacity): needs 1024 MiB", near: "h1 lacks 212 MiB of 1,024", time: gives("full"),
	},
	{
		code: api.NoCapacity, about: "stateful ones are charged whole", before: fills(812),
		body: `{"key":"k","class":"base"}`, kinds: "smaller wait queue add", near: "h1 lacks 212 MiB of 1,024", time: gives("full"),
	},
	{
		code: api.NoCapacity, about: "the only host is cordoned", before: all(does("plimsoll host cordon h1"), cordoned("h1")),
		body: `{"key":"k","class":"small"}`, kinds: "wait queue host add", line: "cordoned: h1", time: does("plimsoll host uncordon h1"),
	},
	{
		code: api.NoCapacity, about: "one is full, and of two that are cordoned one would do",
		hosts:  hosts(newHost("h1", 4*gate.GiB), newHost("h2", gate.GiB), newHost("h3", 8*gate.GiB)),
		before: all(fills(100), does("plimsoll host cordon h2"), does("plimsoll host cordon h3"), cordoned("h2", "h3")),
		body:   `{"key":"k","class":"base"}`, kinds: "wait queue host add", line: "cordoned: h2, h3; no_room: h1", near: "h1 lacks 924 MiB of 1,024", time: gives("full"),
	},
	{
		code: api.NoCapacity, about: "the demanded host is full, another is not", hosts: hosts(newHost("h1", 4*gate.GiB), newHost("h2", 4*gate.GiB)),
		before: fills(100), body: `{"key":"k","class":"base","host":{"id":"h1","mode":"require"}}`,
		kinds: "elsewhere wait queue", line: "host h1 says not now", near: "h1 lacks 924 MiB of 1,024", time: gives("full"),
	},
	{
		code: api.NoCapacity, about: "the demanded label", hosts: hosts(newHost("h1", 4*gate.GiB, zone("a")), newHost("h2", 4*gate.GiB, zone("b"))),
		before: fills(100), body: `{"key":"k","class":"small","labels":{"zone":"a"}}`,
		kinds: "smaller request wait queue add", near: "h1 lacks 28 MiB of 128", time: gives("full"), joins: newHost("h9", 64*gate.GiB, zone("a")),
	},
	{
		code: api.NoCapacity, about: "a dimension", hosts: one(4096, func(c *host.Config) { c.Dims = []gate.Dim{{Name: "gpus", N: 1}} }),
		before: takes("card", "c1"), body: `{"key":"k","class":"card"}`, kinds: "wait queue add", line: "lacks_dimension:gpus: h1",
		near: "h1 lacks 1 gpus of 1", time: gives("c1"), joins: newHost("h9", 64*gate.GiB, func(c *host.Config) { c.Dims = []gate.Dim{{Name: "gpus", N: 1}} }),
	},
	{
		code: api.PoolFull, about: "its cap", before: takes("duo", "d1", "d2"), body: `{"key":"k","class":"duo"}`,
		kinds: "wait queue limit", line: "pool two says not now (pool_full): pool two has 2 of 2 slots taken", time: gives("d1"),
	},
	{
		code: api.PoolFull, about: "its cap, and a waiter ahead", before: all(takes("duo", "d1", "d2"), waits("w", "duo", "")),
		body: `{"key":"k","class":"duo"}`, kinds: "wait queue limit", line: "1 waiting", time: gives("d1", "d2", "w"),
		fleet: instead("cap: 2, max_waiting: 1", "cap: 2, max_waiting: 5"),
	},
	{
		code: api.PoolFull, about: "what an operator set", before: does(`plimsoll pool hold two --reason "bad image"`), body: `{"key":"k","class":"duo"}`,
		kinds: "wait queue limit limit", line: "it is held by local", time: does(`plimsoll pool resume two --reason "mended"`),
	},
	{
		code: api.PoolFull, about: "its share", before: takes("part", "p1"), body: `{"key":"k","class":"part"}`,
		kinds: "wait queue limit", line: "the share of consumer alice holds 1, its most", time: gives("p1"),
	},
	{
		code: api.PoolFull, about: "its cap, at the ceiling", fleet: func(d string) string {
			return strings.NewReplacer("ceiling: none", "ceiling: 107").Replace(d)
		},
		before: takes("duo", "d1", "d2"), body: `{"key":"k","class":"duo"}`, kinds: "wait queue limit", time: gives("d1"),
	},
	{
		code: api.PoolFull, about: "without hosts", hosts: hosts(), before: takes("cell", "c1"), body: `{"key":"k","class":"cell"}`,
		kinds: "wait queue limit", line: "pool cloud says not now", time: gives("c1"),
	},
	{
		code: api.QueueFull, about: "its line", before: all(takes("duo", "d1", "d2"), waits("w", "duo", "")),
		body: `{"key":"k","class":"duo","mode":"queue"}`, kinds: "wait limit", line: "pool two says not now (queue_full)", time: gives("w", "d1"),
	},
	{
		code: api.WaitingCapacity, about: "for a slot", before: takes("duo", "d1", "d2"), body: `{"key":"k","class":"duo","mode":"queue"}`,
		kinds: "wait limit", line: "pool two says not now (waiting_capacity)", time: gives("d1"),
	},
	{
		code: api.WaitingCapacity, about: "for quota", before: func(s *stage) { s.hold("q", "small", `,"tenant":"poor"`) },
		body: `{"key":"k","class":"small","tenant":"poor","mode":"queue"}`, kinds: "wait limit", time: gives("q"),
	},
	{
		code: api.WaitingCapacity, about: "for a host", before: fills(200), body: `{"key":"k","class":"base","mode":"queue"}`,
		kinds: "wait add", near: "h1 lacks 824 MiB of 1,024", time: gives("full"),
	},
	{
		code: api.TenantOverQuota, about: "its quota", before: func(s *stage) { s.hold("q", "small", `,"tenant":"poor"`) },
		body: `{"key":"k","class":"small","tenant":"poor"}`, kinds: "queue limit", line: "the quota of tenant poor says not allowed (tenant_over_quota): tenant poor holds 1 of its 1",
		time: gives("q"),
	},
	{
		code: api.TenantOverQuota, about: "its quota, and the cap", fleet: instead("cap: 100", "cap: 1"),
		before: func(s *stage) { s.hold("q", "small", `,"tenant":"poor"`) },
		body:   `{"key":"k","class":"small","tenant":"poor"}`, kinds: "queue limit", time: gives("q"),
	},
	{
		code: api.QueueTimeout, about: "its patience", once: true,
		before: all(takes("duo", "d1", "d2"), waits("k", "duo", `,"max_queue_age_ms":1000`), func(s *stage) { s.clock.Advance(1500 * time.Millisecond) }),
		body:   `{"key":"k","class":"duo","mode":"queue","max_queue_age_ms":1000}`, kinds: "queue limit", line: "pool two says not now (queue_timeout)", time: gives("d1"),
	},
	{
		code: api.Infeasible, about: "larger than any host", body: `{"key":"k","class":"base","memory_mb":8192}`,
		kinds: "smaller add", line: "the fleet says never (infeasible)", near: "h1 lacks 4,352 MiB of 8,192, even when it is empty",
	},
	{
		code: api.Infeasible, about: "a label that no host carries", body: `{"key":"k","class":"small","labels":{"zone":"z"}}`,
		kinds: "request add", joins: newHost("h9", 64*gate.GiB, zone("z")),
	},
	{
		code: api.Infeasible, about: "a host that is none", body: `{"key":"k","class":"small","host":{"id":"h7","mode":"require"}}`, kinds: "elsewhere",
	},
}

// atHosts are the noes of hosts that take nothing at this moment, or do not answer.
var atHosts = []scenario{
	{
		code: api.HostStartsFull, about: "its line of starts", hosts: one(4096, func(c *host.Config) { c.MaxStarts, c.MaxWaitingStarts = 1, 0 }),
		before: takes("small", "s1"), body: `{"key":"k","class":"small"}`, kinds: "wait queue add", line: "starts_full: h1",
		time: func(s *stage) { s.boots("s1") },
	},
	{
		code: api.HostPressure, about: "its valve", before: func(s *stage) {
			h := s.hosts["h1"]
			h.set(func() { h.used = 3700 * gate.MiB }) // headroom is 256: what is left is below twice that
			h.sample(host.Sample{PSI: true, Some: 5000})
			s.settled()
		},
		body: `{"key":"k","class":"small","host":{"id":"h1","mode":"prefer"}}`, kinds: "wait queue add", line: "pressure: h1",
		time: func(s *stage) {
			h := s.hosts["h1"]
			h.set(func() { h.used = 0 })
			for range 200 {
				h.sample(host.Sample{PSI: true})
				s.advance(100 * time.Millisecond)
			}
		},
	},
	{
		code: api.HostDraining, about: "the only host drains", before: does(`plimsoll host drain h1 --reason "kernel"`),
		body: `{"key":"k","class":"small"}`, kinds: "wait queue add", line: "draining: h1",
		time: func(s *stage) { s.start(newHost("h2", 4*gate.GiB)) },
	},
	{
		code: api.HostSilent, about: "what it holds may run there", hosts: hosts(newHost("h1", 4*gate.GiB), newHost("h2", 4*gate.GiB)),
		before: func(s *stage) {
			s.hold("k", "base", `,"host":{"id":"h1","mode":"prefer"}`)
			s.known("h1")
			s.silences("h1")
		},
		body: `{"key":"k","class":"base","host":{"id":"h1","mode":"prefer"}}`, kinds: "wait add host", line: "host h1 says not now (host_silent)",
		time: hears("h1"), agent: hears("h1"),
	},
	{
		code: api.HostSilent, about: "the demanded host", hosts: hosts(newHost("h1", 4*gate.GiB), newHost("h2", 4*gate.GiB)),
		before: func(s *stage) { s.silences("h1") }, body: `{"key":"k","class":"small","host":{"id":"h1","mode":"require"}}`,
		kinds: "elsewhere wait add", time: hears("h1"), agent: hears("h1"),
	},
	{
		code: api.NoHealthyAgents, about: "none is heard", before: func(s *stage) { s.silences("h1") },
		body: `{"key":"k","class":"small"}`, kinds: "wait queue add", line: "silent: h1", time: hears("h1"), agent: hears("h1"),
	},
	{
		code: api.NoHealthyAgents, about: "there is none", hosts: hosts(), body: `{"key":"k","class":"small"}`, kinds: "wait add",
		time: func(s *stage) { s.start(newHost("h2", 4*gate.GiB)) },
	},
	{
		code: api.ReservationLapsed, about: "its host does not hold it any more", before: func(s *stage) {
			s.hold("k", "keeper")
			ref, h := s.boots("k"), s.hosts["h1"]
			h.set(func() { h.mute = true })
			h.step(host.Release{ID: ref.ID, Gen: ref.Epoch}) // by another replica, whose end is on its way
		},
		body: `{"key":"k","class":"keeper"}`, kinds: "wait", time: func(s *stage) {
			h := s.hosts["h1"]
			h.set(func() { h.mute = false })
			s.settled()
		},
	},
	{
		code: api.Releasing, about: "its end is under way", before: func(s *stage) {
			s.hold("k", "small")
			s.boots("k")
			h := s.hosts["h1"]
			h.set(func() { h.keeps = true })
			s.release("k")
		},
		body: `{"key":"k","class":"small"}`, kinds: "wait request", time: func(s *stage) {
			var a api.Admission
			s.must(json.Unmarshal(s.send("GET", "/v1/admissions/k", "alicealice", "").body, &a))
			s.hosts["h1"].step(host.Done{ID: a.ID, Epoch: a.Epoch, Reason: "stopped"})
			s.settled()
		},
	},
	{
		code: api.NotFound, about: "it was released meanwhile", once: true, before: func(s *stage) {
			s.store.set(func() {
				s.store.settling = func(id string) {
					s.store.set(func() { s.store.settling = nil })
					row, _, err := s.store.ByID(s.t.Context(), id)
					s.must(err)
					_, _, err = s.store.Leave(s.t.Context(), id, pool.Passage{Gen: row.Gen, QueuedAt: row.QueuedAt})
					s.must(err)
				}
			})
		},
		body: `{"key":"k","class":"small"}`, kinds: "request",
	},
}

// silences takes a host off the air for longer than one may be silent.
func (s *stage) silences(id string) {
	h := s.hosts[id]
	h.set(func() { h.deaf = true })
	s.advance(40 * time.Second) // silence counts from when somebody could hear
}

// known waits until the registry has been told what a host says of itself, which is a word of it.
func (s *stage) known(id string) {
	s.eventually("the registry to know what it said", func() bool {
		h, _, err := s.store.Host(s.t.Context(), id)
		return err == nil && h.Bounds.MaxAsk > 0
	})
}

// hears has its agent speak again.
func hears(id string) func(*stage) {
	return func(s *stage) {
		h := s.hosts[id]
		h.set(func() { h.deaf = false })
		h.sample(host.Sample{})
		s.settled()
	}
}

// ofServer are the noes of a server that cannot say better.
var ofServer = []scenario{
	{
		code: api.Unavailable, about: "the store does not answer",
		before: func(s *stage) { s.store.set(func() { s.store.claim = errors.New("connection lost") }) },
		body:   `{"key":"k","class":"small"}`, kinds: "wait server", line: "the store did not answer",
		time: func(s *stage) { s.store.set(func() { s.store.claim = nil }) }, mend: func(s *stage) { s.store.set(func() { s.store.claim = nil }) },
	},
	{
		code: api.Internal, about: "a ticket that cannot be minted",
		before: func(s *stage) { s.store.set(func() { s.store.spoils = true }) },
		body:   `{"key":"k","class":"small"}`, kinds: "server", line: "the fleet says never (internal): the ticket could not be minted",
		mend: func(s *stage) { s.store.set(func() { s.store.spoils = false }) },
	},
	{
		code: api.Unavailable, about: "nothing is configured", fleet: func(string) string { return "" }, token: localToken,
		body: `{"key":"k","class":"small"}`, kinds: "server", line: "no configuration is in force yet",
		mend: func(s *stage) {
			path := filepath.Join(s.dir, "fleet.yaml")
			s.must(os.WriteFile(path, []byte("fleet:\n"+strings.ReplaceAll(document(), "\n", "\n  ")), 0o600))
			s.run("plimsoll config apply " + path)
		},
	},
}

// nevers are the noes that waiting does not change.
var nevers = []scenario{
	{code: api.UnknownClass, about: "a mistyped class", body: `{"key":"k","class":"smal"}`, kinds: "request", line: "the request itself says never (unknown_class)"},
	{code: api.TooLarge, about: "too much memory", body: `{"key":"k","class":"tight","memory_mb":1500}`, kinds: "smaller limit"},
	{code: api.TooLarge, about: "too little memory", body: `{"key":"k","class":"tight","memory_mb":32}`, kinds: "smaller limit"},
	{code: api.TooLarge, about: "too many cores", body: `{"key":"k","class":"small","cpu":3.5}`, kinds: "smaller limit"},
	{code: api.InvalidRequest, about: "a word that is no mode", body: `{"key":"k","class":"small","mode":"hope"}`, kinds: "request"},
	{code: api.InvalidRequest, about: "patience without a queue", body: `{"key":"k","class":"small","max_queue_age_ms":1000}`, kinds: "request"},
	{code: api.InvalidRequest, about: "no name for a key", body: `{"key":"a b/c","class":"small"}`, kinds: "request"},
	{code: api.InvalidRequest, about: "no key", body: `{"class":"small"}`, kinds: "request"},
	{code: api.InvalidRequest, about: "a label that is none", body: `{"key":"k","class":"small","labels":{"zone":"a,b"}}`, kinds: "request"},
	{code: api.InvalidRequest, about: "a size of a class without one", body: `{"key":"k","class":"cell","memory_mb":64}`, kinds: "request"},
	{code: api.InvalidRequest, about: "a pin that says too little", body: `{"key":"k","class":"small","host":{"id":"h1","mode":"must"}}`, kinds: "request"},
	{code: api.InvalidRequest, about: "whose of several", fleet: instead("tenants: [alice, poor]", "tenants: [acme, poor]"), body: `{"key":"k","class":"small"}`, kinds: "request"},
	{code: api.InvalidRequest, about: "no JSON", body: `{"key":"k","class":`, kinds: "request", redone: func(string) string { return `{"key":"k","class":"small"}` }},
	{code: api.BodyTooLarge, about: "a body without end", body: `{"key":"k","class":"small","template":"` + strings.Repeat("x", 2<<20) + `"}`, kinds: "request", redone: func(string) string { return `{"key":"k","class":"small"}` }},
	{code: api.KeyConflict, about: "other contents", before: takes("small", "k"), body: `{"key":"k","class":"base"}`, kinds: "request"},
	{code: api.Forbidden, about: "a pin", token: "bobbob", body: `{"key":"k","class":"small","host":{"id":"h1","mode":"prefer"}}`, kinds: "elsewhere permission"},
	{code: api.Forbidden, about: "another's tenant", token: "bobbob", body: `{"key":"k","class":"small","tenant":"acme"}`, kinds: "request permission"},
	{code: api.Forbidden, about: "a role", token: "providerprovider", body: `{"key":"k","class":"small"}`, kinds: "permission"},
	{code: api.Unauthenticated, about: "a token of nobody", token: "nobody", body: `{"key":"k","class":"small"}`, kinds: "permission", line: "the request itself says not allowed (unauthenticated)"},
}
