// Package sql contains the statements that pgdispatch executes, one per file, and the files of the schema: see
// schema.go.
//
// The folder of a statement is named after the package that executes it; applications execute those of client. The
// first line of its file names the item transitions that it makes, or says that it reads or writes other data. The
// lifecycle diagram is generated from these lines, and a test runs each statement against every status.
package sql

import (
	"embed"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

//go:embed claim notify complete sweeper replica operate client
var verbs embed.FS

// statements holds the text of every statement by verb.
var statements = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	files, err := fs.Glob(verbs, "*/*.sql")
	if err != nil {
		panic(err) // unreachable: the pattern is a constant
	}
	for _, file := range files {
		text, err := verbs.ReadFile(file)
		if err != nil {
			panic(err) // unreachable: the folders are embedded
		}
		all[strings.TrimSuffix(path.Base(file), ".sql")] = string(text)
	}
	return all
})

// Verbs returns the names of all statements: their file names without folder and extension.
func Verbs() []string { return slices.Sorted(maps.Keys(statements())) }

// Text returns the statement with that name. It panics if there is none.
func Text(verb string) string {
	text, found := statements()[verb]
	if !found {
		panic("package sql has no statement " + verb)
	}
	return text
}
