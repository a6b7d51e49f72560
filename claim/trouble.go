package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgdispatch/pgdispatch/sql"
)

// Planning are the settings for a Store's connections. They make Postgres plan each statement once per connection and
// use indexes. Planning a settle of a few items costs more than the settle itself, and a plan made while a table was
// small would scan the whole table later. search_path matches that of the functions, which are planned again whenever
// it changes. The settings are optional, because a pooler may reject them: without them statements are slower, with
// the same results.
var Planning = map[string]string{
	"search_path": "pg_catalog, pg_temp", "plan_cache_mode": "force_generic_plan", "jit": "off",
	"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off",
}

// LockTimeout is the lock_timeout for a Store's connections: how long a settle or a heartbeat waits for a locked row.
// Settles and heartbeats of other replicas hold their locks for milliseconds.
const LockTimeout = time.Second

// ClaimLockTimeout is the lock_timeout for connections that claim: how long a combined settle and claim waits for the
// row of an item that it settles. It is short because all other claims queue behind it. Items that it could not settle
// are settled separately, where they block no claim.
const ClaimLockTimeout = 100 * time.Millisecond

// SQLSTATEs that are handled individually.
const (
	readOnly         = "25006" // read_only_sql_transaction
	diskFull         = "53100"
	tooManyClients   = "53300" // too_many_connections
	lockNotAvailable = "55P03"
	queryCanceled    = "57014"
	noPrivilege      = "42501"

	dataException = "22" // an SQLSTATE class
)

// remedies tell the operator what to do. The replica continues by itself once that is done.
var remedies = map[string]string{
	readOnly:       "this server takes no writes: DATABASE_URL must lead to the primary",
	diskFull:       "the database's disk is full: make room",
	tooManyClients: "a replica needs 12 connections: raise max_connections or the role's limit, or end what holds the others",
	queryCanceled:  "if the role, the database or a pooler sets a statement_timeout, remove it",
	noPrivilege:    "grant the role what it needs: pgdispatch_dispatcher to run, pgdispatch_enqueuer to enqueue, pgdispatch_reader to look, pgdispatch_operator to change",
}

func hasCode(err error, code string) bool {
	var postgres *pgconn.PgError
	return errors.As(err, &postgres) && postgres.Code == code
}

// IsForbidden reports whether Postgres rejected a statement because of a missing privilege.
func IsForbidden(err error) bool { return hasCode(err, noPrivilege) }

// TookTooLong reports whether a statement was ended by a timeout or canceled by the server.
func TookTooLong(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || hasCode(err, queryCanceled)
}

// Refusal returns the message and the hint of an error that a pgdispatch SQL function raised. It returns false for all
// other errors.
func Refusal(err error) (what, remedy string, refused bool) {
	var postgres *pgconn.PgError
	if !errors.As(err, &postgres) || !strings.HasPrefix(postgres.Code, "PGD") {
		return "", "", false
	}
	return postgres.Message, postgres.Hint, true
}

// WithRemedy appends what to do about a Postgres error, if that is known.
func WithRemedy(err error) error {
	var postgres *pgconn.PgError
	if errors.As(err, &postgres) && remedies[postgres.Code] != "" {
		return fmt.Errorf("%w: %s", err, remedies[postgres.Code])
	}
	return err
}

// withheld is a data exception without its message, which may contain a value of a row, such as `invalid input syntax
// for type integer: "4711"` from a user-defined trigger. Thus no value reaches logs or traces; the Postgres log has
// it. Messages of all other errors name only schema objects. withheld unwraps to the original error.
type withheld struct{ *pgconn.PgError }

func (w withheld) Error() string {
	return fmt.Sprintf("%s: a value that is not shown here was refused: the log of Postgres has it, and where that was (SQLSTATE %s)", w.Severity, w.Code)
}

func (w withheld) Unwrap() error { return w.PgError }

// withoutData hides the message of an error that may contain row data. FATAL errors concern the connection, not a row.
func withoutData(err error) error {
	var postgres *pgconn.PgError
	if errors.As(err, &postgres) && strings.HasPrefix(postgres.Code, dataException) && postgres.SeverityUnlocalized != "FATAL" {
		return withheld{postgres}
	}
	return err
}

// aroundLocks calls do, which returns the IDs of the items it updated. If do times out on a locked row, aroundLocks
// calls it again without the locked rows: a forgotten transaction that locks one row must not cost other items their
// leases. If all rows are locked it returns an error, because a retry may succeed.
func aroundLocks[T any](ctx context.Context, s *Store, items []T, id func(T) int64, do func([]T) ([]int64, error)) ([]int64, error) {
	moved, err := do(items)
	if !hasCode(err, lockNotAvailable) {
		return moved, err
	}
	ids := make([]int64, len(items))
	for n, item := range items {
		ids[n] = id(item)
	}
	free, lookErr := s.ids(ctx, "find unlocked items", sql.Unlocked, ids)
	if lookErr != nil || len(free) == 0 {
		return nil, errors.Join(err, lookErr)
	}
	return do(slices.DeleteFunc(slices.Clone(items), func(item T) bool { return !slices.Contains(free, id(item)) }))
}
