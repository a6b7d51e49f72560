package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

func (a *App) migrateCommand() *cobra.Command {
	group := &cobra.Command{Use: "migrate", Short: "Migrate the schema pgdispatch up or down, or show its version"}
	group.AddCommand(a.migrateUpCommand(), a.migrateDownCommand(), a.migrateStatusCommand(), a.migrateAdoptCommand())
	return group
}

func (a *App) migrateUpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "up", Short: "Apply missing migrations and changed functions; safe to repeat and to run concurrently",
		Args: cobra.NoArgs,
		RunE: a.withDatabase(func(command *cobra.Command, conn *pgx.Conn) error {
			return a.migrateTo(command, conn, migrate.Newest())
		}),
	}
}

func (a *App) migrateDownCommand() *cobra.Command {
	var to int32
	var yes bool
	down := &cobra.Command{
		Use: "down", Short: "Revert migrations and delete the data in their tables", Args: cobra.NoArgs,
		RunE: a.withDatabase(func(command *cobra.Command, conn *pgx.Conn) error {
			state, err := migrate.Status(command.Context(), conn)
			if err != nil {
				return err
			}
			if err := state.Err(); err != nil {
				return err
			}
			target := to
			if !command.Flags().Changed("to") {
				target = max(state.Current-1, 0)
			}
			if target < 0 || target > state.Current {
				return fmt.Errorf("--to is %d: it must be between 0 and %d, the schema's current version", target, state.Current)
			}
			if !yes {
				return fmt.Errorf("migrating down from version %d to %d deletes data: repeat the command with --yes", state.Current,
					target)
			}
			return a.migrateTo(command, conn, target)
		}),
	}
	down.Flags().Int32Var(&to, "to", 0, "target version; 0 removes every table (default: one version down)")
	down.Flags().BoolVar(&yes, "yes", false, "confirm the deletion of data")
	return down
}

func (a *App) migrateAdoptCommand() *cobra.Command {
	return a.changes(&cobra.Command{
		Use: "adopt", Short: "Let replicas work with a database that was copied or moved", Args: cobra.NoArgs,
		Long: "Let replicas work with a database that was copied or moved. They wait for this, because a copy beside the\n" +
			"original would start the same workflows. Stop the original's replicas first.",
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			from, err := store.AdoptDatabase(ctx, a.who)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Stdout, "replicas work with this database from now on; it was bound to %s\n",
				cmp.Or(view.Printable(from), "none"))
			return err
		}),
	})
}

func (a *App) migrateStatusCommand() *cobra.Command {
	status := &cobra.Command{
		Use: "status", Short: "Show which migrations are applied; exits with 1 if migrations are missing or functions are " +
			"outdated", Args: cobra.NoArgs,
		RunE: a.withDatabase(func(command *cobra.Command, conn *pgx.Conn) error {
			state, err := migrate.Status(command.Context(), conn)
			if err != nil {
				return err
			}
			if state.BeforeBaseline > 0 {
				return state.Err()
			}
			if err := a.printMigrations(state); err != nil {
				return err
			}
			return incomplete(state)
		}),
	}

	return a.reads(status)
}

// incomplete returns an error if `migrate up` has anything left to do.
func incomplete(state migrate.State) error {
	switch {
	case state.Current < state.Newest:
		return errors.New("migrations are missing: run `pgdispatch migrate up`")
	case len(state.Outdated) > 0:
		return errors.New("functions are outdated: run `pgdispatch migrate up`")
	case len(state.Damaged) > 0:
		return errors.New("functions or triggers are damaged: run `pgdispatch migrate up`")
	}
	return nil
}

// printMigrations lists all migrations and the outdated functions.
func (a *App) printMigrations(state migrate.State) error {
	type migration struct {
		Name    string `json:"name"`
		Applied bool   `json:"applied"`
		word    string
	}
	var all []migration
	for n, name := range state.Names {
		applied := int32(n) < state.Current
		all = append(all, migration{name, applied, map[bool]string{true: "applied", false: "missing"}[applied]})
	}
	for _, name := range state.Outdated {
		all = append(all, migration{name, false, "outdated"})
	}
	for _, name := range state.Damaged {
		all = append(all, migration{name, false, "damaged"})
	}
	if a.output == "json" {
		return a.printJSON(all)
	}
	for _, m := range all {
		fmt.Fprintln(a.Stdout, m.word, m.Name)
	}
	return nil
}

func (a *App) migrateTo(command *cobra.Command, conn *pgx.Conn, version int32) error {
	steps, functions, triggers := 0, 0, 0
	err := migrate.To(command.Context(), conn, version, func(step migrate.Step) {
		steps++
		switch {
		case step.Direction != "replace":
			fmt.Fprintln(a.Stdout, step.Direction, step.Name)
		case step.Name == "triggers":
			triggers++
		default:
			functions++
		}
	})
	if functions > 0 {
		fmt.Fprintf(a.Stdout, "applied %d %s\n", functions,
			map[bool]string{true: "function", false: "functions"}[functions == 1])
	}
	if triggers > 0 {
		fmt.Fprintln(a.Stdout, "applied triggers")
	}
	if err == nil && steps == 0 {
		fmt.Fprintf(a.Stdout, "nothing to do: the schema is at version %d\n", version)
	}
	return err
}

// warn prints a warning from the server, with its hint.
func (a *App) warn(notice *pgconn.Notice) {
	fmt.Fprintf(a.Stderr, "warning: %s\n", view.Printable(notice.Message))
	if notice.Hint != "" {
		fmt.Fprintf(a.Stderr, "  %s\n", view.Printable(notice.Hint))
	}
}

// withDatabase wraps a command that needs one connection.
func (a *App) withDatabase(do func(*cobra.Command, *pgx.Conn) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, _ []string) error {
		c, err := config.ReadVerified(command.Flags(), a.LookupEnv, config.DatabaseOptions)
		if err = errors.Join(err, checkShared(command.Flags())); err != nil {
			return err
		}
		conn, err := c.Database.ConnectForCommand(command.Context(), a.warn)
		if postgres.IsUnfit(err) {
			return postgres.Redact(err)
		}
		if err != nil {
			return fmt.Errorf("connect to Postgres (set DATABASE_URL or --database-url, or libpq's PG* variables): %w",
				postgres.Redact(err))
		}
		defer conn.Close(command.Context())
		return do(command, conn)
	}
}
