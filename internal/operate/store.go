// Package operate is what operators read and change: the queue's state, items, dead letters, workspaces, settings and
// the audit log. The command line, the web view, the doctor and the metrics are built on it.
package operate

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/spelling"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	maxWho    = 200
	maxReason = 500
	// CountLimit is the number of items up to which a status of a workspace is counted exactly. The result shows where it
	// was reached.
	CountLimit = 1000
	// findTimeout bounds a search through all items or dead letters.
	findTimeout = time.Minute
	// uniqueViolation is the SQLSTATE of a row that exists already.
	uniqueViolation = "23505"
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

// Moment is an absolute time or, with Ago, a duration before the database's current time. The zero value means no
// limit.
type Moment struct {
	At  *time.Time
	Ago *time.Duration
}

// ValidWho reports whether who is valid as the author of a change in the audit log: 1 to 200 characters of valid UTF-8
// without control characters.
func ValidWho(who string) bool {
	n := utf8.RuneCountInString(who)
	return n >= 1 && n <= maxWho && utf8.ValidString(who) && !strings.ContainsFunc(who, unicode.IsControl)
}

// ValidReason reports whether reason is valid as the reason for stopping a workflow, in the audit log and in Temporal:
// up to 500 characters that Clean does not change.
func ValidReason(reason string) bool {
	return utf8.RuneCountInString(reason) <= maxReason && postgres.Clean(reason) == reason
}

var uuidText = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// IsUUID reports whether a text is a UUID in its usual form, with hyphens.
func IsUUID(text string) bool { return uuidText.MatchString(text) }

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
