package lab

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ending is how a transaction ends.
type ending int

const (
	autocommit ending = iota
	commit
	rollBack
)

// batch is what one transaction inserts.
type batch struct {
	load       *Load
	workspace  *Workspace
	definition string
	items      int
	priority   int
	delay      time.Duration
	millis     int
	executions []string
	params     string        // if empty, only the duration of the workflow
	id         string        // that the items name; empty: none
	before     time.Duration // until their start_before; zero: none
}

// arguments are those of the statement enqueue.
func (b *batch) arguments() []any {
	var id, before any
	if b.id != "" {
		id = b.id
	}
	if b.before > 0 {
		before = b.before
	}
	params := cmp.Or(b.params, fmt.Sprintf(`{"ms": %d}`, b.millis))
	return []any{b.workspace.ID, b.workspace.definitions[b.definition], b.executions, params, b.priority, b.delay, id,
		before}
}

// enqueue inserts the batch, keeps the transaction open for the given time, ends it, and records the outcome in the
// books.
func (b *batch) enqueue(ctx context.Context, how ending, open time.Duration) error {
	// A transaction that has begun is finished: a stopped producer must still learn how its commit ended.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), enqueueTimeout+open,
		errors.New("enqueueing took too long"))
	defer cancel()
	for range b.items {
		b.executions = append(b.executions, uuid.NewString())
	}
	arguments := b.arguments()
	sent := time.Now()
	if how == autocommit {
		_, err := b.load.pool.Exec(ctx, Query("enqueue"), arguments...)
		b.note(sent, outcome(err))
		return err
	}
	tx, err := b.load.pool.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err = tx.Exec(ctx, Query("enqueue"), arguments...); err == nil && open > 0 {
		err = Sleep(ctx, open)
	}
	if err != nil || how == rollBack {
		b.note(sent, RolledBack)
		return errors.Join(err, tx.Rollback(ctx))
	}
	sent = time.Now()
	err = tx.Commit(ctx)
	b.note(sent, outcome(err))
	return err
}

// outcome derives from a commit's error what is known about the commit. A refusal means that it did not happen. Any
// other error, including the end of the session, leaves it unknown.
func outcome(err error) Knowledge {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return Acknowledged
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return RolledBack
	case errors.As(err, &refused) && !strings.HasPrefix(refused.Code, "57") && !strings.HasPrefix(refused.Code, "08"):
		return RolledBack
	default:
		return Unknown
	}
}

func (b *batch) note(sent time.Time, known Knowledge) {
	o := b.load
	o.mu.Lock()
	defer o.mu.Unlock()
	d := definitions[b.definition]
	for _, execution := range b.executions {
		row := &Row{Execution: execution, Workspace: b.workspace.ID, Want: "COMPLETED", Type: d.name, Kind: d.kind, ID: b.id,
			Runs: d.runs, Known: known, Sent: sent, Answered: time.Now()}
		if d.fails {
			row.Want = "FAILED"
		}
		switch {
		case b.id != "": // as audit.Named judges
			row.Policy, row.Or, row.Counted = d.policy, "FAILED", true
		case b.before > 0:
			row.Or = "CANCELLED"
		}
		o.rows[execution] = row
		if line, err := json.Marshal(row); err == nil {
			_, _ = o.file.Write(append(line, '\n'))
		}
	}
}

// withdraw cancels an item unless it is too late.
func (o *Load) withdraw(ctx context.Context, execution string) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), enqueueTimeout,
		errors.New("cancelling took too long"))
	defer cancel()
	var done bool
	err := o.pool.QueryRow(ctx, Query("cancel"), execution).Scan(&done)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch row := o.rows[execution]; {
	case err != nil:
		row.Or = "CANCELLED"
	case done:
		row.Want = "CANCELLED"
	}
	return err
}
