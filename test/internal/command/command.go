// Package command holds what the main functions of the harnesses share.
package command

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

// Main calls do with the command-line arguments and ends the process with its exit code. SIGINT and SIGTERM cancel the
// context.
func Main(do func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := do(ctx, os.Args[1:])
	stop()
	os.Exit(exitCode(err, os.Stderr))
}

// exitCode prints err and returns its exit code. Package flag has already printed the help for flag.ErrHelp.
func exitCode(err error, stderr io.Writer) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		return 2
	}
	_, _ = fmt.Fprintln(stderr, err)
	return 1
}
