package archtest

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	link   = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	source = regexp.MustCompile("`([a-z]+(?:/[a-z]+)*/[a-z0-9_.]+\\.(?:go|yaml|txt))`")
	tested = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
	tests  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
)

// Whoever follows ARCHITECTURE.md must arrive. A file is looked for once its folder exists.
func TestDocumentsNameWhatExists(t *testing.T) {
	root := os.DirFS("../..")
	known := testsOf(t, root)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md"} {
		documents, err := fs.Glob(root, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range documents {
			text, err := fs.ReadFile(root, document)
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range deadReferences(root, document, string(text)) {
				t.Error(fault)
			}
			for _, name := range tested.FindAllString(string(text), -1) {
				if !strings.Contains(known, "\n"+name) && name != "TestName" { // that one stands for any
					t.Errorf("%s: names the test %s, which does not exist", document, name)
				}
			}
		}
	}
}

// testsOf are the names of all tests, each on a line: a table of promises is worth what its
// tests are. A document may name several by how they begin, as -run does.
func testsOf(t *testing.T, root fs.FS) string {
	var known strings.Builder
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(root, name)
		for _, m := range tests.FindAllStringSubmatch(string(text), -1) {
			known.WriteString("\n" + m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return known.String()
}

func deadReferences(root fs.FS, document, text string) (faults []string) {
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], ":") && !exists(root, path.Join(path.Dir(document), m[1])) {
			faults = append(faults, document+": links to "+m[1]+", which does not exist")
		}
	}
	for _, m := range source.FindAllStringSubmatch(text, -1) {
		if exists(root, path.Dir(m[1])) && !exists(root, m[1]) {
			faults = append(faults, document+": names "+m[1]+", which does not exist")
		}
	}
	return faults
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

func TestDeadReferencesAreFound(t *testing.T) {
	root := os.DirFS("../..")
	text := "[a](nowhere.md) [b](../README.md#shape) [c](https://example.org) `gate/nothing.go` `gate/gate.go` `nofolder/a.go`"
	got := strings.Join(deadReferences(root, "docs/glossary.md", text), "\n")
	want := "docs/glossary.md: links to nowhere.md, which does not exist\n" +
		"docs/glossary.md: names gate/nothing.go, which does not exist"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
