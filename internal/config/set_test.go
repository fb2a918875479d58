package config

import (
	"strings"
	"testing"
)

const toSet = `
ceiling: 100
default_quota: none
pools:
  - {name: ci, cap: 4, shares: [{consumer: bot.v2, max: 2}, {priority: 7, reserved: 1}]}
  - {name: ci.browsers, cap: 6}
classes:
  - {name: small, pool: ci, memory: 512MiB, max_memory: 1GiB}
quotas:
  - {tenant: acme, limit: 3}
consumers:
  - {name: bot.v2}
`

// added are the lines that a diff adds.
func added(diff string) string {
	var out []string
	for line := range strings.Lines(diff) {
		if rest, ok := strings.CutPrefix(line, "+"); ok {
			out = append(out, strings.TrimSpace(rest))
		}
	}
	return strings.Join(out, "; ")
}

// TestSet: each path changes that one setting, and the whole still holds together; a path or a
// value that says nothing changes nothing, and says what it could have been.
func TestSet(t *testing.T) {
	for _, c := range []struct{ path, said, want string }{
		{"ceiling", "200", "ceiling: 200"},
		{"default_quota", "9", "default_quota: 9"},
		{"pools.ci.cap", "40", "cap: 40"},
		{"pools.ci.browsers.cap", "7", "cap: 7"},
		{"pools.ci.shares.bot.v2.max", "3", "max: 3"},
		{"pools.ci.shares.7.reserved", "2", "reserved: 2"},
		{"classes.small.max_memory", "2GiB", "max_memory: 2GiB"},
		{"classes.small.priority", "5", "priority: 5"},
		{"classes.small.labels", "zone=a", "labels:; zone: a"},
		{"quotas.acme", "12", "limit: 12"},
		{"quotas.beta", "none", "- tenant: beta; limit: none"},
		{"consumers.bot.v2.tenants", "acme,beta", "- acme; - beta"},
		{"consumers.bot.v2.pin_hosts", "true", "pin_hosts: true"},
		{"consumers.bot.v2.roles", "consumer,operator", "- operator"},
	} {
		f, err := ParseFleet("f", []byte(toSet))
		if err != nil {
			t.Fatal(err)
		}
		before := f.Document()
		if err := f.Set(c.path, c.said); err != nil {
			t.Errorf("%s=%s: %v", c.path, c.said, err)
			continue
		}
		if _, err := ParseFleet("f", []byte(f.Document())); err != nil {
			t.Errorf("%s=%s: %v", c.path, c.said, err)
		}
		if got := added(Diff(before, f.Document())); got != c.want {
			t.Errorf("%s=%s adds %q, want %q", c.path, c.said, got, c.want)
		}
	}
	f, err := ParseFleet("f", []byte(toSet))
	if err != nil {
		t.Fatal(err)
	}
	before := f.Document()
	for _, c := range []struct{ path, said, want string }{
		{"ceilin", "200", "ceiling"},
		{"pools.cx.cap", "4", "there is ci, ci.browsers"},
		{"pools.ci.kap", "4", "cap"},
		{"pools.ci.shares.9.max", "4", "there is bot.v2, 7"},
		{"pools.ci.name", "x", "is no setting"},
		{"pools.ci.shares", "x", "is no setting"},
		{"consumers.bot.v2.token_sha256", "x", "is no setting"},
		{"pools.ci.cap", "4O", "is no whole number"},
		{"quotas.beta", "x", "is no whole number"},
		{"classes.small.max_memory", "2G", "2G"},
	} {
		if err := f.Set(c.path, c.said); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: %v, want %q in it", c.path, c.said, err, c.want)
		}
	}
	if f.Document() != before {
		t.Error("a mistake changed something")
	}
}
