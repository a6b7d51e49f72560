package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// MaxParams is the size limit of params, in bytes of Postgres's text form.
	MaxParams = 1966080
	// enqueueTimeout limits a batch of Enqueue.
	enqueueTimeout = time.Minute
)

// NewItem is an item to enqueue, as the statements read it. Empty fields and nil are not given. Durations are from the
// database's current time, such as 1.5s. The database checks all values.
type NewItem struct {
	WorkspaceID    string          `json:"workspace_id"`
	DefinitionID   string          `json:"definition_id"`
	Params         json.RawMessage `json:"params"`
	Priority       *int            `json:"priority"`
	RunAt          *time.Time      `json:"run_at"`
	RunIn          string          `json:"run_in,omitempty"`
	StartBefore    *time.Time      `json:"start_before"`
	StartIn        string          `json:"start_in,omitempty"`
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	LimitKey       string          `json:"limit_key,omitempty"`
	WorkflowID     string          `json:"workflow_id,omitempty"` // empty means execution-<execution ID>
	Traceparent    string          `json:"traceparent,omitempty"`
	StartOptions   json.RawMessage `json:"start_options,omitempty"`
	// The others say what happens while the item that holds the key waits or runs: see docs/enqueue.md.
	Key        string `json:"key,omitempty"`
	OnConflict string `json:"on_conflict,omitempty"` // skip, replace or debounce; empty means skip
	Quiet      string `json:"quiet,omitempty"`       // of debounce, as AtMost
	AtMost     string `json:"at_most,omitempty"`
}

// Keyed reports whether the item is enqueued as pgdispatch.enqueue does, under a key.
func (n NewItem) Keyed() bool { return n.Key+n.OnConflict+n.Quiet+n.AtMost != "" }

// Enqueued is an item that was inserted, or the one that has its key.
type Enqueued struct {
	ID          int64  `json:"id"`
	ExecutionID string `json:"execution_id"`
	// Action is inserted, or existing if an item of the workspace has the idempotency key. Of a Keyed item it is inserted,
	// skipped, replaced or debounced.
	Action string `json:"action,omitempty"`
}

// Enqueue enqueues items in one transaction, as an application would. All or none of them are Keyed. It leaves out
// those that a trigger of the application suppressed, and those with the idempotency key of another one of them.
func (s *Store) Enqueue(ctx context.Context, items []NewItem, who string) ([]Enqueued, error) {
	lines, err := json.Marshal(items)
	if err != nil {
		return nil, fmt.Errorf("enqueue items: %w", err)
	}
	statement := sql.Text("items_enqueue")
	if items[0].Keyed() {
		statement = sql.Text("items_enqueue_keyed")
	}
	return postgres.ReadWithin[Enqueued](ctx, enqueueTimeout, s.DB, "enqueue items", statement, string(lines), who)
}

// Rehearse calls do with a store in a transaction, which it then rolls back. DB is a pool or a connection.
func (s *Store) Rehearse(ctx context.Context, do func(*Store) error) error {
	tx, err := s.DB.(interface {
		Begin(ctx context.Context) (pgx.Tx, error)
	}).Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	return do(&Store{DB: tx, Scope: s.Scope})
}

// CheckJSON refuses text that is no JSON value, or one that Postgres does not take.
func CheckJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if word, is := token.(string); is && strings.ContainsRune(word, 0) {
			return fmt.Errorf("line %d: the text %.40q has the character \\u0000, which Postgres does not take",
				lineOf(text, decoder.InputOffset()), word)
		}
		if err != nil {
			break // Unmarshal says where
		}
	}
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: it is not JSON: %w", lineOf(text, syntax.Offset), err)
	case err != nil:
		return fmt.Errorf("it is not JSON: %w", err)
	}
	return nil
}

func lineOf(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(offset, int64(len(text)))], []byte("\n"))
}
