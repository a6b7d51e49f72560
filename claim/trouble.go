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

// Planning are the settings that a Store's connections are to have so that each statement is planned once a connection, for its indexes:
// planning a settle of a few items anew costs more than the settle, and a plan that was made while a table was small would read all of it
// when it is not. The search path is that of the functions, which would be planned anew each time that it is another than the last time.
// A pooler may refuse them: without them, statements are slower and do the same.
var Planning = map[string]string{
	"search_path": "pg_catalog, pg_temp", "plan_cache_mode": "force_generic_plan", "jit": "off",
	"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off",
}

// LockTimeout is the lock_timeout that a Store's connections are to have: how long a settle or a heartbeat waits for a row
// that somebody else has locked. Others' own settles and heartbeats take milliseconds.
const LockTimeout = time.Second

// ClaimLockTimeout is the lock_timeout of those among them that claim: how long a claim waits for the row of an item that it
// settles in passing. Everybody's items wait behind it; what it could not settle waits with nobody behind it.
const ClaimLockTimeout = 100 * time.Millisecond

// SQLSTATEs that are told apart.
const (
	readOnly         = "25006" // read_only_sql_transaction
	diskFull         = "53100"
	tooManyClients   = "53300" // too_many_connections
	lockNotAvailable = "55P03"
	queryCanceled    = "57014"
	noPrivilege      = "42501"

	dataException = "22" // a class of them
)

// remedies say what a person can do. Whatever it is, the replica goes on by itself as soon as it is done.
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

// IsForbidden says whether Postgres refused something for want of a privilege.
func IsForbidden(err error) bool { return hasCode(err, noPrivilege) }

// TookTooLong says whether a statement was ended by its timeout.
func TookTooLong(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || hasCode(err, queryCanceled)
}

// Refusal is what a function of pgdispatch said where it refused something, and what to do about it; false: none did.
func Refusal(err error) (what, remedy string, refused bool) {
	var postgres *pgconn.PgError
	if !errors.As(err, &postgres) || !strings.HasPrefix(postgres.Code, "PGD") {
		return "", "", false
	}
	return postgres.Message, postgres.Hint, true
}

// WithRemedy says what to do about an error of Postgres, where that is known.
func WithRemedy(err error) error {
	var postgres *pgconn.PgError
	if errors.As(err, &postgres) && remedies[postgres.Code] != "" {
		return fmt.Errorf("%w: %s", err, remedies[postgres.Code])
	}
	return err
}

// withheld is a data exception of Postgres: its message may have a value of a row, such as `invalid input syntax for type integer:
// "4711"` from a trigger of one's own. It is left out, and so is in no log and no trace; the server's log has it. Messages of all
// other errors name things of the schema only. It unwraps to the error as it came.
type withheld struct{ *pgconn.PgError }

func (w withheld) Error() string {
	return fmt.Sprintf("%s: a value that is not shown here was refused: the log of Postgres has it, and where that was (SQLSTATE %s)", w.Severity, w.Code)
}

func (w withheld) Unwrap() error { return w.PgError }

// withoutData withholds what an error may say of a row. A FATAL one says what is wrong with a connection, and has seen no row.
func withoutData(err error) error {
	var postgres *pgconn.PgError
	if errors.As(err, &postgres) && strings.HasPrefix(postgres.Code, dataException) && postgres.SeverityUnlocalized != "FATAL" {
		return withheld{postgres}
	}
	return err
}

// aroundLocks moves items by do, which returns the IDs that it moved. Where a row is locked for longer than LockTimeout, it moves
// the others without it: one that somebody forgot in a transaction must not cost its neighbours their leases. Where all are
// locked it returns an error, as they may be free the next time.
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
