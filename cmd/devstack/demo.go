package main

import (
	"context"
	"flag"
	"time"

	"github.com/pgdispatch/pgdispatch/cmd/devstack/internal/demo"
)

// runDemo implements the command demo: everything together, on this machine.
func runDemo(ctx context.Context, args []string, std streams) error {
	opts := demo.Options{Out: std.out, StartTemporal: startDemoTemporal}
	flags := flag.NewFlagSet("devstack demo", flag.ContinueOnError)
	flags.StringVar(&opts.Pgdispatch, "pgdispatch", "bin/pgdispatch", "`binary` to demonstrate")
	flags.StringVar(&opts.Data, "data", "testdata/demo", "`directory` of workspaces.sql and enqueue.sql")
	flags.IntVar(&opts.Replicas, "replicas", 2, "how many replicas to run")
	flags.BoolVar(&opts.Once, "once", false, "end after the checks, with a status that says how they went")
	flags.DurationVar(&opts.Timeout, "timeout", 3*time.Minute, "how long the items may take to end")
	if err := parse(flags, args, std); err != nil {
		return err
	}
	return demo.Run(ctx, opts)
}

// startDemoTemporal starts an in-memory server in this process, with its web interface.
func startDemoTemporal(ctx context.Context, namespace, logFile string) (demo.Temporal, error) {
	logger, err := serverLogger("error", logFile)
	if err != nil {
		return demo.Temporal{}, err
	}
	server, err := startTemporal(ctx, temporalOptions{
		address:    "127.0.0.1:0",
		namespaces: []string{namespace},
		uiAddress:  "127.0.0.1:0",
		logger:     logger,
	})
	if err != nil {
		return demo.Temporal{}, err
	}
	return demo.Temporal{Address: server.address, UI: server.ui, Stop: server.stop}, nil
}
