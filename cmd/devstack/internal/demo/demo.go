// Package demo demonstrates pgdispatch on a developer's machine. It runs a private Postgres, a Temporal server, a
// worker and replicas of pgdispatch, inserts a few hundred items with psql, and shows their progress in a table. At
// the end it checks pgdispatch's guarantees.
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

// errUnfinished is returned if a demonstration with --once is interrupted.
var errUnfinished = errors.New("interrupted before every item had ended")

// Run demonstrates pgdispatch until all items have ended, and without Options.Once until ctx ends. It always removes
// its processes and files, whatever it returns.
func Run(ctx context.Context, opts Options) error {
	if err := opts.resolve(); err != nil {
		return err
	}
	s := newScreen(opts.Out)
	stack, err := startStack(ctx, opts, s)
	if err == nil {
		d := &demo{opts: opts, screen: s, stack: stack, reader: &boardReader{pool: stack.pool, peaks: map[string]int{}}}
		err = d.run(ctx)
	}
	if ctx.Err() != nil {
		err = interrupted(err, opts.Once)
		s.printf("\nstopping; once more Ctrl-C ends it at once")
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
	opts   Options
	screen *screen
	stack  *stack
	reader *boardReader
}

// run inserts the items, watches until all have ended, and checks the result. Without --once it continues to watch
// until ctx ends.
func (d *demo) run(ctx context.Context) error {
	d.screen.printf("\n%d replicas with %s workers each; psql -f %s inserts the items:\n",
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
	return errors.Join(d.watch(ctx, func(board) bool { return false }), checkErr)
}

// feedAndWatch inserts the items and draws the table until all of them have ended.
func (d *demo) feedAndWatch(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d.opts.Timeout,
		fmt.Errorf("not every item had ended within %s", d.opts.Timeout))
	defer cancel()
	fed := make(chan error, 1)
	go func() { fed <- d.stack.psqlFile(ctx, d.opts.Data, enqueueFile) }()
	var feedErr error
	feeding := true
	err := d.watch(ctx, func(b board) bool {
		select {
		case feedErr = <-fed:
			feeding = false
			return feedErr != nil // otherwise the next reading is the first to see every item
		default:
			return !feeding && b.unfinished() == 0
		}
	})
	if feeding {
		cancel()
		feedErr = <-fed
	}
	if err != nil {
		return err
	}
	return feedErr
}

// watch draws the table until done returns true, a part of the stack dies, or ctx ends.
func (d *demo) watch(ctx context.Context, done func(board) bool) error {
	tick := time.NewTicker(liveInterval)
	defer tick.Stop()
	for {
		if err := d.stack.alive(); err != nil {
			return err
		}
		b, err := d.reader.read(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return errors.Join(err, d.stack.alive())
		}
		finished := done(b)
		d.screen.table(b.lines(), tableNotes, finished)
		if finished {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// check runs the checks against the tables and Temporal.
func (d *demo) check(ctx context.Context) error {
	outcomes, err := collect[outcome](ctx, d.stack.pool, outcomesQuery)
	if err != nil {
		return fmt.Errorf("read the outcomes: %w", err)
	}
	peaks, err := collect[peakRow](ctx, d.stack.pool, peaksQuery)
	if err != nil {
		return fmt.Errorf("read the peaks: %w", err)
	}
	b, err := d.reader.read(ctx)
	if err != nil {
		return err
	}
	runs, err := listRuns(ctx, d.stack.client, len(outcomes))
	if err != nil {
		return err
	}
	d.screen.printf("\nall %d items have ended; is everything as it must be?", b.total())
	var wrong error
	for _, c := range []check{checkOutcomes(outcomes), checkPeaks(b.Workspaces, peaks), checkWorkflows(outcomes, runs)} {
		d.screen.printf("%s", c)
		if len(c.Wrong) > 0 {
			wrong = errChecks
		}
	}
	return wrong
}

// invite prints how to enqueue one more item.
func (d *demo) invite(ctx context.Context) error {
	type example struct{ WorkspaceID, DefinitionID, Workspace, Definition string }
	examples, err := collect[example](ctx, d.stack.pool, exampleQuery)
	if err != nil || len(examples) == 0 {
		return fmt.Errorf("find a workflow definition: %w", err)
	}
	e := examples[0]
	d.screen.printf("\nenqueue one more, from another terminal (%s of %s):\n", e.Definition, e.Workspace)
	d.screen.printf("  %s '%s' -c \"insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)"+
		" values ('%s', '%s', '{}') returning id, execution_id\"\n", d.stack.psql, d.stack.databaseURL, e.WorkspaceID, e.DefinitionID)
	d.screen.printf("pgdispatch's web view: %s", d.stack.view)
	if d.stack.temporal.UI != "" {
		d.screen.printf("Temporal's web interface: %s", d.stack.temporal.UI)
	}
	d.screen.printf("logs of the replicas: %s", d.stack.dir)
	d.screen.printf("Ctrl-C stops everything and removes it.\n")
	return nil
}
