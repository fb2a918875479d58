package transcript

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// Current fails when a file of JSON is not what the code makes of it now; with -update it is
// written anew.
func Current(t *testing.T, path string, value any) {
	t.Helper()
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	if err := to.Encode(value); err != nil {
		t.Fatal(err)
	}
	if Updating() {
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, text.Bytes()) {
		t.Errorf("%s is not what the code makes of it now: go test -update writes it anew", path)
	}
}
