package lint_test

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// maxColumns is how wide a line of code may be.
const maxColumns = 120

func TestCode_FitsTheScreen(t *testing.T) {
	t.Parallel()
	for path, file := range sources(t) {
		for n, line := range strings.Split(file.text, "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), maxColumns, "%s: line %d", path, n+1)
		}
	}
}

func TestEverythingExportedIsDocumented(t *testing.T) {
	t.Parallel()
	for path, file := range withoutTests(t) {
		for _, declaration := range file.ast.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				require.False(t, d.Name.IsExported() && d.Doc == nil && isExportedReceiver(d), "%s: %s has no comment", path,
					d.Name.Name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if typeSpec, ok := spec.(*ast.TypeSpec); ok {
						require.False(t, typeSpec.Name.IsExported() && d.Doc == nil && typeSpec.Doc == nil, "%s: %s has no comment", path,
							typeSpec.Name.Name)
					}
				}
			}
		}
	}
}

func isExportedReceiver(function *ast.FuncDecl) bool {
	if function.Recv == nil {
		return true
	}
	expr := function.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	name, ok := expr.(*ast.Ident)
	return ok && name.IsExported()
}

func TestNoTestSleepsOutsideABubble(t *testing.T) {
	t.Parallel()
	files := sources(t)
	bubbles := map[string]bool{} // packages whose loops are tested in synctest bubbles
	for path, file := range files {
		if slices.ContainsFunc(file.ast.Imports, func(i *ast.ImportSpec) bool {
			return i.Path.Value == `"testing/synctest"`
		}) {
			bubbles[filepath.Dir(path)] = true
		}
	}
	for path, file := range files {
		if !isTest(path) || path == "test/lint/code_test.go" {
			continue
		}
		if !bubbles[filepath.Dir(path)] {
			require.NotContains(t, file.text, "time.Sleep(", path)
		}
		require.NotRegexp(t, `\bt\.Skipf?\(`, file.text, path)
	}
}

// reference matches pkg.Name and pkg.Type.Member in a comment.
var reference = regexp.MustCompile(`\b([a-z]+)\.([A-Za-z]\w*)(?:\.([A-Za-z]\w*))?\b`)

// fileTypes are the ends of file names, which look like references.
var fileTypes = map[string]bool{"go": true, "sql": true, "md": true, "html": true, "com": true, "json": true,
	"golden": true}

// declarations returns what a package declares, and the members of its types as Type.Member.
func declarations(files []*ast.File) map[string]bool {
	names := map[string]bool{}
	for _, file := range files {
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[d.Name.Name] = true
					continue
				}
				ast.Inspect(d.Recv.List[0].Type, func(node ast.Node) bool {
					if receiver, ok := node.(*ast.Ident); ok {
						names[receiver.Name+"."+d.Name.Name] = true
					}
					return true
				})
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					declare(names, spec)
				}
			}
		}
	}
	return names
}

func declare(names map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			names[name.Name] = true
		}
	case *ast.TypeSpec:
		names[s.Name.Name] = true
		ast.Inspect(s.Type, func(node ast.Node) bool {
			if field, ok := node.(*ast.Field); ok {
				for _, name := range field.Names {
					names[s.Name.Name+"."+name.Name] = true
				}
			}
			return true
		})
	}
}

// A comment that names something of another package must not outlive it.
func TestWhatCommentsNameExists(t *testing.T) {
	t.Parallel()
	packages := map[string][]*ast.File{}
	for path, file := range sources(t) {
		if !below(path, "test", "cmd/devstack") {
			packages[file.ast.Name.Name] = append(packages[file.ast.Name.Name], file.ast)
		}
	}
	delete(packages, "sql") // also the name of SQL files in prose
	known := map[string]map[string]bool{}
	for name, files := range packages {
		known[name] = declarations(files)
	}
	var missing []string
	for path, file := range sources(t) {
		for _, group := range file.ast.Comments {
			for _, found := range reference.FindAllStringSubmatch(group.Text(), -1) {
				names := known[found[1]]
				if names == nil || fileTypes[found[2]] || strings.Contains(filepath.Base(path), found[1]+".") {
					continue
				}
				if !names[found[2]] || found[3] != "" && !fileTypes[found[3]] && !names[found[2]+"."+found[3]] {
					missing = append(missing, path+": "+found[0])
				}
			}
		}
	}
	require.Empty(t, missing, "comments name what does not exist")
}
