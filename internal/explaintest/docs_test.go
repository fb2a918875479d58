package explaintest

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll-project/plimsoll/api"
	"github.com/plimsoll-project/plimsoll/gate"
)

var update = flag.Bool("update", false, "write what the commands of docs/explain.md print into it")

const page = "../../docs/explain.md"

// pageDocument is the fleet of docs/explain.md.
const pageDocument = `
ceiling: 60
pools:
  - {name: ci, cap: 40}
classes:
  - {name: build, pool: ci, memory: 2GiB, min_memory: 256MiB, max_memory: 4GiB}
default_quota: none
quotas: [{tenant: acme, limit: 10}]
consumers:
  - {name: ci, tenants: [acme], token_sha256: [%x]}
`

// changing is what of a command's output another run prints differently, and what the page has there.
var changing = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \(\d+ \w+ ago\), yes-`), "2026-05-28 20:26:52 UTC (1 s ago), yes-"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \(\d+ \w+ ago\)(, (?:dec|1 attempt))`), "2026-05-28 20:26:40 UTC (2 s ago)$1"},
	{regexp.MustCompile(`dec-[0-9a-f]{18}`), "dec-6f1c0a9e2b7d4f5a83"},
	{regexp.MustCompile(`yes-\d+-adm-[0-9a-f]{18}`), "yes-1-adm-0d94c7e15ab82f36c1"},
	{regexp.MustCompile(`after [0-9.]+ m?s \(at [^)]*\)`), "after 4 s (at 20:26:44)"},
	{regexp.MustCompile(`in about [0-9.]+ ?m?s`), "in about 4 s"},
	{regexp.MustCompile(`(?m)^  \d\d:\d\d:\d\d  `), "  20:26:40  "},
	{regexp.MustCompile(`admitted [0-9.]+ m?s after`), "admitted 12 s after"},
	{regexp.MustCompile(`, [0-9]+ s after`), ", 12 s after"},
}

func steady(text string) string {
	for _, c := range changing {
		text = c.what.ReplaceAllString(text, c.as)
	}
	return text
}

// TestThePageIsTrue runs every command of docs/explain.md, in its order, on the fleet that it tells of:
// each must succeed, and where the page shows what it prints, it prints that.
func TestThePageIsTrue(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	s := newStage(t, fmt.Sprintf(pageDocument, sha256.Sum256([]byte("cici"))),
		newHost("h-17", 4*gate.GiB), newHost("h-3", 4*gate.GiB), newHost("h-5", 16*gate.GiB))
	s.run(`plimsoll host cordon h-5 --reason "odd disk errors"`)
	for i, used := range []int64{3028, 3340} { // of 3,840 each
		h := s.hosts[[]string{"h-17", "h-3"}[i]]
		h.set(func() { h.used = gate.FromMiB(used) })
		h.sampled()
	}
	s.settled()
	build := `{"key":"build-7","class":"build","memory_mb":4096}`
	var no api.Problem
	got := s.post("cici", build)
	if s.must(json.Unmarshal(got.body, &no)); no.Code != api.NoCapacity {
		t.Fatalf("%d %s", got.status, got.body)
	}
	build = strings.Replace(build, "{", fmt.Sprintf(`{"receipt":%q,`, no.Receipt), 1) // the next try
	var out strings.Builder
	commands := 0
	for block := range strings.SplitSeq(string(text), "```") {
		if body, ok := strings.CutPrefix(block, "console\n"); ok {
			block = "console\n" + s.console(body, build, &commands)
		} else if body, ok := strings.CutPrefix(block, "\n"); ok && strings.HasPrefix(body, "plimsoll ") {
			for line := range strings.Lines(body) {
				s.run(strings.TrimSpace(line))
				commands++
			}
		}
		out.WriteString("```" + block)
	}
	now := strings.TrimPrefix(out.String(), "```")
	if commands < 10 {
		t.Errorf("the page has %d commands", commands)
	}
	if *update {
		s.must(os.WriteFile(page, []byte(now), 0o600))
		return
	}
	if now != string(text) {
		t.Errorf("docs/explain.md is not what its commands print (write it anew with -update):\n%s", now)
	}
}

// console runs the commands of one block, and returns it with what they print. Once the host is open
// again the build asks again, as it would by itself.
func (s *stage) console(body, build string, commands *int) string {
	var out strings.Builder
	for line := range strings.Lines(body) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if !ok {
			continue
		}
		*commands++
		printed := s.run(command)
		if strings.Contains(command, "uncordon") {
			s.advance(12 * time.Second)
			s.eventually("the build to be admitted", func() bool { return s.post("cici", build).status == 201 })
		}
		out.WriteString("$ " + command + "\n" + steady(printed))
	}
	return out.String()
}
