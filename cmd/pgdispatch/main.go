// Command pgdispatch starts Temporal workflows for rows that applications insert into Postgres.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the Makefile; without it the module's own version is shown.
var version = ""

func main() {
	ctx, stop := interruptible()
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr))
}

// interruptible returns a context that the first SIGINT or SIGTERM cancels. The second ends the process at once.
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

// run is main without the process around it, so that tests can call it.
func run(ctx context.Context, args []string, lookupEnv func(string) (string, bool), stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "pgdispatch",
		Short:         "Starts Temporal workflows for rows inserted into Postgres, within each workspace's limit",
		Version:       buildVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	app := &app{lookupEnv: lookupEnv, stdout: stdout, stderr: stderr}
	root.AddCommand(app.runCommand(), app.migrateCommand(), app.statusCommand(), app.settingsCommand(), app.deadCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "pgdispatch:", redact(err))
		return 1
	}
	return 0
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
