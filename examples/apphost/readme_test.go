package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The configuration of the README is one that Plimsoll starts with, as it stands there, and has a host.
func TestTheREADMEStarts(t *testing.T) {
	t.Parallel()
	path, err := plimsoll()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<<'END'\n")
	config, _, found := strings.Cut(rest, "END\n")
	if !found {
		t.Fatal("the README has no configuration")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "two-apps.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	up := process{t: t, ready: "room for", argv: []string{
		path, "up", "--config", file, "--data-dir", filepath.Join(dir, "up"), "--listen", "127.0.0.1:0",
	}, env: []string{"PLIMSOLL_HOST_BUDGET=1GiB", "PLIMSOLL_HOST_RECLAIM=off", "PLIMSOLL_HOST_SOCKET=" + filepath.Join(t.TempDir(), "s")}}
	t.Cleanup(up.kill)
	up.start()
	up.stop()
}
