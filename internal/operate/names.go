package operate

import (
	"context"
	"slices"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/spelling"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Named is what has a name.
type Named string

// What has a name. A limit key is named by a limit or by a definition.
const (
	NamedWorkspace  Named = "workspace"
	NamedDefinition Named = "definition"
	NamedKey        Named = "key"
)

// namesNear is the number of names that are compared with a misspelt one.
const namesNear = 10_000

// Names are the names that may have been meant by one.
type Names struct {
	Known bool     // whether something has the name itself. The others are empty then.
	Same  []string // those that differ by case only
	Near  []string // other likely ones
}

// Names returns the names that may have been meant by one.
func (s *Store) Names(ctx context.Context, of Named, name string) (names Names, err error) {
	found, err := postgres.Values[string](ctx, s.DB, "look for similar names", sql.Text("names_near"), name, string(of),
		s.Scope, namesNear)
	if slices.Contains(found, name) {
		return Names{Known: true}, err
	}
	names.Near = spelling.Likely(name, slices.DeleteFunc(found, func(other string) bool {
		same := strings.EqualFold(other, name)
		if same {
			names.Same = append(names.Same, other)
		}
		return same
	}))
	return names, err
}
