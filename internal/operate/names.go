package operate

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// namesNear is the number of names that are compared with a misspelt one.
const namesNear = 10_000

// Names are the names that may have been meant by one that nothing has.
type Names struct {
	Same []string // those that differ by case only
	Near []string // others about as long
}

// WorkspaceNames returns the names of workspaces that may have been meant by a name that no workspace has.
func (s *Store) WorkspaceNames(ctx context.Context, name string) (Names, error) {
	return s.names(ctx, name, false, "")
}

// DefinitionNames returns the names of workflow definitions that may have been meant by a name that none has. An empty
// workspaceID looks in all workspaces.
func (s *Store) DefinitionNames(ctx context.Context, workspaceID, name string) (Names, error) {
	return s.names(ctx, name, true, workspaceID)
}

func (s *Store) names(ctx context.Context, name string, definitions bool, workspaceID string) (Names, error) {
	found, err := postgres.Values[string](ctx, s.DB, "look for similar names", sql.Text("names_near"),
		name, definitions, postgres.OrNull(workspaceID), namesNear)
	var names Names
	names.Near = slices.DeleteFunc(found, func(other string) bool {
		same := strings.EqualFold(other, name)
		if same {
			names.Same = append(names.Same, other)
		}
		return same
	})
	return names, err
}

var uuidText = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// IsUUID reports whether a text is a UUID in its usual form, with hyphens.
func IsUUID(text string) bool { return uuidText.MatchString(text) }
