package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// runUp implements the command up: Postgres and Temporal that run until ctx ends, and a file that points pgdispatch to
// them.
func runUp(ctx context.Context, args []string, std streams) error {
	flags := flag.NewFlagSet("devstack up", flag.ContinueOnError)
	env := flags.String("env", "bin/devstack.env", "`file` for the shell with the addresses; it is removed at the end")
	if err := parse(flags, args, std); err != nil {
		return err
	}
	cluster, err := sqltest.StartCluster(ctx,
		sqltest.Options{Settings: map[string]string{"fsync": "on", "full_page_writes": "on"}})
	if err != nil {
		return err
	}
	return errors.Join(serveUp(ctx, cluster, *env, std), cluster.Stop())
}

// serveUp starts Temporal beside a running Postgres, writes the file env, and returns when ctx or Postgres ends.
func serveUp(ctx context.Context, cluster *sqltest.Cluster, env string, std streams) (err error) {
	temporal, err := startDemoTemporal(ctx, "default", filepath.Join(cluster.Dir, "temporal.log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, temporal.Stop()) }()
	variables := fmt.Sprintf("export DATABASE_URL='%s'\nexport TEMPORAL_ADDRESS=%s TEMPORAL_NAMESPACE=default\n",
		cluster.URL("postgres"), temporal.Address)
	if err := os.WriteFile(env, []byte(variables), 0o644); err != nil {
		return fmt.Errorf("write the addresses: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(env)) }()
	_, err = fmt.Fprintf(std.out, "Postgres   %s\nTemporal   %s\nits pages  %s\n\n"+
		"In other terminals: . %s\nCtrl-C ends both and removes their data.\n",
		cluster.URL("postgres"), temporal.Address, temporal.UI, env)
	if err != nil {
		return fmt.Errorf("print the addresses: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-cluster.Exited():
		return fmt.Errorf("the Postgres server ended; the end of its log:\n%s", cluster.LogTail())
	}
}
