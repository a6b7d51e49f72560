// Package demo demonstrates pgdispatch on a developer's machine. It runs a private Postgres, a Temporal server, a
// worker and replicas of pgdispatch, inserts a few hundred items with psql, and shows pgdispatch's own live view while
// they run. At the end it checks pgdispatch's guarantees.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Options configures the demonstration.
type Options struct {
	// Pgdispatch is the path of the binary to demonstrate.
	Pgdispatch string
	// Data is the directory that holds workspaces.sql and enqueue.sql.
	Data string
	// Replicas is the number of pgdispatch processes.
	Replicas int
	// Once ends the demonstration after its checks.
	Once bool
	// Timeout bounds the time until every item has ended, so that a broken system does not run forever.
	Timeout time.Duration
	// StartTemporal starts a Temporal server with one namespace that logs to a file.
	StartTemporal func(ctx context.Context, namespace, logFile string) (Temporal, error)
	// Out receives the output.
	Out io.Writer
}

// Temporal is a running Temporal server.
type Temporal struct {
	// Address is the frontend's host:port.
	Address string
	// UI is the web interface's URL, or empty if there is none.
	UI string
	// Stop ends the server.
	Stop func() error
}

// readInterval is how often the counts are read.
const readInterval = 200 * time.Millisecond

// errUnfinished is returned if a demonstration with --once is interrupted.
var errUnfinished = errors.New("interrupted before every item had ended")

// Run demonstrates pgdispatch until all items have ended, and without Options.Once until ctx ends. It always removes
// its processes and files, whatever it returns.
func Run(ctx context.Context, opts Options) error {
	if err := opts.resolve(); err != nil {
		return err
	}
	p := &progress{out: opts.Out, started: time.Now()}
	stack, err := startStack(ctx, opts, p)
	if err == nil {
		err = (&demo{opts: opts, progress: p, stack: stack}).run(ctx)
	}
	if ctx.Err() != nil || errors.Is(err, errLeft) {
		err = interrupted(err, opts.Once)
		p.printf("\nstopping; once more Ctrl-C ends it at once")
	}
	return errors.Join(err, stack.stop())
}

// resolve validates the options before anything is started.
func (o *Options) resolve() error {
	path, err := exec.LookPath(o.Pgdispatch)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return fmt.Errorf("find pgdispatch (make build builds it): %w", err)
	}
	o.Pgdispatch = path
	for _, name := range []string{workspacesFile, enqueueFile} {
		if _, err := os.Stat(filepath.Join(o.Data, name)); err != nil {
			return fmt.Errorf("find the demonstration's data (run in the repository's root, or set --data): %w", err)
		}
	}
	if o.Replicas < 1 {
		return fmt.Errorf("--replicas is %d, it must be at least 1", o.Replicas)
	}
	return nil
}

// interrupted maps the error of an interrupted run to the result of the command. A Ctrl-C is no error unless the
// checks were requested with --once.
func interrupted(err error, once bool) error {
	if once {
		return errUnfinished
	}
	if errors.Is(err, errChecks) {
		return err
	}
	return nil
}

// errChecks is returned if a check fails.
var errChecks = errors.New("not everything is as it must be, see the lines with WRONG")

// demo runs on a started stack.
type demo struct {
	opts     Options
	progress *progress
	stack    *stack
}

// run inserts the items, waits until all have ended, and checks the result. Without --once it then continues until ctx
// ends, and prints the counts when they change.
func (d *demo) run(ctx context.Context) error {
	d.progress.printf("\n%d replicas with %s workers each; psql -f %s inserts the items",
		d.opts.Replicas, replicaWorkers, filepath.Join(d.opts.Data, enqueueFile))
	if err := d.feedAndWatch(ctx); err != nil {
		return err
	}
	checkErr := d.check(ctx)
	if d.opts.Once || (checkErr != nil && !errors.Is(checkErr, errChecks)) {
		return checkErr
	}
	if err := d.invite(ctx); err != nil {
		return err
	}
	return errors.Join(d.watch(ctx, nil, func(counts) bool { return false }), checkErr)
}

// feedAndWatch inserts the items and shows their progress until all of them have ended.
func (d *demo) feedAndWatch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.opts.Timeout,
		fmt.Errorf("not every item had ended within %s", d.opts.Timeout))
	defer cancel()
	live, err := d.stack.startLive(terminal(d.opts.Out), d.opts.Pgdispatch)
	if err != nil {
		return err
	}
	fed := make(chan error, 1)
	go func() { fed <- d.stack.psqlFile(ctx, d.opts.Data, enqueueFile) }()
	var feedErr error
	feeding := true
	err = d.watch(ctx, live, func(c counts) bool {
		select {
		case feedErr = <-fed:
			feeding = false
			return feedErr != nil // otherwise the next reading is the first to see every item
		default:
			return !feeding && c.unfinished() == 0
		}
	})
	if feeding {
		cancel()
		feedErr = <-fed
	}
	if err == nil {
		err = feedErr
	}
	return errors.Join(err, live.stop())
}

// watch reads the counts until done returns true, a part of the stack or the live view ends, or ctx ends. Without a
// live view it prints them.
func (d *demo) watch(ctx context.Context, live *live, done func(counts) bool) error {
	tick := time.NewTicker(readInterval)
	defer tick.Stop()
	for {
		if err := errors.Join(d.stack.alive(), live.open()); err != nil {
			return err
		}
		found, err := collect[counts](ctx, d.stack.pool, countsQuery)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("count the items: %w", err), d.stack.alive())
		}
		if done(found[0]) {
			d.progress.lastCounts = found[0]
			return nil
		}
		if live == nil {
			d.progress.counts(found[0])
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// check prints a summary, and runs the checks against the tables and Temporal.
func (d *demo) check(ctx context.Context) error {
	outcomes, err := collect[outcome](ctx, d.stack.pool, outcomesQuery)
	if err != nil {
		return fmt.Errorf("read the outcomes: %w", err)
	}
	workspaces, err := collect[workspace](ctx, d.stack.pool, workspacesQuery)
	if err != nil {
		return fmt.Errorf("read the workspaces: %w", err)
	}
	runs, err := listRuns(ctx, d.stack.client, len(outcomes))
	if err != nil {
		return err
	}
	d.progress.printf("\nall %d items have ended:", len(outcomes))
	for _, w := range workspaces {
		d.progress.printf("%s", w)
	}
	var wrong error
	for _, c := range []check{checkOutcomes(outcomes), checkPeaks(workspaces), checkWorkflows(outcomes, runs)} {
		d.progress.printf("%s", c)
		if len(c.Wrong) > 0 {
			wrong = errChecks
		}
	}
	return wrong
}

// invite prints how to enqueue one more item, and where to look.
func (d *demo) invite(ctx context.Context) error {
	type example struct{ WorkspaceID, DefinitionID, Workspace, Definition string }
	examples, err := collect[example](ctx, d.stack.pool, exampleQuery)
	if err != nil || len(examples) == 0 {
		return fmt.Errorf("find a workflow definition: %w", err)
	}
	e := examples[0]
	d.progress.printf("\nenqueue one more, from another terminal (%s of %s):", e.Definition, e.Workspace)
	d.progress.printf("  %s '%s' -c \"insert into pgdispatch.workflow_execution_queue"+
		" (workspace_id, workflow_definition_id, params) values ('%s', '%s', '{}') returning id, execution_id\"",
		d.stack.psql, d.stack.databaseURL, e.WorkspaceID, e.DefinitionID)
	d.progress.printf("live view: DATABASE_URL='%s' %s status --watch", d.stack.databaseURL, d.opts.Pgdispatch)
	d.progress.printf("pgdispatch's web view, to pause, replay and change plans: %s", d.stack.view)
	if d.stack.temporal.UI != "" {
		d.progress.printf("Temporal's web interface: %s", d.stack.temporal.UI)
	}
	d.progress.printf("logs of the replicas: %s", d.stack.dir)
	d.progress.printf("Ctrl-C stops everything and removes it.\n")
	return nil
}
