// Package sql contains the statements that pgdispatch executes, and the schema: see schema.go.
//
// A folder is a room, named after the package that executes its statements; applications execute those of client. A
// file is a noun, and has sections: `-- name: heartbeat` begins a statement, and `-- function: requeue` the function of
// that name, which is created by `pgdispatch migrate up`. Above the sections a file may define templates that they
// share.
//
// The first line of a statement names the item transitions that it makes, or says that it reads or writes other data.
// The lifecycle diagram is generated from these lines, and a test runs each statement against every status.
package sql

import (
	"maps"
	"slices"
	"sync"
)

// rooms are the folders that have sections.
var rooms = []string{"claim", "notify", "complete", "request", "sweeper", "replica", "operate", "postgres", "client",
	"schema"}

// statement is a section that a replica, the command line or an application executes.
type statement struct{ room, text string }

// statements holds every statement by verb.
var statements = sync.OnceValue(func() map[string]statement {
	all := map[string]statement{}
	for _, s := range sections() {
		if s.kind == "name" {
			all[s.name] = statement{s.room, render(s.template())}
		}
	}
	return all
})

// Verbs returns the names of all statements.
func Verbs() []string { return slices.Sorted(maps.Keys(statements())) }

// Room returns the folder of the statement with that name, or "".
func Room(verb string) string { return statements()[verb].room }

// Text returns the statement with that name. It panics if there is none.
func Text(verb string) string {
	s, found := statements()[verb]
	if !found {
		panic("package sql has no statement " + verb)
	}
	return s.text
}
