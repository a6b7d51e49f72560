package operate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// MaxParams is the size limit of params, in bytes of Postgres's text form.
	MaxParams = 1966080
	maxKey    = 200
	// enqueueTimeout limits a batch of EnqueueAll.
	enqueueTimeout = time.Minute
)

// firstRunAt and lastRunAt bound NewItem.RunAt.
var (
	firstRunAt = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	lastRunAt  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// NewItem is an item to enqueue.
type NewItem struct {
	WorkspaceID          string
	WorkflowDefinitionID string
	Params               string // a JSON object
	Priority             int
	RunAt                *time.Time     // nil means after RunIn
	RunIn                *time.Duration // from the database's current time; nil means at once
	StartBefore          Moment         // empty means any time; Ago is how long from the database's current time
	IdempotencyKey       string         // empty means none
	LimitKey             string         // empty means none
	Traceparent          string         // empty means none; only EnqueueAll sets it
}

// Enqueued is the item that Enqueue inserted or found.
type Enqueued struct {
	ID          int64  `json:"id"`
	ExecutionID string `json:"execution_id"`
	Inserted    bool   `json:"inserted"` // false if the workspace has an item with this idempotency key
}

// Enqueue inserts an item as an application would. If the workspace has an item with the same idempotency key, Enqueue
// returns that item instead.
func (s *Store) Enqueue(ctx context.Context, n NewItem, who string) (Enqueued, error) {
	made, err := postgres.Read[Enqueued](ctx, s.DB, "enqueue item", sql.Text("item_enqueue"), n.WorkspaceID,
		n.WorkflowDefinitionID, n.Params, n.Priority,
		n.RunAt, n.RunIn, postgres.OrNull(n.IdempotencyKey), who,
		postgres.OrNull(n.LimitKey), n.StartBefore.At, n.StartBefore.Ago)
	if err != nil || len(made) == 0 {
		return Enqueued{}, err
	}
	return made[0], nil
}

// EnqueueAll inserts items in one transaction, and returns the IDs of the new ones. It leaves out items whose
// idempotency key an item of their workspace has already.
func (s *Store) EnqueueAll(ctx context.Context, items []NewItem, who string) ([]int64, error) {
	n := len(items)
	workspaces, definitions, params, priorities := make([]string, n), make([]string, n), make([]string, n), make([]int,
		n)
	runAt, runIn := make([]*time.Time, n), make([]*time.Duration, n)
	startBefore, startIn := make([]*time.Time, n), make([]*time.Duration, n)
	keys, limitKeys, traceparents := make([]*string, n), make([]*string, n), make([]*string, n)
	for i, item := range items {
		workspaces[i], definitions[i], params[i], priorities[i] = item.WorkspaceID, item.WorkflowDefinitionID,
			item.Params, item.Priority
		runAt[i], runIn[i] = item.RunAt, item.RunIn
		startBefore[i], startIn[i] = item.StartBefore.At, item.StartBefore.Ago
		keys[i], limitKeys[i] = postgres.OrNull(item.IdempotencyKey), postgres.OrNull(item.LimitKey)
		traceparents[i] = postgres.OrNull(item.Traceparent)
	}
	return postgres.ValuesWithin[int64](ctx, enqueueTimeout, s.DB, "enqueue items", sql.Text("items_enqueue"),
		workspaces, definitions, params, priorities, runAt, runIn, keys, traceparents, who, limitKeys,
		startBefore, startIn)
}

// Check refuses values that the insert would refuse. The error begins with the column.
func (n NewItem) Check() error {
	switch {
	case n.Priority < -MaxPriority || n.Priority > MaxPriority:
		return fmt.Errorf("priority is %d: it must be a whole number from -%d to %d", n.Priority, MaxPriority,
			MaxPriority)
	case n.RunAt != nil && (n.RunAt.Before(firstRunAt) || n.RunAt.After(lastRunAt)):
		return errors.New("run_at must lie between the years 2000 and 2200")
	case n.StartBefore.At != nil && (n.StartBefore.At.Before(firstRunAt) || n.StartBefore.At.After(lastRunAt)):
		return errors.New("start_before must lie between the years 2000 and 2200")
	case n.Traceparent != "" && !traceparent.MatchString(n.Traceparent):
		return errors.New("traceparent must be such as 00-<32 hex digits>-<16 hex digits>-01, in lower case")
	case len(n.Params) > 2*MaxParams:
		return fmt.Errorf("params has %d bytes: the limit is %d", len(n.Params), MaxParams)
	}
	return errors.Join(checkColumn("idempotency_key", n.IdempotencyKey), checkColumn("limit_key", n.LimitKey),
		n.checkParams())
}

// checkColumn refuses a key that a column cannot hold.
func checkColumn(column, key string) error {
	switch length := utf8.RuneCountInString(key); {
	case length > maxKey:
		return fmt.Errorf("%s has %d characters: it must have at most %d", column, length, maxKey)
	case !utf8.ValidString(key) || strings.ContainsRune(key, 0):
		return fmt.Errorf("%s must be text in UTF-8, without zero characters", column)
	}
	return nil
}

func (n NewItem) checkParams() error {
	if !utf8.ValidString(n.Params) {
		return errors.New("params must be in UTF-8")
	}
	if err := CheckJSON([]byte(n.Params)); err != nil {
		return fmt.Errorf("params: %w", err)
	}
	if is := kind([]byte(n.Params)); is != "an object" {
		return fmt.Errorf("params is %s: it must be an object, such as {\"orderId\": 42}", is)
	}
	return nil
}

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
		p.AtMost, who, postgres.OrNull(n.LimitKey), n.StartBefore.At, n.StartBefore.Ago)
	if err != nil || len(made) == 0 {
		return Keyed{}, false, err
	}
	return made[0], true, nil
}
