// Package operate is what operators read and change: the queue's state, items, dead letters, workspaces, settings and
// the audit log. The command line, the web view, the doctor and the metrics are built on it.
package operate

import (
	"errors"
	"slices"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// Store executes the operators' statements. Those that change something also write to the audit log.
type Store struct {
	DB postgres.Conn
	// Scope has the IDs of the only workspaces that methods for the web view read and change: those of others do not
	// exist for them. Nil are all workspaces, an empty Scope is none.
	Scope []string
}

// ErrAll is why a store within some workspaces makes no change that applies to all.
var ErrAll = errors.New("this applies to all workspaces")

// Within returns the store of these workspaces, as far as they are in scope. Nil are all in scope.
func (s *Store) Within(workspaces []string) *Store {
	return &Store{DB: s.DB, Scope: s.scoped(workspaces)}
}

// scoped returns those of the workspaces that are in scope. Nil are all in scope.
func (s *Store) scoped(workspaces []string) []string {
	switch {
	case workspaces == nil:
		return s.Scope
	case s.Scope == nil:
		return workspaces
	}
	return slices.DeleteFunc(slices.Clone(workspaces), func(id string) bool {
		return !slices.Contains(s.Scope, strings.ToLower(id))
	})
}
