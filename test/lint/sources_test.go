// Package lint_test checks what the repository's text says: which package imports which, what comments and pages name,
// and that the pages and the files of deploy/ agree with the code. It runs nothing of the product. `make lint` runs it.
package lint_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// module is the product's module.
const module = "github.com/pgdispatch/pgdispatch"

// The tests name files from the root of the repository on.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// read returns the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(path)).In(t))
}

// glob returns the files with these patterns.
func glob(t *testing.T, patterns ...string) (paths []string) {
	t.Helper()
	for _, pattern := range patterns {
		found := must.Get(filepath.Glob(pattern)).In(t)
		require.NotEmpty(t, found, pattern)
		paths = append(paths, found...)
	}
	return paths
}

// goList returns the lines that the go command prints of packages of the product's module.
func goList(t *testing.T, format string, args ...string) []string {
	t.Helper()
	out := must.Get(exec.Command("go", append([]string{"list", "-f", format}, args...)...).Output()).In(t)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// source is a Go file.
type source struct {
	set  *token.FileSet
	ast  *ast.File
	text string
}

// parsed are all Go files of all modules, by path.
var parsed = sync.OnceValues(func() (map[string]source, error) {
	files := map[string]source{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments)
		files[filepath.ToSlash(path)] = source{set, file, string(text)}
		return err
	})
	return files, err
})

// sources returns all Go files of all modules, by path.
func sources(t *testing.T) map[string]source {
	t.Helper()
	return must.Get(parsed()).In(t)
}

// isTest reports whether a file has tests.
func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

// withoutTests returns the Go files of all modules that have no tests, apart from those of these folders.
func withoutTests(t *testing.T, folders ...string) map[string]source {
	t.Helper()
	files := maps.Clone(sources(t))
	maps.DeleteFunc(files, func(path string, _ source) bool { return isTest(path) || below(path, folders...) })
	return files
}

// below reports whether a file is in one of the folders.
func below(path string, folders ...string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return strings.HasPrefix(path, folder+"/") })
}
