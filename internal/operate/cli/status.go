package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Settings map[string]any `json:"settings"`
	operate.Overview
	Concerns   []view.Concern         `json:"concerns"`
	Workspaces []operate.WorkspaceRow `json:"workspaces"`
}

func (a *App) statusCommand() *cobra.Command {
	var sort string
	var watches, minutes bool
	var interval time.Duration
	command := &cobra.Command{
		Use: "status", Short: "Show problems, totals, replicas and workspaces", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			by := operate.WorkspaceOrder(sort)
			if err := errors.Join(checkSort(by), checkWatch(watches, interval, a.output)); err != nil {
				return err
			}
			if watches {
				return a.watch(ctx, store, interval, by)
			}
			s, err := readStatus(ctx, store, by, a.limit)
			if err != nil {
				return err
			}
			if a.output == "json" {
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
	command.Flags().StringVar(&sort, "sort", string(operate.ByOldest),
		"order of workspaces: oldest, running, failures or name")
	command.Flags().BoolVar(&watches, "watch", false, "refresh continuously until q or Ctrl-C")
	command.Flags().BoolVar(&minutes, "minutes", false, "for --output json: also each minute of the last hour")
	command.Flags().DurationVar(&interval, "interval", time.Second, "refresh interval of --watch, 200ms to 1h")
	a.complete(command, map[string]completion{"sort": fixed(string(operate.ByOldest), string(operate.ByRunning),
		string(operate.ByFailures), string(operate.ByName))})
	return a.lists(command)
}

func checkSort(by operate.WorkspaceOrder) error {
	if slices.Contains(orders, by) {
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
	get := &cobra.Command{
		Use: "get", Short: "Show the settings", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			settings, err := store.Settings(ctx)
			if err != nil {
				return err
			}
			return a.printSettings(settings)
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
			"workflow-id-bytes      longest workflow ID that an item may name, in bytes, from 1 to 1000\n" +
			"notify-ended           true: notify applications of ends on the channel pgdispatch_ended; or false",
		ValidArgsFunction: completeSetting,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
			patch, err := parseSetting(args[0], args[1])
			if err != nil {
				return err
			}
			changed, err := store.ChangeSettings(ctx, patch, a.who)
			if err != nil {
				return err
			}
			return a.printSettingsChange(changed)
		}),
	}
	group.AddCommand(a.reads(get), a.changes(set))
	return group
}

// parseSetting returns the patch that changes a setting.
func parseSetting(name, text string) (operate.Patch, error) {
	var value any
	switch name {
	case "max-claims", "result-bytes", "workflow-id-bytes":
		within := map[string][2]int{"max-claims": {0, operate.MaxMaxClaims}, "result-bytes": {0, temporal.MaxResult},
			"workflow-id-bytes": {1, 1000}}[name]
		n, err := strconv.Atoi(text)
		if value = n; err != nil || n < within[0] || n > within[1] {
			return nil, fmt.Errorf("%s is %q: it must be a whole number from %d to %d", name, text, within[0], within[1])
		}
	case "paused", "notify-ended":
		is, err := strconv.ParseBool(text)
		if value = is; err != nil {
			return nil, fmt.Errorf("%s is %q: it must be true or false", name, text)
		}
	case "retention", "dead-letter-retention":
		if text == "off" {
			break // nil keeps them forever
		}
		// Zero is refused because it could mean "at once" or "off".
		keep, err := parseDays(text)
		if value = keep.String(); err != nil || keep < time.Minute {
			return nil, fmt.Errorf("%s is %q: it must be off, or from 1m to %dd, such as 12h or 30d", name, text, maxDays)
		}
	default:
		return nil, fmt.Errorf("unknown setting %q: use max-claims, paused, retention, dead-letter-retention, result-bytes, "+
			"workflow-id-bytes or notify-ended%s", name, didYouMean(name, settingNames))
	}
	return operate.Patch{strings.ReplaceAll(name, "-", "_"): value}, nil
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
		pool, err := c.Database.OpenForCommand(command.Context())
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
