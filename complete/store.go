package complete

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Postgres executes the statements about executions: their watches and ends. If a method
// succeeds, its effect is committed. Its connections may commit with synchronous_commit = off: statements that others
// act upon make themselves durable, and what a crash of the database undoes of the others is recovered by asking
// Temporal.
type Postgres struct {
	DB postgres.Conn
	// Owner is this replica's name. It is required to watch.
	Owner string
	// Namespace is the Temporal namespace of executions that name none.
	Namespace string
}

// Finish records the end of an execution. Outcome is Temporal's name for it. Finish returns false if the end was
// recorded before or no start was sent. If the item is still CLAIMED, the end takes effect when its start is settled.
// Reason is why the execution did not complete or, if it completed, a note on its result. Result is JSON; empty means
// none. A result that exceeds Settings.ResultBytes or that Postgres rejects is not stored.
func (s *Postgres) Finish(ctx context.Context, executionID, outcome, reason, result string) (bool, error) {
	return postgres.Value[bool](ctx, s.DB, "finish execution", sql.Text("finish"), executionID, outcome,
		postgres.OrNull(postgres.Clean(reason)), postgres.OrNull(result))
}

// Ended is the end of an execution: the arguments of Finish.
type Ended struct {
	ExecutionID string
	Outcome     string
	Reason      string
	Result      string
}

// FinishAll is Finish for many executions in one statement; each may occur once. The result maps execution IDs to what
// Finish would return. FinishAll does not wait for locks: call Finish for executions that are missing from the result.
// After an error, some or none of the ends may be recorded.
func (s *Postgres) FinishAll(ctx context.Context, ends []Ended) (first map[string]bool, err error) {
	var (
		ids      = make([]string, len(ends))
		outcomes = make([]string, len(ends))
		reasons  = make([]*string, len(ends))
		results  = make([]*string, len(ends))
	)
	for n, end := range ends {
		ids[n], outcomes[n], reasons[n], results[n] = end.ExecutionID, end.Outcome,
			postgres.OrNull(postgres.Clean(end.Reason)), postgres.OrNull(end.Result)
	}
	type answer struct {
		ID    string
		First bool
	}
	answers, err := postgres.Read[answer](ctx, s.DB, "finish executions", sql.Text("finish_all"), ids, outcomes, reasons,
		results)
	first = make(map[string]bool, len(answers))
	for _, a := range answers {
		first[a.ID] = a.First
	}
	return first, err
}

// NoteMissing implements MissingStore.
func (s *Postgres) NoteMissing(ctx context.Context, executionID string,
	retention time.Duration) (note Note, known bool, err error) {
	notes, err := postgres.Read[Note](ctx, s.DB, "note a missing execution", sql.Text("missing"), executionID, retention)
	if err != nil || len(notes) == 0 {
		return Note{}, false, err
	}
	return notes[0], true, nil
}

// NoteFound implements MissingStore.
func (s *Postgres) NoteFound(ctx context.Context, executionID string) error {
	return postgres.Exec(ctx, s.DB, "note a found execution", sql.Text("found"), executionID)
}

// CallbackKey returns the secret key for tokens of completion callbacks. All replicas share it. It must not be logged.
func (s *Postgres) CallbackKey(ctx context.Context) ([]byte, error) {
	return postgres.Value[[]byte](ctx, s.DB, "read callback key", sql.Text("callback_key"))
}

// Adopt takes over up to atMost open executions that no live replica watches, and returns them. It also returns this
// replica's own executions that are not in watching. Executions of workspaces with items due come first.
func (s *Postgres) Adopt(ctx context.Context, atMost int, watching []string) ([]temporal.Execution, error) {
	return postgres.Read[temporal.Execution](ctx, s.DB, "adopt executions", sql.Text("adopt"), s.Owner, atMost,
		postgres.OrEmpty(watching))
}

// GiveUpWatches records that this replica no longer watches these executions, so that other replicas can adopt them.
// Nil means all of its executions.
func (s *Postgres) GiveUpWatches(ctx context.Context, executionIDs []string) error {
	return postgres.Exec(ctx, s.DB, "release watches", sql.Text("give_up_watches"), s.Owner, executionIDs)
}

// SwapWatches takes over up to atMost unwatched executions of workspaces with items due. In exchange it gives up as
// many of this replica's executions of workspaces without items due.
func (s *Postgres) SwapWatches(ctx context.Context,
	atMost int) (taken []temporal.Execution, dropped []string, err error) {
	type swapped struct {
		ID, WorkflowID string
		RunID          *string
		Namespace      string
		Kind           temporal.Kind
	}
	both, err := postgres.Read[swapped](ctx, s.DB, "swap watches", sql.Text("swap_watches"), s.Owner, atMost)
	for _, e := range both {
		if e.RunID == nil {
			dropped = append(dropped, e.ID)
		} else {
			taken = append(taken, temporal.Execution{ID: e.ID, WorkflowID: e.WorkflowID, RunID: *e.RunID,
				Namespace: e.Namespace, Kind: e.Kind})
		}
	}
	return taken, dropped, err
}

// Turn is the turn to list the executions of a kind that closed in a namespace. One replica takes the turns at a time.
type Turn struct {
	Namespace string
	Kind      temporal.Kind
	Wide      bool      // list further back, for workflows that became visible too late for the previous lists
	All       bool      // list all workflows: an unwatched execution's workflow ID does not have our format
	Since     time.Time // the close time to list from, by Temporal's clock
}

// CloseTurns takes the turns to list what has closed: one for each namespace and kind with open executions that no live
// replica watches, or whose last wide list is older than `wide`. Empty if none needs a list, or if another replica took
// the turns within `often`.
func (s *Postgres) CloseTurns(ctx context.Context, often, wide time.Duration) ([]Turn, error) {
	return postgres.Read[Turn](ctx, s.DB, "claim listing turns", sql.Text("close_turn"), often, wide, s.Namespace)
}

// CloseDone records the newest close time that was listed in a turn. The zero time means that the list was empty.
func (s *Postgres) CloseDone(ctx context.Context, turn Turn, newest time.Time) error {
	var seen *time.Time
	if !newest.IsZero() {
		seen = &newest
	}
	return postgres.Exec(ctx, s.DB, "finish listing turn", sql.Text("close_done"), turn.Namespace, seen, turn.Wide,
		turn.Kind.String())
}

// OpenAmong returns those of the given executions that are recorded as RUNNING.
func (s *Postgres) OpenAmong(ctx context.Context, executionIDs []string) ([]temporal.Execution, error) {
	return postgres.Read[temporal.Execution](ctx, s.DB, "read open executions", sql.Text("open_among"), executionIDs)
}

// OpenUnder returns the executions that are recorded as RUNNING under workflow IDs that their items name, in a
// namespace.
func (s *Postgres) OpenUnder(ctx context.Context, namespace string,
	workflowIDs []string) ([]temporal.Execution, error) {
	return postgres.Read[temporal.Execution](ctx, s.DB, "read open executions", sql.Text("open_under"), workflowIDs,
		namespace)
}

// Running returns the runs that executions of a kind follow under a workflow ID that their items name, by execution ID.
// It is for workers that report ends: see package finish.
func (s *Postgres) Running(ctx context.Context, kind, namespace, workflowID string) (map[string]string, error) {
	open, err := s.OpenUnder(ctx, namespace, []string{workflowID})
	runs := make(map[string]string, len(open))
	for _, e := range open {
		if e.Kind.String() == kind {
			runs[e.ID] = e.RunID
		}
	}
	return runs, err
}

// Silent returns up to atMost open executions that no live replica watches and that were started or last asked about
// longer than after ago. It records them as asked about now.
func (s *Postgres) Silent(ctx context.Context, atMost int, after time.Duration) ([]temporal.Execution, error) {
	return postgres.Read[temporal.Execution](ctx, s.DB, "read silent executions", sql.Text("silent"), atMost, after)
}
