package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
)

// AddWorkspace creates a tenant without a regular load.
func (o *Load) AddWorkspace(ctx context.Context, name string, limit int) (w *Workspace, err error) {
	w = &Workspace{Name: name, Limit: limit}
	if err := o.lab.Row(ctx, "workspace", []any{name, "FREE", limit, nil, nil}, &w.ID); err != nil {
		return nil, err
	}
	w.definitions, err = define(ctx, &o.lab.Store, w.ID)
	return w, err
}

// InsertLarge inserts the given number of rows with params of the given size in bytes.
func (o *Load) InsertLarge(ctx context.Context, w *Workspace, items, bytes int) error {
	b := batch{load: o, workspace: w, definition: temporal.Work, items: items,
		params: `{"ms": 1, "x": "` + strings.Repeat("x", bytes) + `"}`}
	return b.enqueue(ctx, autocommit, 0)
}

// InsertWithdrawn inserts the given number of rows, ahead of all others, of a workspace that must never start
// anything.
func (o *Load) InsertWithdrawn(ctx context.Context, w *Workspace, items int) error {
	b := batch{load: o, workspace: w, definition: temporal.Work, items: items, priority: 100}
	err := b.enqueue(ctx, autocommit, 0)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, execution := range b.executions {
		o.rows[execution].Want = "CANCELLED"
	}
	return err
}

// InsertSpread creates the given number of workspaces with one row each.
func (o *Load) InsertSpread(ctx context.Context, conn *pgx.Conn, workspaces int) error {
	ids, executions := make([]string, workspaces), make([]string, workspaces)
	for n := range workspaces {
		ids[n], executions[n] = uuid.NewString(), uuid.NewString()
	}
	sent := time.Now()
	if _, err := conn.Exec(ctx, Query("spread"), ids, temporal.Work, temporal.TaskQueue); err != nil {
		return fmt.Errorf("make %d workspaces: %w", workspaces, err)
	}
	_, err := conn.Exec(ctx, Query("spread_rows"), ids, executions)
	for n := range workspaces {
		b := batch{load: o, workspace: &Workspace{ID: ids[n]}, definition: temporal.Work, executions: executions[n : n+1]}
		b.note(sent, outcome(err))
	}
	if err != nil {
		return fmt.Errorf("enqueue a row of each of %d workspaces: %w", workspaces, err)
	}
	return nil
}

// InsertOdd inserts a row whose additional columns are SQL text that the database may refuse. It cancels an accepted
// row unless it is too late. It reports whether the row was accepted.
func (o *Load) InsertOdd(ctx context.Context, conn *pgx.Conn, w *Workspace, columns, values string) (bool, error) {
	b := batch{load: o, workspace: w, definition: temporal.Any, executions: []string{uuid.NewString()}}
	text := strings.NewReplacer("@columns", columns, "@values", values, "@workspace", w.ID, "@definition",
		w.definitions[temporal.Any], "@execution", b.executions[0]).Replace(Query("odd"))
	sent := time.Now()
	_, err := conn.Exec(ctx, text)
	known := outcome(err)
	b.note(sent, known)
	if known != Acknowledged {
		if known == Unknown {
			return false, errors.Join(errors.New("the database is unavailable"), err)
		}
		return false, nil
	}
	var done bool
	if err := conn.QueryRow(ctx, Query("cancel"), b.executions[0]).Scan(&done); err != nil {
		return true, fmt.Errorf("cancel: %w", err)
	}
	if done {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.rows[b.executions[0]].Want = "CANCELLED"
	}
	return true, nil
}

// InsertForgotten inserts a row whose workflow waits for a signal to end and that Temporal will forget. It returns the
// execution ID.
func (o *Load) InsertForgotten(ctx context.Context, conn *pgx.Conn, w *Workspace) (string, error) {
	executions, err := o.InsertProbes(ctx, conn, w, 1)
	if err != nil {
		return "", err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows[executions[0]].Want = "FAILED"
	return executions[0], nil
}

// EndForgotten makes the workflow of a row that failed without it fail as well.
func (l *Lab) EndForgotten(ctx context.Context, execution string) error {
	return Await(ctx, endProbesTimeout, "the forgotten workflow ends", func() (bool, error) {
		err := l.Client.SignalWorkflow(ctx, "execution-"+execution, "", temporal.GiveUp, nil)
		return err == nil, err
	})
}

// Drain pauses the producers, and returns when no item is open and no more can come, because a transaction under way
// may commit seconds later. Pause(false) resumes the producers.
func (o *Load) Drain(ctx context.Context, limit time.Duration) error {
	o.Pause(true)
	return Await(ctx, limit, "nothing is open", func() (bool, error) {
		if !o.still() {
			return false, nil
		}
		var open int
		var oldest []string
		err := o.lab.Row(ctx, "open_items", nil, &open, &oldest)
		return open == 0, err
	})
}
