// Command devstack starts what pgdispatch needs around it on a developer's machine: a real Temporal server inside this
// process, Postgres, a worker, and a demonstration of the whole system. It is a separate module, so that the server's
// dependencies do not become pgdispatch's. Do not use it in production: nothing that it starts has a password, and
// everything listens on 127.0.0.1 only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `devstack starts what pgdispatch needs on this machine, or a demonstration.

  devstack up         Postgres and Temporal on 127.0.0.1, with empty data, until Ctrl-C
  devstack worker     a worker that executes every workflow and activity of a task queue, and prints it
  devstack temporal   a Temporal server on 127.0.0.1, in memory unless --db says otherwise
  devstack demo       Postgres, Temporal, a worker, two pgdispatch replicas and 202 items

Each has --help.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the process at once. The processes that it started die with it.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

// streams are the standard streams of the process.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run is the program without process setup. It returns the exit status.
func run(ctx context.Context, args []string, std streams) int {
	if len(args) == 0 {
		_, _ = fmt.Fprint(std.err, usage)
		return 2
	}
	var err error
	switch args[0] {
	case "up":
		err = runUp(ctx, args[1:], std)
	case "worker":
		err = runWorker(ctx, args[1:], std)
	case "temporal":
		err = runTemporal(ctx, args[1:], std)
	case "demo":
		err = runDemo(ctx, args[1:], std)
	case "help", "-h", "--help":
		_, _ = fmt.Fprint(std.out, usage)
	default:
		_, _ = fmt.Fprint(std.err, usage)
		err = usageError{fmt.Errorf("unknown command %q", args[0])}
	}
	var bad usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &bad):
		_, _ = fmt.Fprintln(std.err, "devstack:", err)
		return 2
	default:
		_, _ = fmt.Fprintln(std.err, "devstack:", err)
		return 1
	}
}

// usageError is a mistake in the command line, as opposed to a runtime error.
type usageError struct{ error }

// Unwrap returns the underlying error.
func (e usageError) Unwrap() error { return e.error }

// parse parses the flags of a command that takes no arguments.
func parse(flags *flag.FlagSet, args []string, std streams) error {
	flags.SetOutput(std.err)
	if err := flags.Parse(args); err != nil {
		return usageError{err}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	return nil
}
