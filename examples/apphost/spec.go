package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Spec is one app as the file of apps has it.
type Spec struct {
	Name     string   `json:"name"`      // a label of a host name: NAME.localhost leads to it
	Class    string   `json:"class"`     // of the configuration of Plimsoll
	MemoryMB *int64   `json:"memory_mb"` // within the class's bounds; default: the class's
	Argv     []string `json:"argv"`      // default: the sample app that is built in
	Env      []string `json:"env"`       // besides APP_NAME, APP_SOCKET and PATH
}

var nameOfApp = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`)

// readSpecs reads the file of apps: a JSON list.
func readSpecs(path string) ([]Spec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the apps: %w", err)
	}
	var specs []Spec
	if err := json.Unmarshal(text, &specs); err != nil {
		return nil, fmt.Errorf("read the apps: %s: %w", path, err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the sample app: %w", err)
	}
	seen := map[string]bool{}
	for i := range specs {
		s := &specs[i]
		switch {
		case !nameOfApp.MatchString(s.Name):
			return nil, fmt.Errorf("%s: name %q: use up to 32 of a-z, 0-9 and -, beginning with a letter", path, s.Name)
		case seen[s.Name]:
			return nil, fmt.Errorf("%s: two apps are called %s", path, s.Name)
		case s.Class == "":
			return nil, fmt.Errorf("%s: app %s has no class; plimsoll classes lists them", path, s.Name)
		}
		seen[s.Name] = true
		if len(s.Argv) == 0 {
			s.Argv = []string{self, "app"}
		}
	}
	return specs, nil
}

// upNote is what a running plimsoll up leaves in its data directory as client.json.
type upNote struct {
	URL       string `json:"url"`
	TokenFile string `json:"token_file"`
	Socket    string `json:"socket"`
}

func readNote(dir string) (n upNote, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "client.json"))
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		return n, fmt.Errorf("find plimsoll up: %w; name --server, --token-file and --socket, or its data directory with --up", err)
	}
	return n, nil
}
