package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// namespaceFlag collects the values of a repeatable flag.
type namespaceFlag []string

// String returns the flag's values, separated by commas.
func (n *namespaceFlag) String() string { return strings.Join(*n, ",") }

// Set adds a namespace if it is not already present.
func (n *namespaceFlag) Set(name string) error {
	if name == "" {
		return errors.New("empty name")
	}
	if !slices.Contains(*n, name) {
		*n = append(*n, name)
	}
	return nil
}

// readyLine is written to standard output as one line once the command is ready.
type readyLine struct {
	// Address is the frontend's host:port.
	Address string `json:"address"`
	// Namespace is the first of the namespaces.
	Namespace string `json:"namespace"`
	// UI is the web UI's URL, or empty if there is none.
	UI string `json:"ui"`
}

// runTemporal implements the command temporal: a server that runs until ctx ends or standard input is closed.
func runTemporal(ctx context.Context, args []string, std streams) error {
	var opts temporalOptions
	var namespaces namespaceFlag
	flags := flag.NewFlagSet("devstack temporal", flag.ContinueOnError)
	flags.StringVar(&opts.address, "addr", "127.0.0.1:0", "frontend `address`; port 0 takes a free one")
	flags.StringVar(&opts.database, "db", "", "SQLite `file` that survives a restart; empty: in memory")
	flags.StringVar(&opts.uiAddress, "ui-addr", "", "`address` of the web UI; port 0 takes a free one, empty: no UI")
	flags.Var(&namespaces, "namespace", "`name` of a namespace to create, may be repeated (default \"default\")")
	logLevel := flags.String("log-level", "error", "server's log `level` on standard error: debug, info, warn, error, off")
	withParent := flags.Bool("exit-with-parent", false, "stop when standard input ends")
	if err := parse(flags, args, std); err != nil {
		return err
	}
	if len(namespaces) == 0 {
		namespaces = namespaceFlag{"default"}
	}
	opts.namespaces = namespaces
	logger, err := serverLogger(*logLevel, "")
	if err != nil {
		return usageError{err}
	}
	opts.logger = logger
	if *withParent {
		var stop context.CancelFunc
		ctx, stop = untilEOF(ctx, std.in)
		defer stop()
	}
	return serveTemporal(ctx, opts, std.out)
}

// serveTemporal starts the server and its UI, prints their addresses, and stops them when ctx ends.
func serveTemporal(ctx context.Context, opts temporalOptions, out io.Writer) error {
	server, err := startTemporal(ctx, opts)
	if err != nil {
		return err
	}
	line, err := json.Marshal(readyLine{Address: server.address, Namespace: opts.namespaces[0], UI: server.ui})
	if err == nil {
		_, err = fmt.Fprintf(out, "%s\n", line)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the address: %w", err), server.stop())
	}
	<-ctx.Done()
	return server.stop()
}

// untilEOF returns a context that ends with ctx or at the end of in. The reading goroutine lives until the process
// ends, because a read of standard input cannot be cancelled.
func untilEOF(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel
}
