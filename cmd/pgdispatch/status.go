package main

import (
	"context"
	"encoding/json"
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
			if output != "table" && output != "json" {
				return fmt.Errorf("--output is %q: it must be table or json", output)
			}
			s, err := readStatus(ctx, store, limit)
			if err != nil {
				return err
			}
			if output == "json" {
				encoder := json.NewEncoder(a.stdout)
				encoder.SetIndent("", "  ")
				return encoder.Encode(s)
			}
			return a.printStatus(s)
		}),
	}
	command.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	command.Flags().IntVar(&limit, "limit", 50, "how many workspaces to show, those with the most items first")
	addFlags(command.Flags(), []option{databaseOption})
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
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%d\n", r.ID, r.Version, r.Up.Round(time.Second), r.Workers, r.Leased, r.Watching)
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

func (a *app) settingsCommand() *cobra.Command {
	group := &cobra.Command{Use: "settings", Short: "Read or change the settings that all replicas share, live"}
	get := &cobra.Command{
		Use: "get", Short: "Show the settings", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *claim.Store, _ []string) error {
			settings, err := store.Settings(ctx)
			if err != nil {
				return err
			}
			a.printSettings(settings)
			return nil
		}),
	}
	set := &cobra.Command{
		Use: "set {max-claims N | paused true|false}", Short: "Change one setting; it holds from the next claim on", Args: cobra.ExactArgs(2),
		RunE: a.withStore(func(ctx context.Context, store *claim.Store, args []string) error {
			maxClaims, paused, err := parseSetting(args[0], args[1])
			if err != nil {
				return err
			}
			settings, err := store.SetSettings(ctx, maxClaims, paused)
			if err != nil {
				return err
			}
			a.printSettings(settings)
			return nil
		}),
	}
	for _, command := range []*cobra.Command{get, set} {
		addFlags(command.Flags(), []option{databaseOption})
		group.AddCommand(command)
	}
	return group
}

func parseSetting(name, text string) (maxClaims *int, paused *bool, err error) {
	switch name {
	case "max-claims":
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 100000 {
			return nil, nil, fmt.Errorf("max-claims is %q: it must be a whole number from 0 to 100000", text)
		}
		return &n, nil, nil
	case "paused":
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, nil, fmt.Errorf("paused is %q: it must be true or false", text)
		}
		return nil, &b, nil
	}
	return nil, nil, fmt.Errorf("there is no setting %q: use max-claims or paused", name)
}

func (a *app) printSettings(s claim.Settings) {
	fmt.Fprintf(a.stdout, "max-claims %d\npaused %t\n", s.MaxClaims, s.Paused)
}

// withStore wraps a command that reads or changes what the replicas share.
func (a *app) withStore(do func(context.Context, *claim.Store, []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		c, err := readConfig(command.Flags(), a.lookupEnv, []option{databaseOption})
		if err != nil {
			return err
		}
		pool, err := openPool(command.Context(), c.databaseURL, 1, nil)
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
	// undefined_table, invalid_schema_name
	if errors.As(err, &postgres) && (postgres.Code == "42P01" || postgres.Code == "3F000") {
		return errors.New("the schema is not there: run `pgdispatch migrate up`")
	}
	return nil
}
