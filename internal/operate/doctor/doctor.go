// Package doctor checks Postgres, the schema, Temporal and their settings, and says what each Finding means and how to
// correct it.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/local"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

// Severity is the Severity of a Finding.
type Severity string

const (
	Fine Severity = "ok"
	// warning means that it works, but not as well or as safely as it could.
	Warning Severity = "warning"
	// problem means that it does not work or breaks a guarantee.
	Problem Severity = "error"
	// unknown means that the check could not be made.
	Unknown Severity = "unknown"
)

// finding is the result of one check.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Finding  string   `json:"finding"`
	Meaning  string   `json:"meaning,omitempty"`
	Remedy   string   `json:"remedy,omitempty"`
}

func ok(check, format string, args ...any) Finding {
	return Finding{Check: check, Severity: Fine, Finding: fmt.Sprintf(format, args...)}
}

// judged returns the finding if something is bad, and otherwise that the check is fine.
func judged(bad bool, f Finding, fine string, args ...any) Finding {
	if bad {
		return f
	}
	return ok(f.Check, fine, args...)
}

// Examine makes all checks. A check that cannot be made yields a Finding, too.
func Examine(ctx context.Context, c config.Config) []Finding {
	var queues []operate.TaskQueue
	findings, database := examineDatabase(ctx, c, &queues)
	connection, namespace, err := c.Temporal.Dial(slog.New(slog.DiscardHandler))
	if errors.Is(err, local.ErrUnverified) {
		return append(findings, refusedUnverified("temporal", err))
	}
	if err != nil {
		return append(findings,
			Finding{"temporal", Unknown, postgres.Redact(err).Error(),
				"Temporal's configuration cannot be read, so Temporal was not checked.",
				"Correct the TEMPORAL_* variables or the profile file; `temporal config list` shows them."})
	}
	defer connection.Close()
	findings = append(findings, examineTemporal(ctx, connection.WorkflowService(), namespace, queues, database)...)
	findings = append(findings, checkCodec(ctx, c, namespace)...)
	return append(findings, checkCallbackURL(ctx, c)...)
}

// examineDatabase makes the checks that need Postgres, and stores the task queues for the Temporal checks. It returns
// false if it did not get as far as the task queues.
func examineDatabase(ctx context.Context, c config.Config, queues *[]operate.TaskQueue) ([]Finding, bool) {
	pool, err := c.Database.OpenPool(ctx, 1, nil)
	if errors.Is(err, local.ErrUnverified) {
		return []Finding{refusedUnverified("database", err)}, false
	}
	if err != nil {
		return []Finding{unreachable(err)}, false
	}
	defer pool.Close()
	store := &operate.Store{DB: pool}
	before := time.Now()
	state, err := readSchema(ctx, pool)
	var tooOld *postgres.TooOldError
	var encoding *postgres.EncodingError
	if errors.As(err, &encoding) {
		return []Finding{wrongEncoding(encoding.Encoding)}, false
	}
	if errors.As(err, &tooOld) {
		return []Finding{{versionCheck, Problem, tooOld.Version, "pgdispatch uses features that this version lacks.",
			fmt.Sprintf("Upgrade the server to Postgres %d or newer.", postgres.OldestMajor)}}, false
	}
	var empty *migrate.NoDataError
	if errors.As(err, &empty) {
		return []Finding{{"migrations", Problem, empty.Table + " is empty: the schema was restored without its data",
			"Items cannot be enqueued, and replicas do not start.",
			"Restore the data, too, or `drop schema pgdispatch cascade` and `pgdispatch migrate up`."}}, false
	}
	if err != nil {
		return []Finding{unreachable(err)}, false
	}
	before, trip := time.Now(), time.Since(before)
	server, err := store.Server(ctx)
	if err != nil {
		return []Finding{unreachable(err)}, false
	}
	trip = min(trip, time.Since(before))
	findings := []Finding{ok("database", "reachable as role %s", view.Printable(server.Role))}
	findings = append(findings, checkEncryption(pool.Config().ConnConfig))
	findings = append(findings, checkServer(server)...)
	findings = append(findings, checkClock(server.Now.Sub(before.Add(trip/2)), trip))
	findings = append(findings, checkList(ctx, "settings of roles", store.Overrides, checkOverrides))
	findings = append(findings, checkList(ctx, "vacuum horizon", func(ctx context.Context) ([]operate.Pin, error) {
		return store.Pins(ctx, longPin, manyBehind)
	},
		func(pins []operate.Pin) Finding { return checkPins(pins, server.SeesAll) }))
	findings = append(findings, checkListen(ctx, c, store), checkPrimaries(c.Database.Primaries(ctx)))
	schema := checkSchema(state)
	findings = append(findings, schema)
	if state.Current != state.Newest {
		return findings, false // the tables are unknown in another version
	}
	findings = append(findings,
		checkRole(ctx, store),
		checkList(ctx, "row security", store.Fitness, checkRowSecurity),
		checkList(ctx, "installation", store.Fitness, checkInstallation),
		checkList(ctx, "schema objects", store.BadObjects, checkObjects),
		checkList(ctx, "sequences", store.SequencesBehind, checkSequences),
		checkList(ctx, "replicas", store.KnownReplicas, checkReplicas),
		checkList(ctx, "outage", store.Replicas, checkOutage),
		checkList(ctx, "starts", depthOf(store), checkStarts),
		checkList(ctx, "executions", depthOf(store), checkMissing),
		checkList(ctx, "signals", depthOf(store), checkSignals),
		checkLimits(ctx, store),
		checkList(ctx, "definitions", store.TaskQueues, func(found []operate.TaskQueue) Finding {
			*queues = found
			return checkDefinitions(found)
		}))
	return findings, true
}

// depthOf reads how many items are in which state.
func depthOf(store *operate.Store) func(context.Context) ([]operate.Depth, error) {
	return func(ctx context.Context) ([]operate.Depth, error) {
		depth, err := store.QueueDepth(ctx)
		return []operate.Depth{depth}, err
	}
}

func readSchema(ctx context.Context, pool *pgxpool.Pool) (migrate.State, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return migrate.State{}, fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Release()
	return migrate.Status(ctx, conn.Conn())
}

func unreachable(err error) Finding {
	return Finding{"database", Unknown, postgres.Redact(err).Error(),
		"The database cannot be checked, and replicas cannot work.",
		"Set DATABASE_URL, --database-url " +
			"or libpq's PG* variables; check that the server runs, that this machine may connect (pg_hba.conf, firewall, TLS) " +
			"and that the role may log in and read schema pgdispatch."}
}

// checkList reads what a check needs and judges it. If the read fails, the finding is unknown.
func checkList[T any](ctx context.Context, check string, read func(context.Context) ([]T, error),
	judge func([]T) Finding) Finding {
	found, err := read(ctx)
	if err != nil {
		return Finding{check, Unknown, postgres.Redact(err).Error(), "The check could not be made.",
			"If the role lacks the privilege, run doctor as the schema's owner, or grant pg_monitor to the role."}
	}
	return judge(found)
}
