package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// status is the output of `pgdispatch status`.
type status struct {
	Settings shownSettings `json:"settings"`
	operate.Overview
	Concerns   []view.Concern         `json:"concerns"`
	Workspaces []operate.WorkspaceRow `json:"workspaces"`
}

func (a *App) statusCommand() *cobra.Command {
	var output, sort string
	var limit int
	var watches, minutes bool
	var interval time.Duration
	command := &cobra.Command{
		Use: "status", Short: "Show problems, totals, replicas and workspaces", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			by := operate.WorkspaceOrder(sort)
			if err := errors.Join(checkSort(by), checkWatch(watches, interval, output)); err != nil {
				return err
			}
			if watches {
				return a.watch(ctx, store, interval, by, limit)
			}
			s, err := readStatus(ctx, store, by, limit)
			if err != nil {
				return err
			}
			if output == "json" {
				if !minutes {
					s.Minutes = nil
				}
				return a.printJSON(s)
			}
			screen := view.Screen{Overview: s.Overview, Workspaces: s.Workspaces, At: time.Now().UTC()}
			_, err = fmt.Fprintln(a.Stdout, strings.Join(screen.Lines(view.Style{}), "\n"))
			return err
		}),
	}
	addOutput(command.Flags(), &output)
	addLimit(command.Flags(), &limit)
	command.Flags().StringVar(&sort, "sort", string(operate.ByOldest),
		"order of workspaces: oldest, running, failures or name")
	command.Flags().BoolVar(&watches, "watch", false, "refresh continuously until q or Ctrl-C")
	command.Flags().BoolVar(&minutes, "minutes", false, "for --output json: also each minute of the last hour")
	command.Flags().DurationVar(&interval, "interval", time.Second, "refresh interval of --watch, 200ms to 1h")
	a.complete(command, map[string]completion{"sort": fixed(string(operate.ByOldest), string(operate.ByRunning),
		string(operate.ByFailures), string(operate.ByName))})
	return command
}

func checkSort(by operate.WorkspaceOrder) error {
	switch by {
	case operate.ByOldest, operate.ByRunning, operate.ByFailures, operate.ByName:
		return nil
	}
	return fmt.Errorf("--sort is %.80q: it must be oldest, running, failures or name", by)
}

func checkWatch(watches bool, interval time.Duration, output string) error {
	switch {
	case watches && output == "json":
		return errors.New("--watch cannot be combined with --output json: call status repeatedly instead")
	case interval < 200*time.Millisecond || interval > time.Hour:
		return fmt.Errorf("--interval is %s: it must be from 200ms to 1h", interval)
	}
	return nil
}

func readStatus(ctx context.Context, store *operate.Store, by operate.WorkspaceOrder, limit int) (s status, err error) {
	settings, err := store.Settings(ctx)
	if err != nil {
		return s, err
	}
	s.Settings = showSettings(settings)
	if s.Overview, err = store.Overview(ctx); err != nil {
		return s, err
	}
	s.Concerns = view.Concerns(s.Overview)
	s.Workspaces, err = store.ListWorkspaces(ctx, "", by, nil, limit)
	return s, err
}

// PrintableLines is view.Printable for text of several lines, such as some errors.
func PrintableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}

func (a *App) settingsCommand() *cobra.Command {
	group := &cobra.Command{Use: "settings", Short: "Show or change the settings of all replicas at run time"}
	var output, who string
	get := &cobra.Command{
		Use: "get", Short: "Show the settings", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			settings, err := store.Settings(ctx)
			if err != nil {
				return err
			}
			return a.printSettings(settings, output)
		}),
	}
	set := &cobra.Command{
		Use:   "set NAME VALUE",
		Short: "Change a setting; it applies from the next claim", Args: cobra.ExactArgs(2),
		Long: "Change a setting for all replicas. It applies from the next claim.\n\n" +
			"max-claims             maximum number of items leased at once over all replicas\n" +
			"paused                 true: no items are claimed; or false\n" +
			"retention              how long finished items are kept, such as 12h or 30d; off: forever\n" +
			"dead-letter-retention  how long open dead letters are kept; off: until they are replayed or discarded\n" +
			"result-bytes           largest result to keep, in bytes, up to 65536; 0: keep no results\n" +
			"notify-ended           true: notify applications of ends on the channel pgdispatch_ended; or false",
		ValidArgsFunction: completeSetting,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
			change, err := parseSetting(args[0], args[1], who)
			if err != nil {
				return err
			}
			changed, err := change(ctx, store)
			if err != nil {
				return err
			}
			return a.printSettingsChange(changed, output)
		}),
	}
	addWho(set.Flags(), &who)
	for _, command := range []*cobra.Command{get, set} {
		addOutput(command.Flags(), &output)
		group.AddCommand(command)
	}
	return group
}

// parseSetting returns a function that changes the setting.
func parseSetting(name, text,
	who string) (func(context.Context, *operate.Store) (operate.SettingsChange, error), error) {
	switch name {
	case "max-claims", "result-bytes":
		most := map[string]int{"max-claims": 100000, "result-bytes": temporal.MaxResult}[name]
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > most {
			return nil, fmt.Errorf("%s is %q: it must be a whole number from 0 to %d", name, text, most)
		}
		return func(ctx context.Context, s *operate.Store) (operate.SettingsChange, error) {
			if name == "max-claims" {
				return s.SetSettings(ctx, &n, nil, nil, who)
			}
			return s.SetSettings(ctx, nil, nil, &n, who)
		}, nil
	case "paused", "notify-ended":
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%s is %q: it must be true or false", name, text)
		}
		return func(ctx context.Context, s *operate.Store) (operate.SettingsChange, error) {
			if name == "paused" {
				return s.SetSettings(ctx, nil, &b, nil, who)
			}
			return s.SetNotifyEnded(ctx, b, who)
		}, nil
	case "retention", "dead-letter-retention":
		keep, err := parseRetention(name, text)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, s *operate.Store) (operate.SettingsChange, error) {
			if name == "retention" {
				return s.SetRetention(ctx, keep, who)
			}
			return s.SetDeadLetterRetention(ctx, keep, who)
		}, nil
	}
	return nil, fmt.Errorf(
		"unknown setting %q: use max-claims, paused, retention, dead-letter-retention, result-bytes or notify-ended%s",
		name, didYouMean(name, settingNames))
}

// parseRetention parses a retention period. Nil means unlimited. Zero is refused because it could mean "at once" or
// "off".
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

// maxDays is about a hundred years.
const maxDays = 36500

// parseDays parses a duration, which may also be a whole number of days such as 30d.
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

// withStore wraps a command that uses the store.
func (a *App) withStore(do func(context.Context, *operate.Store, []string) error) func(*cobra.Command, []string) error {
	return a.withTarget(func(ctx context.Context, _ postgres.Target, store *operate.Store, args []string) error {
		return do(ctx, store, args)
	})
}

// withTarget wraps a command that uses the store and connections of its own.
func (a *App) withTarget(do func(context.Context, postgres.Target, *operate.Store, []string) error) func(
	*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		c, err := config.ReadVerified(command.Flags(), a.LookupEnv, config.DatabaseOptions)
		if err = errors.Join(err, checkShared(command.Flags())); err != nil {
			return err
		}
		pool, err := c.Database.OpenPool(command.Context(), 1, nil)
		if err != nil {
			return err
		}
		defer pool.Close()
		if err := do(command.Context(), c.Database, &operate.Store{DB: pool}, args); err != nil {
			return withHint(err)
		}
		return nil
	}
}

// withHint adds the remedy to an error that does not have it yet.
func withHint(err error) error {
	remedy := hint(err)
	if remedy == nil || strings.Contains(err.Error(), remedy.Error()) {
		return err
	}
	return errors.Join(err, remedy)
}

// hint returns the remedy for common errors of new users, or nil.
func hint(err error) error {
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) {
		return nil
	}
	switch {
	case refusal.Code == "42P01" || refusal.Code == "3F000": // undefined_table, invalid_schema_name
		return errors.New("the schema is missing or outdated: run `pgdispatch migrate up`")
	case refusal.Code == "42703" || refusal.Code == "42883": // undefined_column, undefined_function
		return errors.New("the schema is outdated: run `pgdispatch migrate up`")
	case strings.HasPrefix(refusal.Code, "PGD"):
		return errors.New(refusal.Hint)
	}
	return nil
}
