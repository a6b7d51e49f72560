package main

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

func (a *app) migrateCommand() *cobra.Command {
	group := &cobra.Command{Use: "migrate", Short: "Bring the schema pgdispatch up or down, or say where it is"}

	up := &cobra.Command{
		Use: "up", Short: "Apply the migrations that are missing; safe to repeat, and from several places at once", Args: cobra.NoArgs,
		RunE: a.withDatabase(func(command *cobra.Command, conn *pgx.Conn) error {
			return a.migrateTo(command, conn, migrate.Newest())
		}),
	}

	var to int32
	var yes bool
	down := &cobra.Command{
		Use: "down", Short: "Undo migrations, with the data in the tables they made", Args: cobra.NoArgs,
		RunE: a.withDatabase(func(command *cobra.Command, conn *pgx.Conn) error {
			state, err := migrate.Status(command.Context(), conn)
			if err != nil {
				return err
			}
			target := to
			if !command.Flags().Changed("to") {
				target = max(state.Current-1, 0)
			}
			if target < 0 || target > state.Current {
				return fmt.Errorf("--to is %d: it must be between 0 and %d, the version the schema is at", target, state.Current)
			}
			if !yes {
				return fmt.Errorf("going down from version %d to %d deletes data: repeat it with --yes", state.Current, target)
			}
			return a.migrateTo(command, conn, target)
		}),
	}
	down.Flags().Int32Var(&to, "to", 0, "version to go down to; 0 removes every table (default: one version down)")
	down.Flags().BoolVar(&yes, "yes", false, "confirm that data is deleted")

	var output string
	status := &cobra.Command{
		Use: "status", Short: "Say which migrations are applied; exits with 1 where some are missing", Args: cobra.NoArgs,
		RunE: a.withDatabase(func(command *cobra.Command, conn *pgx.Conn) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			state, err := migrate.Status(command.Context(), conn)
			if err != nil {
				return err
			}
			if err := a.printMigrations(state, output); err != nil {
				return err
			}
			if state.Current < state.Newest {
				return errors.New("migrations are missing: run `pgdispatch migrate up`")
			}
			return nil
		}),
	}

	addOutput(status.Flags(), &output)
	for _, command := range []*cobra.Command{up, down, status} {
		addFlags(command.Flags(), databaseOptions)
		group.AddCommand(command)
	}
	return group
}

func (a *app) printMigrations(state migrate.State, output string) error {
	type migration struct {
		Name    string `json:"name"`
		Applied bool   `json:"applied"`
	}
	all := make([]migration, len(state.Names))
	for n, name := range state.Names {
		all[n] = migration{name, int32(n) < state.Current}
	}
	if output == "json" {
		return a.printJSON(all)
	}
	for _, m := range all {
		fmt.Fprintln(a.stdout, map[bool]string{true: "applied", false: "missing"}[m.Applied], m.Name)
	}
	return nil
}

func (a *app) migrateTo(command *cobra.Command, conn *pgx.Conn, version int32) error {
	steps := 0
	err := migrate.To(command.Context(), conn, version, func(step migrate.Step) {
		steps++
		fmt.Fprintln(a.stdout, step.Direction, step.Name)
	})
	if err == nil && steps == 0 {
		fmt.Fprintf(a.stdout, "nothing to do: the schema is at version %d\n", version)
	}
	return err
}

// warn shows what the server warns of, and what to do about it.
func (a *app) warn(notice *pgconn.Notice) {
	fmt.Fprintf(a.stderr, "warning: %s\n", printable(notice.Message))
	if notice.Hint != "" {
		fmt.Fprintf(a.stderr, "  %s\n", printable(notice.Hint))
	}
}

// withDatabase wraps a command that needs one connection.
func (a *app) withDatabase(do func(*cobra.Command, *pgx.Conn) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, _ []string) error {
		c, err := a.readVerified(command, databaseOptions)
		if err != nil {
			return err
		}
		conn, err := connectOnce(command.Context(), c, a.warn)
		if err != nil {
			return err
		}
		defer conn.Close(command.Context())
		return do(command, conn)
	}
}
