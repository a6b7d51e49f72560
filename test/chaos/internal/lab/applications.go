package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.temporal.io/sdk/client"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
)

const (
	// followTimeout bounds how long an application follows one item, through faults.
	followTimeout = 3 * time.Minute
	// releaseInterval is how long an application waits for a workflow that it has told to end, before it says so again,
	// and lookInterval is between two looks.
	releaseInterval, lookInterval = 5 * time.Second, 200 * time.Millisecond
	// pushTimeout bounds how long an application waits for the end that it reports.
	pushTimeout = 30 * time.Second
	// debounceQuiet and debounceAtMost are those of debounced items.
	debounceQuiet, debounceAtMost = 300 * time.Millisecond, time.Second
)

// Signalled are the signals to an execution, in the books of the application that sends them.
type Signalled struct {
	// Signals are the signals, in their order.
	Signals []audit.Signal
	// Window is the time in which they were sent and the workflow ran.
	Window Window
	// ID is the workflow's.
	ID string
}

// Pushed is a report of an end in an application's books.
type Pushed struct {
	audit.Push
	// At is when it was answered.
	At time.Time
}

// follows runs a function for an item that was just enqueued, as a part of the transaction under way.
func (o *Load) follows(ctx context.Context, limit time.Duration, follow func(ctx context.Context)) {
	o.mu.Lock()
	o.underWay++
	o.mu.Unlock()
	o.group.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		follow(ctx)
		_ = o.ended(nil)
	})
}

// signalled enqueues an item and sends it some signals: the first, half of the time, in the same transaction. At the
// end it tells the workflow to end until it has. Half of the items name their ID, by which the signals go.
func (o *Load) signalled(ctx context.Context, rng *rand.Rand, w *Workspace) error {
	b := batch{load: o, workspace: w, definition: temporal.Notes, executions: []string{uuid.NewString()}, params: `{}`}
	execution := b.executions[0]
	query, to := "signal", []any{execution}
	books := &Signalled{Window: Window{From: time.Now()}, ID: temporal.WorkflowID(execution)}
	if rng.IntN(2) == 0 {
		b.definition, b.id = Named(temporal.Notes, idPolicies[rng.IntN(len(idPolicies))]), "notes-"+execution
		query, to, books.ID = "signal_workflow", []any{w.ID, b.id}, b.id
	}
	several, together := 1+rng.IntN(4), rng.IntN(2) == 0
	pauses := make([]time.Duration, several)
	for n := range pauses {
		pauses[n] = time.Duration(rng.IntN(300)) * time.Millisecond
	}
	sent := time.Now()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), enqueueTimeout)
	defer cancel()
	err := pgx.BeginFunc(bounded, o.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(bounded, Query("enqueue"), b.arguments()...)
		if err == nil && together {
			_, err = tx.Exec(bounded, Query(query), append(to, temporal.Note, "1")...)
		}
		return err
	})
	known := outcome(err)
	b.note(sent, known)
	o.mu.Lock()
	o.signals[execution] = books
	o.rows[execution].MostRuns = 1 + several
	if together {
		books.Signals = append(books.Signals, signal(1, known))
	}
	o.mu.Unlock()
	if known == RolledBack {
		return err
	}
	o.follows(ctx, followTimeout, func(ctx context.Context) {
		for n := 1 + count(together); n <= several; n++ {
			_ = Sleep(ctx, pauses[n-1])
			sent := signal(n, o.exec(ctx, query, append(to, temporal.Note, strconv.Itoa(n))...))
			o.mu.Lock()
			books.Signals = append(books.Signals, sent)
			o.mu.Unlock()
		}
		o.until(ctx, execution, func() { o.exec(ctx, query, append(to, temporal.Release, "0")...) })
		o.mu.Lock()
		books.Window.To = time.Now()
		o.mu.Unlock()
	})
	return err
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func signal(n int, known Knowledge) audit.Signal {
	return audit.Signal{Payload: n, Acknowledged: known == Acknowledged, Unknown: known == Unknown}
}

// exec executes a statement in a transaction of its own.
func (o *Load) exec(ctx context.Context, query string, args ...any) Knowledge {
	ctx, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()
	_, err := o.pool.Exec(ctx, Query(query), args...)
	return outcome(err)
}

// until does something that makes a workflow or an activity end until its item has ended or turns out not to exist.
func (o *Load) until(ctx context.Context, execution string, ends func()) {
	for ctx.Err() == nil {
		ends()
		for until := time.Now().Add(releaseInterval); time.Now().Before(until) && ctx.Err() == nil; {
			bounded, cancel := context.WithTimeout(ctx, enqueueTimeout)
			var status string
			err := o.pool.QueryRow(bounded, Query("cell_status"), execution).Scan(&status)
			cancel()
			if err == nil && status != "PENDING" && status != "CLAIMED" && status != "DISPATCHED" {
				return
			}
			_ = Sleep(ctx, lookInterval)
		}
	}
}

// policies are the policies of keys. Keys of the first kind are only used with skip.
var policies = map[string][]string{
	audit.SkipPrefix: {"skip"}, "mixed-": {"skip", "replace", "replace", "debounce", "debounce"},
}

// call calls pgdispatch.enqueue with one of a few keys, so that it often meets an item.
func (o *Load) call(ctx context.Context, rng *rand.Rand, w *Workspace) error {
	const keys = 2
	prefix := []string{audit.SkipPrefix, "mixed-"}[rng.IntN(2)]
	c := audit.Call{Marker: uuid.NewString(), Workspace: w.ID, Key: prefix + strconv.Itoa(rng.IntN(keys)),
		Policy: policies[prefix][rng.IntN(len(policies[prefix]))]}
	var quiet, atMost any
	if c.Policy == "debounce" {
		c.Quiet, c.AtMost = debounceQuiet, debounceAtMost
		quiet, atMost = c.Quiet, c.AtMost
	}
	params := fmt.Sprintf(`{"ms": %d, "key": %q, "n": %q}`, 1+rng.IntN(400), c.Key, c.Marker)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), enqueueTimeout)
	defer cancel()
	c.Sent = time.Now()
	err := o.pool.QueryRow(ctx, Query("enqueue_key"), w.ID, w.definitions[temporal.Work], params, c.Key, c.Policy, quiet,
		atMost).Scan(&c.Execution, &c.Action)
	c.Answered = time.Now()
	known := outcome(err)
	c.Acknowledged, c.Unknown = known == Acknowledged, known == Unknown
	if c.Acknowledged && c.Action == "inserted" {
		b := batch{load: o, workspace: w, definition: temporal.Work, executions: []string{c.Execution}}
		b.note(c.Sent, known)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, c)
	return err
}

// pushed enqueues an item, waits in Temporal for the end of its workflow, and reports it.
func (o *Load) pushed(ctx context.Context, rng *rand.Rand, b *batch) error {
	if b.definition == timesOut || b.definition == doTimesOut {
		b.definition = temporal.Work
	}
	activity := definitions[b.definition].kind == audit.Activity
	by := rng.IntN(2) == 0
	if err := b.enqueue(ctx, autocommit, 0); err != nil {
		return err
	}
	o.follows(ctx, pushTimeout, func(ctx context.Context) {
		if ended, failed := o.awaitEnd(ctx, b.executions[0], activity); ended {
			o.push(ctx, b.executions[0], failed, by)
		}
	})
	return nil
}

// awaitEnd waits until Temporal has closed a workflow or an activity.
func (o *Load) awaitEnd(ctx context.Context, execution string, activity bool) (ended, failed bool) {
	id := temporal.WorkflowID(execution)
	for ctx.Err() == nil {
		var err error
		if activity {
			err = o.lab.Client.GetActivityHandle(client.GetActivityHandleOptions{ActivityID: id}).Get(ctx, nil)
		} else {
			err = o.lab.Client.GetWorkflow(ctx, id, "").Get(ctx, nil)
		}
		var closed *sdk.WorkflowExecutionError
		var done *sdk.ApplicationError
		if err == nil || errors.As(err, &closed) || errors.As(err, &done) {
			return true, err != nil
		}
		_ = Sleep(ctx, 20*time.Millisecond) // it has not been started, or Temporal is down
	}
	return false, false
}

// push reports the end of a workflow, with finish or by an update.
func (o *Load) push(ctx context.Context, execution string, failed, finish bool) {
	p := Pushed{Push: audit.Push{Execution: execution, Marker: "pushed " + uuid.NewString()}}
	ctx, cancel := context.WithTimeout(ctx, enqueueTimeout)
	defer cancel()
	query, result := "push_completed", "COMPLETED"
	if failed {
		query, result = "push_failed", "FAILED"
	}
	if finish {
		err := o.pool.QueryRow(ctx, Query("push_finish"), execution, result, p.Marker).Scan(&p.First)
		p.Late = err == nil && !p.First
	} else {
		// An update of one row may be of an end that is still to be applied, perhaps behind another report.
		tag, err := o.pool.Exec(ctx, Query(query), execution, p.Marker)
		p.Late = err == nil && tag.RowsAffected() == 0
	}
	p.At = time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pushes = append(o.pushes, p)
}

// Signals returns the signals, by execution.
func (o *Load) Signals() map[string]Signalled {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[string]Signalled, len(o.signals))
	for execution, s := range o.signals {
		all[execution] = *s
	}
	return all
}

// Calls returns the calls of pgdispatch.enqueue.
func (o *Load) Calls() []audit.Call {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls
}

// Pushes returns the reported ends.
func (o *Load) Pushes() []Pushed {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pushes
}
