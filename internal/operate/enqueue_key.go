package operate

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// KeyPolicy says what EnqueueKeyed does while the item that holds the key waits or runs: see docs/enqueue.md.
type KeyPolicy struct {
	Key           string
	OnConflict    string         // skip, replace or debounce; empty means skip
	Quiet, AtMost *time.Duration // of debounce; nil means not given
	KeepPriority  bool           // whether an item that waits keeps its priority
}

// Keyed is the item that holds a key.
type Keyed struct {
	ID          int64  `json:"id"`
	ExecutionID string `json:"execution_id"`
	Action      string `json:"action"` // inserted, skipped, replaced or debounced
}

// EnqueueKeyed enqueues an item under a key. It returns false if a trigger suppressed the row.
func (s *Store) EnqueueKeyed(ctx context.Context, n NewItem, p KeyPolicy, who string) (Keyed, bool, error) {
	priority := &n.Priority
	if p.KeepPriority {
		priority = nil
	}
	made, err := postgres.Read[Keyed](ctx, s.DB, "enqueue item", sql.Text("item_enqueue_key"), n.WorkspaceID,
		n.WorkflowDefinitionID, n.Params, priority, n.RunAt, n.RunIn, p.Key, postgres.OrNull(p.OnConflict), p.Quiet,
		p.AtMost, who, postgres.OrNull(n.LimitKey))
	if err != nil || len(made) == 0 {
		return Keyed{}, false, err
	}
	return made[0], true, nil
}
