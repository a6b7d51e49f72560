// Command pgdispatch starts Temporal workflows for rows that applications insert into Postgres.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the Makefile. If empty, the module's version is used.
var version = ""

func main() {
	ctx, stop := interruptible()
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr))
}

// interruptible returns a context that the first SIGINT or SIGTERM cancels. The second one exits at once.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		fmt.Fprintln(os.Stderr, "pgdispatch: second signal: exiting at once; leases that are held expire by themselves")
		os.Exit(1)
	}()
	return ctx, cancel
}

// run is main without the process, for tests. It returns the exit code.
func run(ctx context.Context, args []string, lookupEnv func(string) (string, bool), stdout, stderr io.Writer) int {
	app := &app{lookupEnv: lookupEnv, stdout: stdout, stderr: stderr}
	root := app.rootCommand()
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "pgdispatch:", printableLines(redact(err).Error()))
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

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "pgdispatch",
		Short:         "Starts Temporal workflows for rows inserted into Postgres, within each workspace's limit",
		Version:       buildVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(a.commands()...)
	a.completeOutputs(root)
	for _, group := range root.Commands() {
		if group.HasSubCommands() {
			group.RunE = refuseUnknown
		}
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
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
	return fmt.Errorf("%s has no command %.80q: it has %s", group.CommandPath(), args[0], strings.Join(names, ", "))
}

// commands returns all commands except cobra's own help and completion.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		a.runCommand(), a.migrateCommand(), a.statusCommand(), a.settingsCommand(), a.enqueueCommand(), a.itemsCommand(),
		a.deadCommand(), a.executionsCommand(), a.workspacesCommand(), a.auditCommand(), a.doctorCommand(), a.versionCommand(),
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which version this is", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, "pgdispatch version", buildVersion())
			return err
		},
	}
}

// app is what all commands share.
type app struct {
	lookupEnv      func(string) (string, bool)
	stdout, stderr io.Writer
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
