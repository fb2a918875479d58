package archtest

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/plimsoll-project/plimsoll"

func TestTheTree(t *testing.T) {
	tree, err := Load(os.DirFS("../.."), module)
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Packages) < 3 {
		t.Fatalf("only %d packages were found; the test looks in the wrong place", len(tree.Packages))
	}
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			for _, fault := range rule.Check(tree) {
				t.Errorf("%s\n\tbecause %s", fault, rule.Reason)
			}
		})
	}
}

// broken holds, for each rule, trees that break it and it alone, with a part of the message.
var broken = map[string][]struct{ file, source, message string }{
	"pure-imports": {
		{"gate/a.go", `package gate; import _ "os"`, `gate/a.go:2: pure package gate imports "os"`},
		{"ledger/a.go", `package ledger; import _ "net/http"`, `imports "net/http"`},
		{"pool/a.go", `package pool; import _ "sync/atomic"`, `imports "sync/atomic"`},
		{"host/a.go", `package host; import _ "math/rand/v2"`, `imports "math/rand/v2"`},
		{"admission/a.go", `package admission; import _ "database/sql"`, `imports "database/sql"`},
		{"hint/a.go", `package hint; import _ "log/slog"`, `imports "log/slog"`},
		{"table/a.go", `package table; import _ "golang.org/x/sync/errgroup"`, `imports "golang.org/x/sync/errgroup"`},
		{"table/sub/a.go", `package sub; import _ "os/exec"`, `imports "os/exec"`},
		{"pressure/a.go", `package pressure; import _ "` + module + `/client"`, `imports "client"`},
	},
	"pure-calls": {
		{"gate/a.go", `package gate; import "time"; func f() time.Time { return time.Now() }`, "uses time.Now"},
		{"gate/a.go", `package gate; import clock "time"; var sleep = clock.Sleep`, "uses time.Sleep"},
		{"pool/a.go", `package pool; func f() { go f() }`, "starts a goroutine"},
	},
	"pure-state": {
		{"gate/a.go", `package gate; func init() {}`, "has an init function"},
		{"gate/a.go", `package gate; var n int; func f() { n++ }`, "f writes to the package's variable n"},
		{"gate/a.go", `package gate; var m = map[string]int{}; func f() { m["a"] = 1 }`, "variable m"},
		{"gate/a.go", `package gate; var m = map[string]int{}; func f() { delete(m, "a") }`, "variable m"},
		{"gate/a.go", `package gate; var s struct{ a int }; func f() *int { return &s.a }`, "variable s"},
		{"gate/a.go", `package gate; var Default = 3`, "exported variable Default"},
	},
	"pure-function-length": {
		{"gate/a.go", "package gate; func f() {" + strings.Repeat("\n", 60) + "}", "f has 61 lines, at most 60"},
	},
	"client-imports": {
		{"client/a.go", `package client; import _ "github.com/jackc/pgx/v5"`, `imports "github.com/jackc/pgx/v5"`},
		{"client/boot/a.go", `package boot; import _ "` + module + `/plimsolltest"`, `imports "plimsolltest"`},
	},
	"public-imports": {
		{"scenarios/a.go", `package scenarios; import _ "` + module + `/internal/web"`, `imports "internal/web"`},
	},
	"no-import-of-cmd": {
		{"internal/web/a.go", `package web; import _ "` + module + `/cmd/plimsoll"`, `imports "cmd/plimsoll"`},
	},
	"host-shell-imports": {
		{"internal/agent/a.go", `package agent; import _ "` + module + `/internal/store/sqlite"`, `imports "internal/store/sqlite"`},
		{"internal/driver/a.go", `package driver; import _ "database/sql"`, `imports "database/sql"`},
	},
	"store-imports": {
		{"internal/store/sqlite/a.go", `package sqlite; import _ "net/http"`, `imports "net/http"`},
		{"internal/store/a.go", `package store; import _ "` + module + `/internal/agent"`, `imports "internal/agent"`},
	},
	"control-imports": {
		{"internal/control/a.go", `package control; import _ "` + module + `/internal/store/sqlite"`, `imports "internal/store/sqlite"`},
	},
	"package-names": {
		{"internal/util/a.go", `package util`, `a package is named "util"`},
		{"internal/web/types/a.go", `package types`, `a package is named "types"`},
	},
	"package-comments": {
		{"scenarios/a.go", "package scenarios", `no file has a comment that begins with "Package scenarios "`},
		{"scenarios/a.go", "// Package other is something else.\npackage scenarios", "no file has a comment"},
	},
	"file-length": {
		{"internal/web/a.go", "package web" + strings.Repeat("\n", 600), "601 lines, at most 600"},
	},
}

// sound breaks no rule, though it looks as if it did.
var sound = fstest.MapFS{
	"gate/gate.go": file(`// Package gate is sound.
package gate

import (
	"errors"
	"time"
)

var ErrFull = errors.New("full")

var table = [2]int{1, 2}

var _ = time.Second

func f(now time.Time) (table int) {
	table = now.Second()
	table++
	return table
}

func g() int { return table[0] }
`),
	"gate/gate_test.go":    file(`package gate; import _ "os"; import "time"; var began = time.Now()`),
	"ticket/ticket.go":     file("// Package ticket is sound.\npackage ticket\n\nimport _ \"log/slog\"\n"),
	"client/client.go":     file("// Package client is sound.\npackage client\n\nimport _ \"net/http\"\nimport _ \"" + module + "/gate\"\n"),
	"cmd/plimsoll/main.go": file(`package main; import _ "` + module + `/internal/web"`),
	"sdk/stage/main.go":    file(`package main; import _ "` + module + `/internal/web"`),
	"internal/web/wire.go": file("// Code generated by hand. DO NOT EDIT.\npackage web" + strings.Repeat("\n", 700)),
	"internal/web/web.go":  file(`package web; import _ "` + module + `/internal/store/sqlite"`),
	"tools/go.mod":         {Data: []byte("module tools")},
	"tools/util/a.go":      file(`package util`),
	"gate/testdata/a.go":   file(`not Go at all`),
}

func file(source string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(source)} }

func TestEachRuleCanFail(t *testing.T) {
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			if len(broken[rule.Name]) == 0 {
				t.Fatal("no tree proves that this rule can fail; add one to broken")
			}
			if rule.Reason == "" {
				t.Error("the rule has no reason")
			}
			for _, c := range broken[rule.Name] {
				proveFails(t, rule, c.file, c.source, c.message)
			}
		})
	}
}

func proveFails(t *testing.T, rule Rule, name, source, message string) {
	t.Helper()
	if rule.Name != "package-comments" {
		source = documented(source)
	}
	tree, err := Load(fstest.MapFS{name: file(source)}, module)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range Rules() {
		faults := strings.Join(other.Check(tree), "\n")
		switch {
		case other.Name == rule.Name && !strings.Contains(faults, message):
			t.Errorf("%.80q: got %q, want something with %q", source, faults, message)
		case other.Name != rule.Name && faults != "":
			t.Errorf("%.80q: breaks %s too: %s", source, other.Name, faults)
		}
	}
}

// documented puts a package comment before a source.
func documented(source string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(source, "package "), ";")
	name, _, _ = strings.Cut(name, "\n")
	return "// Package " + name + " is a fixture.\n" + source
}

func TestSoundTree(t *testing.T) {
	tree, err := Load(sound, module)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range Rules() {
		for _, fault := range rule.Check(tree) {
			t.Errorf("%s: %s", rule.Name, fault)
		}
	}
}
