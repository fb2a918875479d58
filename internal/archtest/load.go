// Package archtest holds the rules that keep the code in its shape: which package may
// import which, what the pure core may not do, how long things may get. It decides
// nothing at run time; its tests fail the build.
//
// Each rule carries its reason, and a test proves of each that it can fail.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Tree is the sources of one module.
type Tree struct {
	Module   string // module path
	Packages []*Package
	fset     *token.FileSet
}

// Package is one folder of sources.
type Package struct {
	Path  string // below the module's root; "" is the root
	Files []*File
}

// File is one parsed source file.
type File struct {
	Path      string
	AST       *ast.File
	Lines     int
	Generated bool
	Test      bool
}

// Load parses every Go file below fsys, whatever its build tags, except in testdata,
// in hidden folders and in modules of their own.
func Load(fsys fs.FS, module string) (*Tree, error) {
	tree := &Tree{Module: module, fset: token.NewFileSet()}
	byPath := map[string]*Package{} // folder -> package
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skipDir(fsys, name, d)
		case path.Ext(name) != ".go":
			return nil
		}
		file, err := tree.parse(fsys, name)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(path.Dir(name), ".")
		if byPath[dir] == nil {
			byPath[dir] = &Package{Path: dir}
			tree.Packages = append(tree.Packages, byPath[dir])
		}
		byPath[dir].Files = append(byPath[dir].Files, file)
		return nil
	})
	return tree, err
}

func skipDir(fsys fs.FS, name string, d fs.DirEntry) error {
	if name == "." {
		return nil
	}
	base := d.Name()
	if base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func (t *Tree) parse(fsys fs.FS, name string) (*File, error) {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	parsed, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return &File{
		Path:      name,
		AST:       parsed,
		Lines:     strings.Count(string(src), "\n"),
		Generated: ast.IsGenerated(parsed),
		Test:      strings.HasSuffix(name, "_test.go"),
	}, nil
}

// sources returns the files that are part of the build: no tests.
func (p *Package) sources() []*File {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f *File) bool { return f.Test })
}

// at prints a position as file:line.
func (t *Tree) at(pos token.Pos) string {
	p := t.fset.Position(pos)
	return p.Filename + ":" + strconv.Itoa(p.Line)
}

// inside says whether a package's path is dir or below it.
func inside(pkg, dir string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// insideAny says whether a package's path is one of dirs or below it.
func insideAny(pkg string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return inside(pkg, dir) })
}
