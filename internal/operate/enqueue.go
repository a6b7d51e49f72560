package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
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
	WorkflowID           string         // empty means execution-<execution ID>
	Traceparent          string         // empty means none; not of Enqueue
	StartOptions         string         // a JSON object; empty means none; not of Enqueue
	KeyPolicy
}

// Enqueued is the item that Enqueue inserted or found.
type Enqueued struct {
	ID          int64  `json:"id"`
	ExecutionID string `json:"execution_id"`
	Inserted    bool   `json:"inserted"` // false if the workspace has an item with this idempotency key
}

// Enqueue inserts an item without a KeyPolicy as an application would. If the workspace has an item with the same
// idempotency key, Enqueue returns that item instead.
func (s *Store) Enqueue(ctx context.Context, n NewItem, who string) (Enqueued, error) {
	made, err := postgres.Read[Enqueued](ctx, s.DB, "enqueue item", sql.Text("item_enqueue"), n.WorkspaceID,
		n.WorkflowDefinitionID, n.Params, n.Priority,
		n.RunAt, n.RunIn, postgres.OrNull(n.IdempotencyKey), who,
		postgres.OrNull(n.LimitKey), n.StartBefore.At, n.StartBefore.Ago,
		postgres.OrNull(n.WorkflowID))
	if err != nil || len(made) == 0 {
		return Enqueued{}, err
	}
	return made[0], nil
}

// EnqueueAll inserts items without a KeyPolicy in one transaction, and returns the IDs of the new ones. It leaves out
// items whose idempotency key an item of their workspace has already.
func (s *Store) EnqueueAll(ctx context.Context, items []NewItem, who string) ([]int64, error) {
	lines, err := linesOf(items)
	if err != nil {
		return nil, err
	}
	return postgres.ValuesWithin[int64](ctx, enqueueTimeout, s.DB, "enqueue items", sql.Text("items_enqueue"), lines, who)
}

// Keyed is the item that holds a key.
type Keyed struct {
	ID          int64  `json:"id"`
	ExecutionID string `json:"execution_id"`
	Action      string `json:"action"` // inserted, skipped, replaced or debounced
}

// EnqueueKeyed enqueues items with a KeyPolicy in one transaction, one after the other. It leaves out those that a
// trigger of the application suppressed.
func (s *Store) EnqueueKeyed(ctx context.Context, items []NewItem, who string) ([]Keyed, error) {
	lines, err := linesOf(items)
	if err != nil {
		return nil, err
	}
	return postgres.ReadWithin[Keyed](ctx, enqueueTimeout, s.DB, "enqueue items", sql.Text("items_enqueue_keyed"), lines,
		who)
}

// line is an item as the statements read it. What is null is not given.
type line struct {
	WorkspaceID    string          `json:"workspace_id"`
	DefinitionID   string          `json:"definition_id"`
	Params         json.RawMessage `json:"params"`
	Priority       *int            `json:"priority"`
	RunAt          *time.Time      `json:"run_at"`
	RunIn          *float64        `json:"run_in"` // in seconds, as all durations
	StartBefore    *time.Time      `json:"start_before"`
	StartIn        *float64        `json:"start_in"`
	IdempotencyKey *string         `json:"idempotency_key"`
	LimitKey       *string         `json:"limit_key"`
	WorkflowID     *string         `json:"workflow_id"`
	Traceparent    *string         `json:"traceparent"`
	StartOptions   json.RawMessage `json:"start_options,omitempty"`
	Key            *string         `json:"key"`
	OnConflict     *string         `json:"on_conflict"`
	Quiet          *float64        `json:"quiet"`
	AtMost         *float64        `json:"at_most"`
}

func linesOf(items []NewItem) (string, error) {
	lines := make([]line, len(items))
	for n, i := range items {
		lines[n] = line{
			WorkspaceID: i.WorkspaceID, DefinitionID: i.WorkflowDefinitionID, Params: json.RawMessage(i.Params),
			RunAt: i.RunAt, RunIn: inSeconds(i.RunIn), StartBefore: i.StartBefore.At, StartIn: inSeconds(i.StartBefore.Ago),
			IdempotencyKey: postgres.OrNull(i.IdempotencyKey), LimitKey: postgres.OrNull(i.LimitKey),
			WorkflowID:  postgres.OrNull(i.WorkflowID),
			Traceparent: postgres.OrNull(i.Traceparent), StartOptions: json.RawMessage(i.StartOptions),
			Key: postgres.OrNull(i.Key), OnConflict: postgres.OrNull(i.OnConflict),
			Quiet: inSeconds(i.Quiet), AtMost: inSeconds(i.AtMost),
		}
		if !i.KeepPriority {
			lines[n].Priority = &i.Priority
		}
	}
	text, err := json.Marshal(lines)
	if err != nil {
		return "", fmt.Errorf("enqueue items: %w", err)
	}
	return string(text), nil
}

func inSeconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(d.Seconds())
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
	case len(n.WorkflowID) > maxTemporalID || !utf8.ValidString(n.WorkflowID) ||
		strings.ContainsFunc(n.WorkflowID, unicode.IsControl):
		return fmt.Errorf("workflow_id must have at most %d bytes and no control characters", maxTemporalID)
	}
	return errors.Join(checkColumn("idempotency_key", n.IdempotencyKey), checkColumn("limit_key", n.LimitKey),
		n.checkPolicy(), checkObject("params", n.Params), checkObject("start_options", cmp.Or(n.StartOptions, "{}")))
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

func checkObject(column, text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s must be in UTF-8", column)
	}
	if err := CheckJSON([]byte(text)); err != nil {
		return fmt.Errorf("%s: %w", column, err)
	}
	if text := strings.TrimSpace(text); text[0] != '{' {
		return fmt.Errorf("%s is %.80s: it must be an object, such as {\"orderId\": 42}", column, text)
	}
	return nil
}

// KeyPolicy says what EnqueueKeyed does while the item that holds the key waits or runs: see docs/enqueue.md. It has a
// key, or is empty.
type KeyPolicy struct {
	Key           string
	OnConflict    string         // skip, replace or debounce; empty means skip
	Quiet, AtMost *time.Duration // of debounce; nil means not given
	KeepPriority  bool           // whether an item that waits keeps its priority
}

// checkPolicy refuses what pgdispatch.enqueue would refuse, by the names of its fields.
func (n NewItem) checkPolicy() error {
	debounces := n.OnConflict == "debounce"
	switch {
	case n.Key == "" && (n.OnConflict != "" || n.Quiet != nil || n.AtMost != nil):
		return errors.New("on_conflict, quiet and at_most need a key")
	case n.Key != "" && n.IdempotencyKey != "":
		return errors.New("key and idempotency_key are both given: give one of them")
	case !slices.Contains([]string{"", "skip", "replace", "debounce"}, n.OnConflict):
		return fmt.Errorf("on_conflict is %.80q: it must be skip, replace or debounce", n.OnConflict)
	case !debounces && (n.Quiet != nil || n.AtMost != nil):
		return errors.New("quiet and at_most need the on_conflict debounce")
	case debounces && n.Quiet == nil:
		return errors.New("quiet is missing: debounce needs it, such as 5s")
	case debounces && (n.RunAt != nil || n.RunIn != nil):
		return errors.New("run_at must not be given with debounce, which sets it to quiet from now")
	case debounces && (n.StartBefore.At != nil || n.StartBefore.Ago != nil):
		return errors.New("start_before must not be given with debounce")
	}
	return checkColumn("key", n.Key)
}
