package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that are handled individually.
const (
	readOnly         = "25006" // read_only_sql_transaction
	diskFull         = "53100"
	tooManyClients   = "53300" // too_many_connections
	LockNotAvailable = "55P03"
	deadlockDetected = "40P01"
	queryCanceled    = "57014"
	noPrivilege      = "42501"

	protocolViolation = "08P01"

	dataException = "22" // an SQLSTATE class
)

// remedies tell the operator what to do. The replica continues by itself once that is done.
var remedies = map[string]string{
	readOnly: "this server is read-only: DATABASE_URL must lead to the primary",
	diskFull: "the database's disk is full: free some space",
	tooManyClients: "a replica needs 12 connections: raise max_connections or the role's limit, " +
		"or close other connections",
	queryCanceled: "remove any statement_timeout of the role, the database or a pooler",
	noPrivilege: "grant the role pgdispatch_dispatcher to run, pgdispatch_enqueuer to enqueue, " +
		"pgdispatch_reader to read, or pgdispatch_operator to change",
}

// otherVersion are the SQLSTATEs of a statement that does not fit the schema or its functions.
var otherVersion = []string{
	"42703", // undefined_column
	"42725", // ambiguous_function
	"42804", // datatype_mismatch
	"42883", // undefined_function
	"42P01", // undefined_table
}

const otherVersionRemedy = "the schema or its functions are of another version: run `pgdispatch migrate up` with the " +
	"newest pgdispatch in use, or replace this one by it"

const missingRowRemedy = "a row that belongs to the schema is missing, as after a restore without data: restore the " +
	"data, too, or `drop schema pgdispatch cascade` and `pgdispatch migrate up`"

// UnexpectedError is an answer that the caller cannot use, because it has another shape than expected.
type UnexpectedError struct{ err error }

// Unexpected returns an UnexpectedError that says what is unexpected.
func Unexpected(format string, args ...any) error {
	return &UnexpectedError{fmt.Errorf(format, args...)}
}

// Error includes the remedy.
func (e *UnexpectedError) Error() string {
	return fmt.Sprintf("unexpected answer: %v: %s", e.err, otherVersionRemedy)
}

// Unwrap returns what is unexpected.
func (e *UnexpectedError) Unwrap() error { return e.err }

// HasCode reports whether err is an error of Postgres with this SQLSTATE.
func HasCode(err error, code string) bool {
	var postgres *pgconn.PgError
	return errors.As(err, &postgres) && postgres.Code == code
}

// IsOfServer reports whether err comes from Postgres or from the way to it, and not from what it answered.
func IsOfServer(err error) bool {
	var postgres *pgconn.PgError
	var connect *pgconn.ConnectError
	return errors.As(err, &postgres) || errors.As(err, &connect) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled)
}

// MayHaveCommitted reports whether statements that failed with err may have been committed: they were sent, and the
// server did not answer that they failed.
func MayHaveCommitted(err error) bool {
	var unexpected *UnexpectedError
	return err != nil && !errors.As(err, &unexpected) && !pgconn.SafeToRetry(err) &&
		!isAnswer(err) && !neverConnected(err)
}

// isAnswer reports whether err is the server's answer to a statement, which it has undone then.
func isAnswer(err error) bool {
	var postgres *pgconn.PgError
	return errors.As(err, &postgres)
}

// neverConnected reports whether there was no connection to send statements on.
func neverConnected(err error) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect)
}

// RefusesSettings reports whether a pooler refused a connection because of a setting in its start-up packet. PgBouncer
// has the same SQLSTATE for all of its errors, such as that its own login at a server has failed, which passes.
func RefusesSettings(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && refusal.Code == protocolViolation &&
		strings.Contains(refusal.Message, "unsupported startup parameter")
}

// IsForbidden reports whether Postgres rejected a statement because of a missing privilege.
func IsForbidden(err error) bool { return HasCode(err, noPrivilege) }

// TookTooLong reports whether a statement was ended by a timeout or canceled by the server.
func TookTooLong(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || HasCode(err, queryCanceled)
}

// FailedToLock reports whether a statement did not get a lock: lock_timeout passed, or a deadlock was resolved.
func FailedToLock(err error) bool {
	return HasCode(err, LockNotAvailable) || HasCode(err, deadlockDetected)
}

// unavailable are the SQLSTATEs of a server that is stopping, starting or not accepting connections, and the class of
// connection exceptions.
var unavailable = []string{"57P01", "57P02", "57P03", "08"}

// silentError says that Postgres has not answered a statement in time.
type silentError struct {
	verb    string
	timeout time.Duration
}

// Error implements error.
func (e *silentError) Error() string { return fmt.Sprintf("%s timed out after %s", e.verb, e.timeout) }

// IsSilent reports whether err says that Postgres has not answered a statement in time: because it is away, or because
// of that statement.
func IsSilent(err error) bool {
	var silent *silentError
	return errors.As(err, &silent)
}

// IsUnavailable reports whether err says that the server could not be reached, rather than something about a statement.
func IsUnavailable(err error) bool {
	var web *url.Error
	if errors.As(err, &web) { // of another server, such as the codec server
		return false
	}
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return slices.ContainsFunc(unavailable, func(code string) bool { return strings.HasPrefix(refusal.Code, code) })
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.Timeout(err) &&
		!errors.Is(err, context.DeadlineExceeded)
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
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%w: %s", err, missingRowRemedy)
	case !errors.As(err, &postgres):
		return err
	case remedies[postgres.Code] != "":
		return fmt.Errorf("%w: %s", err, remedies[postgres.Code])
	case slices.Contains(otherVersion, postgres.Code) && !IsRefused(err): // not in a user-defined function
		return fmt.Errorf("%w: %s", err, otherVersionRemedy)
	}
	return err
}

// withheld is a data exception without its message, which may contain a value of a row, such as `invalid input syntax
// for type integer: "4711"` from a user-defined trigger. Thus no value reaches logs or traces; the Postgres log has
// it. Messages of all other errors name only schema objects. withheld unwraps to the original error.
type withheld struct{ *pgconn.PgError }

func (w withheld) Error() string {
	return fmt.Sprintf("%s: Postgres rejected a value, which is not shown here; see the Postgres log (SQLSTATE %s)",
		w.Severity, w.Code)
}

func (w withheld) Unwrap() error { return w.PgError }

// withoutData hides the message of an error that may contain row data. FATAL errors concern the connection, not a row.
func withoutData(err error) error {
	var postgres *pgconn.PgError
	if errors.As(err, &postgres) && strings.HasPrefix(postgres.Code, dataException) &&
		postgres.SeverityUnlocalized != "FATAL" {
		return withheld{postgres}
	}
	return err
}

// notOfRows are the SQLSTATE classes that are not about a row: connections, transactions, locks, resources and operator
// intervention.
var notOfRows = []string{"08", "25", "28", "3D", "40", "53", "55", "57", "58"}

// IsRefused reports whether Postgres rejected a statement because of a row, so that the statement may succeed without
// that row. User-defined triggers and constraints can cause this. Retrying it immediately does not help.
func IsRefused(err error) bool {
	var postgres *pgconn.PgError
	if !errors.As(err, &postgres) || postgres.Severity == "FATAL" || len(postgres.Code) != 5 || postgres.Code == "PGD30" {
		return false
	}
	switch class := postgres.Code[:2]; {
	case slices.Contains(notOfRows, class):
		return false
	case class == "42": // a missing privilege or name: about a row only if raised inside a user-defined function
		return inForeignFunction(postgres.Where)
	}
	return true
}

// inForeignFunction reports whether the innermost function of an error's context is not pgdispatch's. The context
// begins with the innermost frame, which may be a statement of that function.
func inForeignFunction(where string) bool {
	for line := range strings.Lines(where) {
		if strings.HasPrefix(line, "PL/pgSQL function ") {
			return !strings.HasPrefix(line, "PL/pgSQL function pgdispatch.")
		}
		if strings.HasPrefix(line, "SQL function ") { // without its schema
			return true
		}
	}
	return where != ""
}

// maxErrorLength is the maximum length of a stored error in characters, which is the limit of the column.
const maxErrorLength = 2000

// Clean makes an error text safe to store, log and display: valid UTF-8 on one line, without control characters and
// bidirectional controls, and at most 2,000 characters. Postgres rejects NUL, and an item whose error cannot be stored
// could never be marked as failed.
func Clean(text string) string {
	var clean strings.Builder
	length := 0
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if length == maxErrorLength-1 {
			clean.WriteRune('…')
			break
		}
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			r = ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == utf8.RuneError:
			r = '\uFFFD'
		}
		clean.WriteRune(r)
		length++
	}
	return strings.TrimSpace(clean.String())
}
