package sim

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// All mutants are built into one player, since a player for each took longer to build than to play.
// A function that some of them change becomes a choice between what it was and each of its changed
// copies, by the number in the environment:
//
//	func Fits(a, need Bytes) bool { return a >= need }
//
//	func Fits(p0, p1 Bytes) bool {
//		switch chosenMutant {
//		case 7:
//			return Fits7(p0, p1)
//		}
//		return Fits0(p0, p1)
//	}

// mutantVariable is the number of the mutant that a player is, from 1 on.
const mutantVariable = "PLIMSOLL_MUTANT"

// chooser is the file that each package with such a function has besides.
const chooser = `package %s

import (
	"os"
	"strconv"
)

var chosenMutant, _ = strconv.Atoi(os.Getenv("` + mutantVariable + `"))
`

// splitFile is a file whose changed functions are choices.
type splitFile struct {
	pkg   string
	text  string
	funcs map[string]*splitFunc // receiver and name -> function
	order []string
}

// splitFunc is one function, by its places in the text.
type splitFunc struct {
	decl   *ast.FuncDecl
	at     func(ast.Node) string // the source of a node
	copies map[int]string        // number of a mutant -> the changed declaration
}

// split parses a file, and names each of its functions.
func split(text string) (*splitFile, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &splitFile{pkg: file.Name.Name, text: text, funcs: map[string]*splitFunc{}}
	at := func(n ast.Node) string { return text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset] }
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		f.Doc = nil // it is no part of the declaration here
		name := f.Name.Name
		if f.Recv != nil {
			name = at(f.Recv.List[0].Type) + "." + name
		}
		s.funcs[name] = &splitFunc{decl: f, at: at, copies: map[int]string{}}
		s.order = append(s.order, name)
	}
	return s, nil
}

// rest is the text without its functions.
func (s *splitFile) rest() string {
	text := s.text
	for _, name := range s.order {
		text = strings.Replace(text, s.funcs[name].source(), "", 1)
	}
	return text
}

func (f *splitFunc) source() string { return f.at(f.decl) }

// add takes what mutant n changes in this file; false says that it changes more than functions.
func (s *splitFile) add(n int, changed string) bool {
	other, err := split(changed)
	if err != nil || other.rest() != s.rest() || !slices.Equal(other.order, s.order) {
		return false
	}
	for name, f := range s.funcs {
		if text := other.funcs[name].source(); text != f.source() {
			f.copies[n] = other.funcs[name].named(n)
		}
	}
	return true
}

// named is the declaration under its name with a number.
func (f *splitFunc) named(n int) string {
	head, _, _ := strings.Cut(f.source(), f.decl.Name.Name+"(")
	if f.decl.Type.TypeParams != nil {
		head, _, _ = strings.Cut(f.source(), f.decl.Name.Name+"[")
	}
	return head + f.decl.Name.Name + fmt.Sprint(n) + strings.TrimPrefix(f.source(), head+f.decl.Name.Name)
}

// choices is the file with its choices.
func (s *splitFile) choices() string {
	text := s.text
	for _, name := range s.order {
		if f := s.funcs[name]; len(f.copies) > 0 {
			text = strings.Replace(text, f.source(), f.choice(), 1)
		}
	}
	return text
}

// choice is the function that calls the chosen one, with all of those.
func (f *splitFunc) choice() string {
	var b strings.Builder
	b.WriteString("func ")
	call := ""
	if f.decl.Recv != nil {
		fmt.Fprintf(&b, "(recv %s) ", f.at(f.decl.Recv.List[0].Type))
		call = "recv."
	}
	params, args := f.params()
	kind, typeArgs := f.typeParams()
	results, does := "", "%s; return"
	if f.decl.Type.Results != nil {
		results, does = f.at(f.decl.Type.Results), "return %s"
	}
	fmt.Fprintf(&b, "%s%s(%s) %s {\n\tswitch chosenMutant {\n", f.decl.Name.Name, kind, params, results)
	calling := func(n int) string {
		return fmt.Sprintf(does, fmt.Sprintf("%s%s%d%s(%s)", call, f.decl.Name.Name, n, typeArgs, args))
	}
	numbers := slices.Sorted(maps.Keys(f.copies))
	for _, n := range numbers {
		fmt.Fprintf(&b, "\tcase %d:\n\t\t%s\n", n, calling(n))
	}
	fmt.Fprintf(&b, "\t}\n\t%s\n}\n\n%s\n", calling(0), f.named(0))
	for _, n := range numbers {
		fmt.Fprintf(&b, "\n%s\n", f.copies[n])
	}
	return b.String()
}

// params are the parameters under names of ours, and the arguments that hand them on.
func (f *splitFunc) params() (params, args string) {
	n := 0
	for _, field := range f.decl.Type.Params.List {
		for range max(len(field.Names), 1) {
			params += fmt.Sprintf("p%d %s, ", n, f.at(field.Type))
			args += fmt.Sprintf("p%d", n)
			if _, many := field.Type.(*ast.Ellipsis); many {
				args += "..."
			}
			args += ", "
			n++
		}
	}
	return strings.TrimSuffix(params, ", "), strings.TrimSuffix(args, ", ")
}

func (f *splitFunc) typeParams() (kind, args string) {
	if f.decl.Type.TypeParams == nil {
		return "", ""
	}
	var names []string
	for _, field := range f.decl.Type.TypeParams.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return f.at(f.decl.Type.TypeParams), "[" + strings.Join(names, ", ") + "]"
}

// players are the programs that play the mutants.
type players struct {
	all   []mutant
	whole string // plays any but those that are alone
	alone map[int]bool
}

// buildPlayers builds the one that all mutants are in which change functions alone.
func buildPlayers(t *testing.T, all []mutant) *players {
	p := &players{all: all, alone: map[int]bool{}}
	files := map[string]*splitFile{}
	for i, m := range all {
		if !m.addTo(t, files, i+1) {
			p.alone[i] = true
		}
	}
	dir := t.TempDir()
	replace := map[string]string{}
	put := func(path, text string) {
		replace[path] = filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, s := range files {
		put(path, s.choices())
		if beside := filepath.Join(filepath.Dir(path), "chosenmutant.go"); replace[beside] == "" {
			put(beside, fmt.Sprintf(chooser, s.pkg))
		}
	}
	var err error
	if p.whole, err = buildPlayer(t, dir, replace); err != nil {
		t.Fatalf("the player of all mutants: %v", err)
	}
	return p
}

// addTo puts a mutant into the files that it changes, all of it or nothing.
func (m mutant) addTo(t *testing.T, files map[string]*splitFile, n int) bool {
	changed, err := m.changed()
	if err != nil {
		t.Fatalf("the mutant of %q: %v", m.guard, err)
	}
	for path := range changed {
		if files[path] == nil {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if files[path], err = split(string(text)); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
	}
	for path, text := range changed {
		if !files[path].add(n, text) {
			return false
		}
	}
	return true
}

// buildPlayer builds a player with other files in the place of some.
func buildPlayer(t *testing.T, dir string, replace map[string]string) (string, error) {
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay, player := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "player")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-ldflags=-s -w", "-o", player, "./internal/sim/testdata/player")
	build.Dir = moduleRoot
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%.4000s", err, out)
	}
	return player, nil
}

// hunt has a mutant played.
func (p *players) hunt(t *testing.T, i int) (got Caught) {
	m, player := p.all[i], p.whole
	if p.alone[i] {
		player = m.build(t)
	}
	within, err := json.Marshal(m.within)
	if err != nil {
		t.Fatal(err)
	}
	play := exec.CommandContext(t.Context(), player, string(within))
	play.Env = append(os.Environ(), fmt.Sprintf("%s=%d", mutantVariable, i+1))
	out, err := play.CombinedOutput()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Fatalf("the mutant of %q: %v\n%.2000s", m.guard, err, out)
	}
	return got
}

// build builds a player with this mutant alone: one that changes more than functions.
func (m mutant) build(t *testing.T) string {
	dir := t.TempDir()
	changed, err := m.changed()
	if err != nil {
		t.Fatalf("the mutant of %q: %v", m.guard, err)
	}
	replace := map[string]string{}
	for path, text := range changed {
		replace[path] = filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	player, err := buildPlayer(t, dir, replace)
	if err != nil {
		t.Fatalf("the mutant of %q: %v", m.guard, err)
	}
	return player
}
