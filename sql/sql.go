// Package sql contains the statements that pgdispatch executes, one per file, and the files of the schema: see
// schema.go. Both include files of parts as templates.
//
// The folder of a statement is named after the package that executes it; applications execute those of client. The
// first line of its file names the item transitions that it makes, or says that it reads or writes other data. The
// lifecycle diagram is generated from these lines, and a test runs each statement against every status.
package sql

import (
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

// statements holds the text of every statement by verb.
var statements = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, owner := range []string{"claim", "notify", "complete", "sweeper", "replica", "operate", "client"} {
		for _, file := range glob(owner + "/*.sql") {
			all[strings.TrimSuffix(path.Base(file), ".sql")] = render(file)
		}
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
