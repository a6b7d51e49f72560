// Package cli is the operators' command line: all commands of pgdispatch but `run`.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// App is what all commands share.
type App struct {
	LookupEnv      func(string) (string, bool)
	Environment    []string // searched for misspelt variables
	Stdout, Stderr io.Writer
	Version        string
	shared
}

// Run executes the command that args name: one of Commands or of others. It prints the error, if there is one, and
// returns the exit code.
func (a *App) Run(ctx context.Context, args []string, others ...*cobra.Command) int {
	root := a.Root(others...)
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(a.Stderr, "pgdispatch:", PrintableLines(postgres.Redact(err).Error()))
		return codeOf(err)
	}
	return 0
}

// coded is an error with an exit code.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// codeOf returns the exit code for an error: 1 unless it is coded.
func codeOf(err error) int {
	var c coded
	if errors.As(err, &c) {
		return c.code
	}
	return 1
}

// Root returns the command tree.
func (a *App) Root(others ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "pgdispatch",
		Short:         "Starts Temporal workflows for rows inserted into Postgres, within each workspace's limit",
		Version:       a.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentPreRun = a.warnUnknown
	root.AddCommand(others...)
	for _, command := range a.commands() {
		addDatabase(command)
		root.AddCommand(command)
	}
	root.AddCommand(a.versionCommand())
	a.completeShared(root)
	for _, group := range root.Commands() {
		if group.HasSubCommands() {
			group.RunE = refuseUnknown
		}
	}
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	return root
}

// refuseUnknown runs a command group that was called without one of its commands. Cobra would accept an unknown name,
// show the help and report success.
func refuseUnknown(group *cobra.Command, args []string) error {
	if len(args) == 0 {
		return group.Help()
	}
	names := []string{}
	for _, command := range group.Commands() {
		names = append(names, command.Name())
	}
	return fmt.Errorf("%s has no command %.80q; its commands are %s", group.CommandPath(), args[0],
		strings.Join(names, ", "))
}

// commands returns all commands but `run`, `version`, and cobra's own help and completion.
func (a *App) commands() []*cobra.Command {
	return []*cobra.Command{
		a.migrateCommand(), a.statusCommand(), a.settingsCommand(), a.enqueueCommand(), a.itemsCommand(),
		a.deadCommand(), a.executionsCommand(), a.workspacesCommand(), a.limitsCommand(), a.definitionsCommand(),
		a.auditCommand(), a.doctorCommand(),
	}
}

// addDatabase adds the flags of the database to the commands that have none yet.
func addDatabase(command *cobra.Command) {
	for _, child := range command.Commands() {
		addDatabase(child)
	}
	if !command.HasSubCommands() && command.Flags().Lookup("database-url") == nil {
		config.AddFlags(command.Flags(), config.DatabaseOptions)
	}
}

func (a *App) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.Stdout, "pgdispatch version", a.Version)
			return err
		},
	}
}

// warnUnknown warns of misspelt variables before a command that reads settings. `run` logs them itself.
func (a *App) warnUnknown(command *cobra.Command, _ []string) {
	readsSettings := command.Flags().Lookup("config") != nil
	if readsSettings && command.Name() != "run" {
		WarnUnknown(a.Stderr, config.UnknownVariables(a.Environment))
	}
}

// WarnUnknown writes a line for each variable.
func WarnUnknown(to io.Writer, unknown []config.UnknownVariable) {
	for _, u := range unknown {
		fmt.Fprintln(to, "pgdispatch: warning:", view.Printable(u.String()))
	}
}
