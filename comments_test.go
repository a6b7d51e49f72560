package pgdispatch_test

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
	sources := parse(t, true)
	for path, file := range sources {
		if !strings.HasPrefix(path, "test/") && !strings.HasPrefix(path, "cmd/devstack") {
			packages[file.ast.Name.Name] = append(packages[file.ast.Name.Name], file.ast)
		}
	}
	delete(packages, "sql") // also the name of SQL files in prose
	known := map[string]map[string]bool{}
	for name, files := range packages {
		known[name] = declarations(files)
	}
	var missing []string
	for path, file := range sources {
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
