package complete

import (
	"context"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Postgres executes the statements about executions: their watches, ends and stalls. If a method
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

// CallbackKey returns the secret key for tokens of completion callbacks. All replicas share it. It must not be logged.
func (s *Postgres) CallbackKey(ctx context.Context) ([]byte, error) {
	return postgres.Value[[]byte](ctx, s.DB, "read callback key", sql.Text("callback_key"))
}
