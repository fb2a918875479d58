package pictures

import (
	"bytes"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "draw the pictures anew into docs/pictures")

const (
	folder = "../../docs/pictures"
	most   = 40_000 // bytes of one
)

// What lies in docs/pictures is what the measured data draws, byte for byte, and is light.
func TestPicturesAreCurrent(t *testing.T) {
	all, err := Draw()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		name := filepath.Join(folder, p.File)
		if *update {
			if err := os.WriteFile(name, p.SVG, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		lies, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(lies, p.SVG) {
			t.Errorf("%s is not what the data draws (%v); run: make pictures", p.File, err)
		}
		if len(p.SVG) > most {
			t.Errorf("%s has %d bytes, at most %d", p.File, len(p.SVG), most)
		}
	}
	if files, _ := filepath.Glob(folder + "/*"); len(files) != len(all) {
		t.Errorf("%d files lie in docs/pictures, and %d are drawn", len(files), len(all))
	}
}

// Every picture is well-formed, and says in words what it shows.
func TestPicturesSayWhatTheyShow(t *testing.T) {
	all, err := Draw()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		texts, d := map[string]string{}, xml.NewDecoder(bytes.NewReader(p.SVG))
		within := ""
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", p.File, err)
			}
			switch token := token.(type) {
			case xml.StartElement:
				within = token.Name.Local
			case xml.CharData:
				texts[within] += string(token)
			}
		}
		if strings.TrimSpace(texts["title"]) == "" || strings.TrimSpace(texts["desc"]) == "" {
			t.Errorf("%s has title %q and description %q", p.File, texts["title"], texts["desc"])
		}
		if strings.Contains(texts["text"], "NaN") || bytes.Contains(p.SVG, []byte("NaN")) || bytes.Contains(p.SVG, []byte("Inf")) {
			t.Errorf("%s has a figure that is none", p.File)
		}
	}
}

// The page for operators shows each of them, with words for who cannot see it.
func TestPicturesAreShown(t *testing.T) {
	page, err := os.ReadFile("../../docs/operating/memory.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`!\[([^\]]*)\]\(\.\./pictures/([^)]+)\)`).FindAllStringSubmatch(string(page), -1) {
		if shown[m[2]] = true; len(m[1]) < 40 {
			t.Errorf("%s is shown with %q for those who cannot see it", m[2], m[1])
		}
	}
	all, err := Draw()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if !shown[p.File] {
			t.Errorf("docs/operating/memory.md does not show %s", p.File)
		}
	}
}
