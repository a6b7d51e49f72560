package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
)

// endProbesTimeout bounds the wait until the probes of the last check have ended.
const endProbesTimeout = 30 * time.Second

// OpenRow is a row whose transaction has not ended.
type OpenRow struct {
	// Execution is the execution ID.
	Execution string

	load      *Load
	workspace *Workspace
	sent      time.Time
}

// InsertOpen inserts a row of a workspace in a transaction that it begins and leaves open.
func (o *Load) InsertOpen(ctx context.Context, conn *pgx.Conn, w *Workspace) (*OpenRow, error) {
	row := &OpenRow{Execution: uuid.NewString(), load: o, workspace: w, sent: time.Now()}
	if _, err := conn.Exec(ctx, Query("begin")); err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	if err := o.insert(ctx, conn, w, row.Execution, quick); err != nil {
		return nil, err
	}
	row.Ended(Unknown)
	return row, nil
}

// Ended records how the row's transaction ended.
func (r *OpenRow) Ended(known Knowledge) {
	b := batch{load: r.load, workspace: r.workspace, definition: temporal.Work, executions: []string{r.Execution}}
	b.note(r.sent, known)
}

// Insert inserts a row of a workspace, commits it, and returns its execution ID.
func (o *Load) Insert(ctx context.Context, conn *pgx.Conn, w *Workspace) (string, error) {
	row := &OpenRow{Execution: uuid.NewString(), load: o, workspace: w, sent: time.Now()}
	err := o.insert(ctx, conn, w, row.Execution, quick)
	row.Ended(outcome(err))
	return row.Execution, err
}

// quick are the params of a workflow that takes a millisecond. Faults measure how long such an item waits.
const quick = `{"ms": 1, "measured": true}`

func (o *Load) insert(ctx context.Context, conn *pgx.Conn, w *Workspace, execution, params string) error {
	b := batch{load: o, workspace: w, definition: temporal.Work, executions: []string{execution}, params: params}
	_, err := conn.Exec(ctx, Query("enqueue"), b.arguments()...)
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	return nil
}

// InsertProbes inserts the given number of items whose workflows wait for a signal to end.
func (o *Load) InsertProbes(ctx context.Context, conn *pgx.Conn, w *Workspace, items int) ([]string, error) {
	b := batch{load: o, workspace: w, definition: probe, params: `{}`}
	for range items {
		b.executions = append(b.executions, uuid.NewString())
	}
	sent := time.Now()
	_, err := conn.Exec(ctx, Query("enqueue"), b.arguments()...)
	b.note(sent, outcome(err))
	if err != nil {
		return nil, fmt.Errorf("enqueue probes: %w", err)
	}
	return b.executions, nil
}

// EndProbes signals the probes to end, including those that start late, and waits until all have ended.
func (o *Load) EndProbes(ctx context.Context, executions map[string][]string) error {
	return Await(ctx, endProbesTimeout, "the probes end", func() (bool, error) {
		for _, list := range executions {
			for _, execution := range list {
				// A workflow that has ended or has not begun cannot be signalled.
				_ = o.lab.Client.SignalWorkflow(ctx, "execution-"+execution, "", temporal.Release, nil)
			}
		}
		var open int
		var oldest []string
		err := o.lab.Row(ctx, "open_items", nil, &open, &oldest)
		return open == 0, err
	})
}

// InsertMany inserts the given number of items of a workspace in one statement. Each workflow takes millis
// milliseconds.
func (o *Load) InsertMany(ctx context.Context, w *Workspace, items, millis int) error {
	b := batch{load: o, workspace: w, definition: temporal.Work, items: items, millis: millis}
	return b.enqueue(ctx, autocommit, 0)
}

// InsertDoomed inserts a row that must fail. Foreign means that an unrelated workflow may have taken its workflow ID.
func (o *Load) InsertDoomed(ctx context.Context, conn *pgx.Conn, w *Workspace, execution string, foreign bool) error {
	return o.InsertFailing(ctx, conn, w, execution, quick, foreign)
}

// InsertFailing inserts a row that must fail because of its params.
func (o *Load) InsertFailing(
	ctx context.Context, conn *pgx.Conn, w *Workspace, execution, params string, foreign bool,
) error {
	row := &OpenRow{Execution: execution, load: o, workspace: w, sent: time.Now()}
	err := o.insert(ctx, conn, w, execution, params)
	row.Ended(outcome(err))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows[execution].Want, o.rows[execution].Counted, o.rows[execution].Foreign = "FAILED", true, foreign
	return err
}
