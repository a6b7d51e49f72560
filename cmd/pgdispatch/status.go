package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/claim"
)

// status is what `pgdispatch status` shows.
type status struct {
	Settings   claim.Settings              `json:"settings"`
	Replicas   []claim.Replica             `json:"replicas"`
	Workspaces []claim.WorkspaceStatistics `json:"workspaces"`
}

func (a *app) statusCommand() *cobra.Command {
	var output string
	var limit int
	command := &cobra.Command{
		Use: "status", Short: "Show settings, replicas and workspaces as they are now", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *claim.Store, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			s, err := readStatus(ctx, store, limit)
			if err != nil {
				return err
			}
			if output == "json" {
				return a.printJSON(s)
			}
			return a.printStatus(s)
		}),
	}
	addOutput(command.Flags(), &output)
	command.Flags().IntVar(&limit, "limit", 50, "how many workspaces to show, those with the most items first")
	addFlags(command.Flags(), databaseOptions)
	return command
}

func readStatus(ctx context.Context, store *claim.Store, limit int) (s status, err error) {
	if s.Settings, err = store.Settings(ctx); err != nil {
		return s, err
	}
	if s.Replicas, err = store.Replicas(ctx); err != nil {
		return s, err
	}
	s.Workspaces, err = store.WorkspaceStatistics(ctx, limit)
	return s, err
}

func (a *app) printStatus(s status) error {
	state := "running"
	if s.Settings.Paused {
		state = "PAUSED"
	}
	fmt.Fprintf(a.stdout, "%s, at most %d items leased at once\n\n", state, s.Settings.MaxClaims)
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REPLICA\tVERSION\tUP\tWORKERS\tLEASED\tWATCHING")
	for _, r := range s.Replicas {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\n", printable(r.ID), printable(r.Version), r.Up.Round(time.Second), r.Workers, r.Leased, r.Watching)
	}
	if len(s.Replicas) == 0 {
		fmt.Fprintln(table, "none: start one with `pgdispatch run`")
	}
	fmt.Fprintln(table, "\nWORKSPACE\tPLAN\tWAITING\tCLAIMED\tRUNNING/LIMIT\tOLDEST WAITING\t")
	for _, w := range s.Workspaces {
		oldest, paused := "-", ""
		if w.OldestWaiting != nil {
			oldest = w.OldestWaiting.Round(time.Millisecond).String()
		}
		if w.Paused {
			paused = "PAUSED"
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d/%d\t%s\t%s\n", printable(w.Name), w.Plan, w.Waiting, w.Claimed,
			w.Claimed+w.Running, w.MaxConcurrentWorkflows, oldest, paused)
	}
	if len(s.Workspaces) == 0 {
		fmt.Fprintln(table, "none: insert one into pgdispatch.workspaces")
	}
	return table.Flush()
}

// printable keeps a name from moving the terminal's cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}

// printableLines is printable for a text of several lines, such as some errors are.
func printableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}

func (a *app) settingsCommand() *cobra.Command {
	group := &cobra.Command{Use: "settings", Short: "Read or change the settings that all replicas share, live"}
	var output, who string
	get := &cobra.Command{
		Use: "get", Short: "Show the settings", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *claim.Store, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			settings, err := store.Settings(ctx)
			if err != nil {
				return err
			}
			return a.printSettings(settings, output)
		}),
	}
	set := &cobra.Command{
		Use:   "set {max-claims N | paused true|false | retention TIME|off | dead-letter-retention TIME|off}",
		Short: "Change one setting; it holds from the next claim on", Args: cobra.ExactArgs(2),
		Long: "Change one setting, for all replicas.\n\n" +
			"max-claims             how many items may be leased at once, over all replicas\n" +
			"paused                 true: nothing is claimed\n" +
			"retention              how long finished items are kept, such as 12h or 30d; off: for ever\n" +
			"dead-letter-retention  how long dead letters are kept that nobody has seen to; off: until somebody has",
		ValidArgsFunction: completeSetting,
		RunE: a.withStore(func(ctx context.Context, store *claim.Store, args []string) error {
			if err := errors.Join(checkOutput(output), checkWho(who)); err != nil {
				return err
			}
			change, err := parseSetting(args[0], args[1], who)
			if err != nil {
				return err
			}
			settings, err := change(ctx, store)
			if err != nil {
				return err
			}
			return a.printSettings(settings, output)
		}),
	}
	addWho(set.Flags(), &who)
	for _, command := range []*cobra.Command{get, set} {
		addOutput(command.Flags(), &output)
		addFlags(command.Flags(), databaseOptions)
		group.AddCommand(command)
	}
	return group
}

// parseSetting returns what changes the setting.
func parseSetting(name, text, who string) (func(context.Context, *claim.Store) (claim.Settings, error), error) {
	switch name {
	case "max-claims":
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 100000 {
			return nil, fmt.Errorf("max-claims is %q: it must be a whole number from 0 to 100000", text)
		}
		return func(ctx context.Context, s *claim.Store) (claim.Settings, error) {
			return s.SetSettings(ctx, &n, nil, who)
		}, nil
	case "paused":
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("paused is %q: it must be true or false", text)
		}
		return func(ctx context.Context, s *claim.Store) (claim.Settings, error) {
			return s.SetSettings(ctx, nil, &b, who)
		}, nil
	case "retention", "dead-letter-retention":
		keep, err := parseRetention(name, text)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *claim.Store) (claim.Settings, error) {
			if name == "retention" {
				return s.SetRetention(ctx, keep, who)
			}
			return s.SetDeadLetterRetention(ctx, keep, who)
		}, nil
	}
	return nil, fmt.Errorf("there is no setting %q: use max-claims, paused, retention or dead-letter-retention", name)
}

// parseRetention reads how long something is kept; nil: for ever. Zero is refused: it is "at once" to some and "off" to others.
func parseRetention(name, text string) (*time.Duration, error) {
	if text == "off" {
		return nil, nil
	}
	keep, err := parseDays(text)
	if err != nil || keep < time.Minute {
		return nil, fmt.Errorf("%s is %q: it must be off, or from 1m to %dd, such as 12h or 30d", name, text, maxDays)
	}
	return &keep, nil
}

// maxDays is a hundred years, less a few days.
const maxDays = 36500

// parseDays reads a duration, in days too.
func parseDays(text string) (time.Duration, error) {
	if number, ok := strings.CutSuffix(text, "d"); ok {
		days, err := strconv.ParseUint(number, 10, 32)
		if err != nil || days > maxDays {
			return 0, fmt.Errorf("it must be a whole number of days, up to %d", maxDays)
		}
		return time.Duration(days) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d > maxDays*24*time.Hour {
		err = fmt.Errorf("it must be up to %d days", maxDays)
	}
	return d, err
}

func showRetention(keep *time.Duration) string {
	switch {
	case keep == nil:
		return "off"
	case *keep%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", *keep/(24*time.Hour))
	}
	return keep.String()
}

// shownSettings are the settings in the words of `settings set`.
type shownSettings struct {
	MaxClaims           int    `json:"max_claims"`
	Paused              bool   `json:"paused"`
	Retention           string `json:"retention"`
	DeadLetterRetention string `json:"dead_letter_retention"`
}

func (a *app) printSettings(s claim.Settings, output string) error {
	shown := shownSettings{s.MaxClaims, s.Paused, showRetention(s.Retention), showRetention(s.DeadLetterRetention)}
	if output == "json" {
		return a.printJSON(shown)
	}
	_, err := fmt.Fprintf(a.stdout, "max-claims %d\npaused %t\nretention %s\ndead-letter-retention %s\n",
		shown.MaxClaims, shown.Paused, shown.Retention, shown.DeadLetterRetention)
	return err
}

// withStore wraps a command that reads or changes what the replicas share.
func (a *app) withStore(do func(context.Context, *claim.Store, []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		c, err := readConfig(command.Flags(), a.lookupEnv, databaseOptions)
		if err != nil {
			return err
		}
		pool, err := openPool(command.Context(), c, 1, nil)
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := do(command.Context(), &claim.Store{Pool: pool}, args); err != nil {
			return errors.Join(err, hint(err))
		}
		return nil
	}
}

// hint says what to do about the error that a new user meets first.
func hint(err error) error {
	var postgres *pgconn.PgError
	if !errors.As(err, &postgres) {
		return nil
	}
	switch {
	case postgres.Code == "42P01" || postgres.Code == "3F000": // undefined_table, invalid_schema_name
		return errors.New("the schema is not there, or an old one: run `pgdispatch migrate up`")
	case postgres.Code == "42703" || postgres.Code == "42883": // undefined_column, undefined_function
		return errors.New("the schema is an old one: run `pgdispatch migrate up`")
	case strings.HasPrefix(postgres.Code, "PGD"):
		return errors.New(postgres.Hint)
	}
	return nil
}
