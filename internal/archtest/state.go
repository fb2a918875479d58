package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
)

// pureState looks for what would be state outside a value: init functions, exported
// variables that are no errors, and variables that some function writes to or hands out
// by address. Aliases escape it; what it finds is wrong, what it does not find may be too.
func pureState(t *Tree) (faults []string) {
	for _, p := range t.Packages {
		if !insideAny(p.Path, pure) {
			continue
		}
		vars := packageVars(p)
		for name, spec := range vars {
			if ast.IsExported(name) && !isError(spec) {
				faults = append(faults, fmt.Sprintf("%s: exported variable %s can be written to by anybody", t.at(spec.Pos()), name))
			}
		}
		for _, f := range p.sources() {
			for _, decl := range f.AST.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok {
					faults = append(faults, writes(t, fn, vars)...)
				}
			}
		}
	}
	return faults
}

// isError says whether every value of a declaration is errors.New(...) or fmt.Errorf(...).
func isError(spec *ast.ValueSpec) bool {
	for _, value := range spec.Values {
		call, ok := value.(*ast.CallExpr)
		if !ok {
			return false
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "New" && sel.Sel.Name != "Errorf" {
			return false
		}
	}
	return len(spec.Values) > 0
}

// writes returns the places in fn that write to a package's variable.
func writes(t *Tree, fn *ast.FuncDecl, vars map[string]*ast.ValueSpec) (faults []string) {
	if fn.Recv == nil && fn.Name.Name == "init" {
		faults = append(faults, t.at(fn.Pos())+": has an init function")
	}
	if fn.Body == nil {
		return faults
	}
	local := localNames(fn)
	flag := func(target ast.Expr) {
		name := root(target)
		if _, isVar := vars[name]; isVar && !local[name] {
			faults = append(faults, fmt.Sprintf("%s: %s writes to the package's variable %s", t.at(target.Pos()), fn.Name.Name, name))
		}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, target := range n.Lhs {
					flag(target)
				}
			}
		case *ast.IncDecStmt:
			flag(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				flag(n.X)
			}
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && (name.Name == "delete" || name.Name == "clear") {
				flag(n.Args[0])
			}
		}
		return true
	})
	return faults
}

// localNames returns every name that a function declares anywhere in itself: one that
// hides a package's variable in a part of it is taken to hide it everywhere.
func localNames(fn *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	add := func(expr ast.Expr) {
		if ident, ok := expr.(*ast.Ident); ok {
			names[ident.Name] = true
		}
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				add(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, target := range n.Lhs {
					add(target)
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key)
				add(n.Value)
			}
		}
		return true
	})
	return names
}

// root returns the name at the bottom of x, x.f, x[i], *x and (x).
func root(expr ast.Expr) string {
	for {
		switch e := expr.(type) {
		case *ast.Ident:
			return e.Name
		case *ast.SelectorExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.StarExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		default:
			return ""
		}
	}
}
