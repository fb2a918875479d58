package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// pure lists the packages that decide: no I/O, no clock, no goroutine, no state of
// their own. The agent, the replica and the simulator all run this same code.
var pure = []string{
	"digest", "gate", "ledger", "pressure", "host", "table", "pool", "admission", "registry",
	"learn", "hint", "ticket", "backoff", "api", "explain",
}

const (
	maxFileLines     = 600
	maxPureFuncLines = 60
)

// Rule is one thing that holds for the whole tree.
type Rule struct {
	Name   string
	Reason string               // why, for whoever runs into it
	Check  func(*Tree) []string // each fault as file:line: what
}

// Rules returns every rule.
func Rules() []Rule {
	return []Rule{
		{
			"pure-imports",
			"a decision that does I/O, locks or rolls dice cannot be replayed, simulated or fuzzed; hand in what it needs as an argument",
			pureImports,
		},
		{
			"pure-calls",
			"`now` is an argument of everything that decides, so that virtual time drives the same code; whoever calls owns the goroutines",
			pureCalls,
		},
		{
			"pure-state",
			"state outside a value is shared by every host of a simulation and by every test",
			pureState,
		},
		{
			"pure-function-length",
			"what decides must fit on a screen to be checked by eye",
			pureFunctionLength,
		},
		{
			"client-imports",
			"whoever embeds the SDK must not get the server or its dependencies with it",
			clientImports,
		},
		{
			"public-imports",
			"a public package must be usable from outside, so its types may not come from internal/ or cmd/",
			publicImports,
		},
		{
			"no-import-of-cmd",
			"cmd holds flags and wiring only; nothing may depend on it",
			noImportOfCmd,
		},
		{
			"host-shell-imports",
			"an agent runs where there is no store, and must go on when every replica is down",
			forbid(
				[]string{"internal/agent", "internal/hostmem", "internal/driver"},
				[]string{"database/sql"},
				[]string{"internal/store", "internal/web"},
			),
		},
		{
			"store-imports",
			"a store knows transitions and rows; one that spoke HTTP or knew agents could not be swapped",
			forbid(
				[]string{"internal/store"},
				[]string{"net/http"},
				[]string{"internal/agent", "internal/driver", "internal/hostmem", "internal/web"},
			),
		},
		{
			"control-imports",
			"the store's interface is declared by its user; the replica may not know which store it has",
			forbid(
				[]string{"internal/control"},
				[]string{"database/sql"},
				[]string{"internal/store", "internal/web"},
			),
		},
		{
			"package-names",
			"a package is a noun of the glossary; a drawer for odds and ends has no reason to refuse anything",
			packageNames,
		},
		{
			"package-comments",
			"a package says what it decides, what it does not, and who may call it concurrently",
			packageComments,
		},
		{
			"file-length",
			"a longer file holds more than one idea",
			fileLength,
		},
	}
}

// imports calls visit for every import of the build with its path, relative to the module's
// root if it is one of ours.
func imports(t *Tree, p *Package, visit func(at, imported string, ours bool)) {
	for _, f := range p.sources() {
		for _, spec := range f.AST.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the parser would have refused it
			}
			rel, ours := strings.CutPrefix(imported, t.Module+"/")
			visit(t.at(spec.Pos()), rel, ours)
		}
	}
}

// standard says whether an import is of the standard library: its first element has no dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// impure lists what of the standard library a pure package may not import.
var impure = []string{
	"net", "os", "io/ioutil", "database/sql", "log", "sync", "math/rand", "crypto/rand",
	"runtime", "syscall", "unsafe", "plugin", "testing",
}

func pureImports(t *Tree) (faults []string) {
	for _, p := range t.Packages {
		if !insideAny(p.Path, pure) {
			continue
		}
		imports(t, p, func(at, imported string, ours bool) {
			switch {
			case ours && insideAny(imported, pure):
			case !ours && standard(imported) && !insideAny(imported, impure):
			case inside(p.Path, "ticket") && imported == "log/slog":
				// A ticket redacts itself in logs; slog.LogValuer is how it says so.
			default:
				faults = append(faults, fmt.Sprintf("%s: pure package %s imports %q", at, p.Path, imported))
			}
		})
	}
	return faults
}

// clockCalls lists what package time offers that is not arithmetic.
var clockCalls = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func pureCalls(t *Tree) (faults []string) {
	eachPureFile(t, func(_ *Package, f *File) {
		clock := importName(f, "time")
		ast.Inspect(f.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				faults = append(faults, t.at(n.Pos())+": starts a goroutine")
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && clock != "" && x.Name == clock && slices.Contains(clockCalls, n.Sel.Name) {
					faults = append(faults, fmt.Sprintf("%s: uses time.%s", t.at(n.Pos()), n.Sel.Name))
				}
			}
			return true
		})
	})
	return faults
}

// importName returns the name under which a file knows an import, or "".
func importName(f *File, imported string) string {
	for _, spec := range f.AST.Imports {
		if spec.Path.Value != strconv.Quote(imported) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(imported)
	}
	return ""
}

func eachPureFile(t *Tree, visit func(*Package, *File)) {
	for _, p := range t.Packages {
		if !insideAny(p.Path, pure) {
			continue
		}
		for _, f := range p.sources() {
			visit(p, f)
		}
	}
}

func pureFunctionLength(t *Tree) (faults []string) {
	eachPureFile(t, func(_ *Package, f *File) {
		if f.Generated {
			return
		}
		for _, decl := range f.AST.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
			if lines > maxPureFuncLines {
				faults = append(faults, fmt.Sprintf("%s: %s has %d lines, at most %d", t.at(fn.Pos()), fn.Name.Name, lines, maxPureFuncLines))
			}
		}
	})
	return faults
}

func clientImports(t *Tree) (faults []string) {
	for _, p := range t.Packages {
		if !inside(p.Path, "client") {
			continue
		}
		imports(t, p, func(at, imported string, ours bool) {
			if ours && (insideAny(imported, pure) || inside(imported, "client")) || !ours && standard(imported) {
				return
			}
			faults = append(faults, fmt.Sprintf("%s: %s imports %q", at, p.Path, imported))
		})
	}
	return faults
}

func publicImports(t *Tree) (faults []string) {
	for _, p := range t.Packages {
		if insideAny(p.Path, []string{"internal", "cmd", "plimsolltest"}) || p.isProgram() {
			continue // plimsolltest runs a real control plane for users' own tests
		}
		imports(t, p, func(at, imported string, ours bool) {
			if ours && insideAny(imported, []string{"internal", "cmd"}) {
				faults = append(faults, fmt.Sprintf("%s: public package %s imports %q", at, p.Path, imported))
			}
		})
	}
	return faults
}

// isProgram says whether a package is one that nobody can import.
func (p *Package) isProgram() bool {
	sources := p.sources()
	return len(sources) > 0 && sources[0].AST.Name.Name == "main"
}

func noImportOfCmd(t *Tree) (faults []string) {
	for _, p := range t.Packages {
		if inside(p.Path, "cmd") {
			continue
		}
		imports(t, p, func(at, imported string, ours bool) {
			if ours && inside(imported, "cmd") {
				faults = append(faults, fmt.Sprintf("%s: %s imports %q", at, p.Path, imported))
			}
		})
	}
	return faults
}

// forbid makes a check: packages in from import none of theirs and none of ours.
func forbid(from, theirs, ours []string) func(*Tree) []string {
	return func(t *Tree) (faults []string) {
		for _, p := range t.Packages {
			if !insideAny(p.Path, from) {
				continue
			}
			imports(t, p, func(at, imported string, isOurs bool) {
				forbidden := theirs
				if isOurs {
					forbidden = ours
				}
				// A package may use what lies in its own folder.
				if insideAny(imported, forbidden) && !(isOurs && insideAny(imported, from)) {
					faults = append(faults, fmt.Sprintf("%s: %s imports %q", at, p.Path, imported))
				}
			})
		}
		return faults
	}
}

// drawers lists names that say nothing.
var drawers = []string{
	"util", "utils", "common", "helper", "helpers", "model", "models", "type", "types",
	"pkg", "misc", "shared", "base", "lib",
}

func packageNames(t *Tree) (faults []string) {
	for _, p := range t.Packages {
		for _, element := range strings.Split(p.Path, "/") {
			if slices.Contains(drawers, element) {
				faults = append(faults, fmt.Sprintf("%s: a package is named %q", p.Path, element))
			}
		}
	}
	return faults
}

func packageComments(t *Tree) (faults []string) {
	for _, p := range t.Packages {
		sources := p.sources()
		if insideAny(p.Path, []string{"internal", "cmd"}) || len(sources) == 0 || p.isProgram() {
			continue
		}
		name := sources[0].AST.Name.Name
		documented := slices.ContainsFunc(sources, func(f *File) bool {
			return !f.Generated && strings.HasPrefix(f.AST.Doc.Text(), "Package "+name+" ")
		})
		if !documented {
			faults = append(faults, fmt.Sprintf("%s: no file has a comment that begins with \"Package %s \"", p.Path, name))
		}
	}
	return faults
}

func fileLength(t *Tree) (faults []string) {
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if !f.Generated && f.Lines > maxFileLines {
				faults = append(faults, fmt.Sprintf("%s: %d lines, at most %d", f.Path, f.Lines, maxFileLines))
			}
		}
	}
	return faults
}

// packageVars returns the variables declared at the top level of a package.
func packageVars(p *Package) map[string]*ast.ValueSpec { // name -> declaration
	vars := map[string]*ast.ValueSpec{}
	for _, f := range p.sources() {
		for _, decl := range f.AST.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, spec := range gen.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if name.Name != "_" {
						vars[name.Name] = spec.(*ast.ValueSpec)
					}
				}
			}
		}
	}
	return vars
}
