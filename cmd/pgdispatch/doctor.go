package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

// Exit codes of doctor.
const (
	exitProblems = 1 // a problem was found
	exitUnknown  = 2 // a check could not be made, and no problem was found
)

// severity is the severity of a finding.
type severity string

const (
	fine severity = "ok"
	// warning means that it works, but not as well or as safely as it could.
	warning severity = "warning"
	// problem means that it does not work or breaks a guarantee.
	problem severity = "error"
	// unknown means that the check could not be made.
	unknown severity = "unknown"
)

// finding is the result of one check.
type finding struct {
	Check    string   `json:"check"`
	Severity severity `json:"severity"`
	Finding  string   `json:"finding"`
	Meaning  string   `json:"meaning,omitempty"`
	Remedy   string   `json:"remedy,omitempty"`
}

func ok(check, format string, args ...any) finding {
	return finding{Check: check, Severity: fine, Finding: fmt.Sprintf(format, args...)}
}

// doctorOptions are the options of `run` that concern the addresses of Postgres, Temporal and the callback server.
var doctorOptions = slices.DeleteFunc(slices.Clone(runOptions), func(o option) bool {
	return !slices.Contains([]string{"database-url", "allow-insecure-database", "temporal-address", "temporal-namespace", "allow-insecure-temporal", "listen", "callback-url"}, o.flag)
})

func (a *app) doctorCommand() *cobra.Command {
	var output string
	var strict bool
	var timeout time.Duration
	command := &cobra.Command{
		Use: "doctor", Short: "Find out what is wrong with Postgres, Temporal and the schema, and what to do about it", Args: cobra.NoArgs,
		Long: "Find out what is wrong with Postgres, Temporal and the schema, and what to do about it. Nothing is changed. Give it what\n" +
			"`pgdispatch run` is given, on the machine and with the role that it runs with.\n\n" +
			"Exit code 0: fine, or warnings only. 1: at least one error was found. 2: no error was found, but something could not be\n" +
			"found out, or doctor was called wrongly.",
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := readConfig(command.Flags(), a.lookupEnv, doctorOptions)
			if err = errors.Join(err, checkOutput(output)); err != nil {
				return coded{err, exitUnknown}
			}
			ctx, cancel := context.WithTimeoutCause(command.Context(), timeout, fmt.Errorf("doctor gave up after %s: see --timeout", timeout))
			defer cancel()
			findings := examine(ctx, c)
			if err := a.printFindings(findings, output); err != nil {
				return coded{err, exitUnknown}
			}
			return verdict(findings, strict)
		},
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return coded{err, exitUnknown} })
	command.Flags().BoolVar(&strict, "strict", false, "take a warning for an error")
	command.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long all checks may take together")
	addOutput(command.Flags(), &output)
	addFlags(command.Flags(), doctorOptions)
	return command
}

// verdict returns nil if everything is fine, otherwise an error with the exit code.
func verdict(findings []finding, strict bool) error {
	n := countBySeverity(findings)
	switch {
	case n[problem] > 0 || strict && n[warning] > 0:
		return coded{errors.New("problems were found: each says what to do"), exitProblems}
	case n[unknown] > 0:
		return coded{errors.New("not everything could be found out"), exitUnknown}
	}
	return nil
}

func countBySeverity(findings []finding) map[severity]int {
	n := map[severity]int{}
	for _, f := range findings {
		n[f.Severity]++
	}
	return n
}

// examine makes all checks. A check that cannot be made yields a finding, too.
func examine(ctx context.Context, c config) []finding {
	var queues []claim.TaskQueue
	findings, database := examineDatabase(ctx, c, &queues)
	temporal, namespace, err := temporalClient(c, slog.New(slog.DiscardHandler))
	if errors.Is(err, errUnverified) {
		return append(findings, refusedUnverified("temporal", err))
	}
	if err != nil {
		return append(findings, finding{"temporal", unknown, redact(err).Error(), "Temporal's configuration cannot be read, so nothing is known of it.",
			"Correct the TEMPORAL_* variables or the profile file; `temporal config list` shows them."})
	}
	defer temporal.Close()
	findings = append(findings, examineTemporal(ctx, temporal.WorkflowService(), namespace, queues, database)...)
	return append(findings, checkCallbackURL(ctx, c)...)
}

// examineDatabase makes the checks that need Postgres, and stores the task queues for the Temporal checks. It returns
// false if it did not get as far as the task queues.
func examineDatabase(ctx context.Context, c config, queues *[]claim.TaskQueue) ([]finding, bool) {
	pool, err := openPool(ctx, c, 1, nil)
	if errors.Is(err, errUnverified) {
		return []finding{refusedUnverified("database", err)}, false
	}
	if err != nil {
		return []finding{unreachable(err)}, false
	}
	defer pool.Close()
	store := &claim.Store{Pool: pool}
	before := time.Now()
	state, err := readSchema(ctx, pool)
	if err != nil {
		return []finding{unreachable(err)}, false
	}
	before, trip := time.Now(), time.Since(before)
	server, err := store.Server(ctx)
	if err != nil {
		return []finding{unreachable(err)}, false
	}
	trip = min(trip, time.Since(before))
	findings := []finding{ok("database", "reachable as role %s", printable(server.Role))}
	findings = append(findings, checkEncryption(pool.Config().ConnConfig))
	findings = append(findings, checkServer(server)...)
	findings = append(findings, checkClock(server.Now.Sub(before.Add(trip/2)), trip))
	findings = append(findings, checkList(ctx, "settings of roles", store.Overrides, checkOverrides))
	findings = append(findings, checkList(ctx, "vacuum horizon", func(ctx context.Context) ([]claim.Pin, error) { return store.Pins(ctx, longPin) },
		func(pins []claim.Pin) finding { return checkPins(pins, server.SeesAll) }))
	findings = append(findings, checkListen(ctx, c, store))
	schema := checkSchema(state)
	findings = append(findings, schema)
	if state.Current != state.Newest {
		return findings, false // the tables are unknown in another version
	}
	findings = append(findings,
		checkRole(ctx, store),
		checkList(ctx, "triggers", store.BadTriggers, checkTriggers),
		checkList(ctx, "tables", store.BadTables, checkTables),
		checkList(ctx, "replicas", store.KnownReplicas, checkReplicas),
		checkList(ctx, "definitions", store.TaskQueues, func(found []claim.TaskQueue) finding {
			*queues = found
			return checkDefinitions(found)
		}))
	return findings, true
}

func readSchema(ctx context.Context, pool *pgxpool.Pool) (migrate.State, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return migrate.State{}, fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Release()
	return migrate.Status(ctx, conn.Conn())
}

func unreachable(err error) finding {
	return finding{"database", unknown, redact(err).Error(), "Nothing of the database can be checked, and no replica could work.",
		"Set DATABASE_URL, --database-url or libpq's PG* variables; see that the server runs, that this machine may connect (pg_hba.conf, firewall, TLS) and that the role may log in and read schema pgdispatch."}
}

// checkList reads what a check needs and judges it. If the read fails, the finding is unknown.
func checkList[T any](ctx context.Context, check string, read func(context.Context) ([]T, error), judge func([]T) finding) finding {
	found, err := read(ctx)
	if err != nil {
		return finding{check, unknown, redact(err).Error(), "This could not be found out.", "Where the role may not read it: run doctor as the owner of the schema, or grant pg_monitor to the role."}
	}
	return judge(found)
}

func (a *app) printFindings(findings []finding, output string) error {
	n := countBySeverity(findings)
	if output == "json" {
		return a.printJSON(struct {
			Findings []finding        `json:"findings"`
			Summary  map[severity]int `json:"summary"`
		}{findings, n})
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(table, "%s\t%s\t%s\n", strings.ToUpper(string(f.Severity)), f.Check, printable(f.Finding))
		if f.Severity != fine {
			fmt.Fprintf(table, "\t\t  meaning: %s\n\t\t  remedy: %s\n", f.Meaning, f.Remedy)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "\n%d fine, %d warnings, %d errors, %d could not be found out\n", n[fine], n[warning], n[problem], n[unknown])
	return err
}
