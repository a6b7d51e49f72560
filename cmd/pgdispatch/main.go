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
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate/cli"
)

// version is set by the Makefile. If empty, the module's version is used.
var version = ""

func main() {
	ctx, stop := interruptible()
	defer stop()
	os.Exit(surroundings{os.LookupEnv, os.Environ(), os.Stdout, os.Stderr}.run(ctx, os.Args[1:]))
}

// sameSignal is how long signals after the first count as the same one: a supervisor and a shell may both pass one on.
const sameSignal = time.Second

// interruptible returns a context that the first SIGINT or SIGTERM cancels. A second one exits at once.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		interrupt(signals, cancel)
		fmt.Fprintln(os.Stderr, "pgdispatch: second signal: exiting immediately; held leases will expire")
		os.Exit(1)
	}()
	return ctx, cancel
}

// interrupt calls cancel at the first signal and returns at the second.
func interrupt(signals <-chan os.Signal, cancel func()) {
	<-signals
	cancel()
	for first := time.Now(); time.Since(first) < sameSignal; {
		<-signals
	}
}

// surroundings are what a process has been given.
type surroundings struct {
	lookupEnv      func(string) (string, bool)
	environment    []string // searched for misspelt variables
	stdout, stderr io.Writer
}

// run is main without the process. It returns the exit code.
func (s surroundings) run(ctx context.Context, args []string) int {
	app := &cli.App{LookupEnv: s.lookupEnv, Environment: s.environment, Stdout: s.stdout, Stderr: s.stderr,
		Version: buildVersion()}
	return app.Run(ctx, args, runCommand(s))
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
