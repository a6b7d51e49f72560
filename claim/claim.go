// Package claim claims items, renews their leases and settles them. It keeps what it knows of waiting items in memory,
// so that a claim asks for items where there are some.
//
// Most methods of a Store execute one statement, which is defined in package sql. If a method succeeds, its effect is
// committed. If it returns an error, the effect may still be committed, because a response can be lost after the
// commit. Callers need not know which: GiveBack takes a lost claim back, and repeating a settle changes nothing.
package claim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

// ErrLost means that the caller no longer holds the lease: it expired, and another replica may hold the item.
// The rejected update changed nothing.
var ErrLost = errors.New("lease lost")

// ErrApart is returned when a combined settle and claim did neither because of one of its items: the item's row is
// locked, or a trigger or constraint rejects the update. Call Settle first, then claim again.
var ErrApart = errors.New("settle and claim separately")

// ErrUncertain means that a claim was sent and that its answer was lost. It may have taken items: see GiveBack.
var ErrUncertain = errors.New("the answer to a claim was lost")

// claimTimeout bounds a claim, including its wait for other claims.
const claimTimeout = 10 * time.Second

// Item is a leased item with everything needed to start its workflow.
type Item struct {
	ID    int64
	Token int64 // changes with every claim; a settle with an older token is rejected

	ExecutionID                 string
	WorkspaceID                 string
	WorkflowDefinitionID        string
	WorkflowDefinitionVersionID string

	// Namespace is the Temporal namespace to start the workflow in, or to find it in if it was started before.
	Namespace string
	Kind      temporal.Kind
	// NamedID is the workflow ID that the item names. Empty if it names none.
	NamedID          string          `db:"workflow_id"`
	Policy           temporal.Policy `db:"workflow_id_policy"` // for NamedID; empty if there is none
	WorkflowType     string          // or the activity's type
	TaskQueue        string
	Input            temporal.Input
	ExecutionTimeout time.Duration // zero means no timeout
	NodeIDs          []byte        `db:"-"` // a JSON array of strings, as stored; shared with other items
	Params           []byte        // JSON, as stored
	Traceparent      string        // empty if there is none
	StartOptions     []byte        // a JSON object: the definition's, with the item's own fields; nil if there are none
	LimitKey         string        // empty if there is none

	AttemptCount int // including this claim
	FailureCount int // earlier failures counted against the item
	MaxAttempts  int

	// Unanswered reports whether the item has kept its slot since an earlier try: its start request got no response, or it
	// failed while others were accepted. See MaybeSent.
	Unanswered bool `db:"outcome_unknown"`
	// UnansweredFor is an upper bound on the time since the first start request without a response was sent, by the
	// database's clock. It is zero if there is no such request, so that the workflow cannot be running. It is positive
	// without Unanswered for an item that names its workflow ID if the database may have forgotten its claim.
	UnansweredFor time.Duration
	// Tries is how many starts of the item failed while others of its namespace were accepted. FailingFor is the time
	// since the first of them, by the database's clock. Both are zero unless Unanswered.
	Tries      int
	FailingFor time.Duration
	// MissingFor is for how long every lookup of the item's workflow was answered by "not found". Zero if there was none,
	// or if the last answer is older than some minutes. See Settlement.Missing.
	MissingFor time.Duration
	// LastError is the error of the last try. Empty unless Unanswered.
	LastError string
	// GivenUpBy is the person who gave the item up: it is to be looked up, and to fail unless Temporal has its workflow.
	GivenUpBy string
	// Priority is the priority level of its workspace at which the item waited.
	Priority int
	// Problem is the reason why the item cannot be started. Empty if it can be.
	Problem Problem
	// Waited is the time since the item became due, by the database's clock.
	Waited time.Duration
	// Startable is the time since the item was startable: since it became due and nothing but the replicas held it
	// back, as far as this replica knows. See schedule.Entry.
	Startable time.Duration `db:"-"`
	// Awaited reports whether other items wait for the item's slot, as far as this replica knows.
	Awaited bool `db:"-"`
	// Deadline is the lease expiry by this process's monotonic clock. It is computed before the claim is sent, so it is
	// never later than the lease expiry in the database.
	Deadline time.Time `db:"-"`
}

// Problem is a reason why an item cannot be started. The text is stored in the item's last_error.
type Problem string

// The problems. See sql/claim/claim.sql. All but RowsHidden are final.
const (
	NoWorkspace  Problem = "workspace not found"
	NoDefinition Problem = "workflow definition not found"
	NoVersion    Problem = "workflow definition has no version"
	// RowsHidden means that row level security may hide the definition from this replica.
	RowsHidden Problem = "rows are hidden"
	HolderLost Problem = "holder lost three times, the last time with this item alone"
)

// Execution returns the identity of the item's workflow in Temporal. It is the same for every attempt.
func (i Item) Execution() temporal.Execution {
	return temporal.Execution{ID: i.ExecutionID, WorkflowID: i.NamedID, Namespace: i.Namespace, Kind: i.Kind}
}

// WorkflowID returns the ID of the item's workflow in Temporal.
func (i Item) WorkflowID() string { return i.Execution().Workflow() }

// Frees returns the workspace of which a slot is all that the end of the item's workflow frees. It is empty if others
// may wait for its limit key, too.
func (i *Item) Frees() (workspaceID string) {
	if i.LimitKey != "" {
		return ""
	}
	return i.WorkspaceID
}

// MaybeSent reports whether an earlier start request may have been carried out, so that the workflow may be running.
func (i *Item) MaybeSent() bool { return i.Unanswered && i.UnansweredFor > 0 }

// Lane returns what accepts or refuses the item's start: its namespace, or the activities of it.
func (i *Item) Lane() string {
	if i.Kind == temporal.Activity {
		return ActivitiesOf(i.Namespace)
	}
	return i.Namespace
}

// ActivitiesOf returns the lane of a namespace's activities. See the function lane in sql/claim/claim.sql.
func ActivitiesOf(namespace string) string { return namespace + " activities" }

// Wanted is the input of a claim.
type Wanted struct {
	// AtMost is the maximum number of items to claim.
	AtMost int
	// Holding is the number of items that the replica holds and that this call does not settle.
	Holding int
	// Reserved is how many of AtMost are left to items that were not sent before. The others may repeat unanswered starts.
	Reserved int
	// Named are notification payloads: hints about which workspaces have waiting items.
	Named []string
	// Look reads changes that no notification named before claiming. Quiet means that every change is announced, so the
	// claim need not be combined with a look.
	Look, Quiet bool
	// Fresh prefers items that were not sent before to unanswered starts, so that one item whose starts always fail is
	// not the only one that is tried while starts are paused.
	Fresh bool
	// Namespaces limits the number of items to claim per Temporal namespace, for namespaces that are paused (0) or
	// limited. Its keys are lanes: see Item.Lane. If the next 100 items of a workspace at one priority all belong to
	// paused lanes, the claim tries that workspace again after 3 s.
	Namespaces map[string]int
}

// Batch is the result of a claim.
type Batch struct {
	Items []Item
	// Asked is the number of entries in the proposal, and Vain the number of those that yielded no item. Asked is zero if
	// no claim was sent.
	Asked, Vain int
	// Statements counts the statements of this claim.
	Statements Statements
	// Unsent means that the claim had nothing to send: that it succeeded does not mean that Postgres answers.
	Unsent bool
	// Unannounced is the number of workspaces with due items for which no notification or look had reported them.
	Unannounced int
	// Flush is an upper bound on the duration of the commit; it includes one round trip. Zero if it was not measured.
	Flush time.Duration
	// Parked are the items that this claim parked because a trigger or constraint rejects their claim. Other items were
	// claimed in their place.
	Parked []Parked
	// Arrived is the number of new items that looks have found since this claim began.
	Arrived int
	// More reports whether more items appear to be due than were claimed.
	More bool
	// Capped reports whether W limited this claim, or an unanswered start must wait for a replica that holds nothing
	// else. If More is set too, this is what holds the remaining items back.
	Capped bool
	// Room is how many more items W allowed over all replicas, after this claim. Zero if no claim was sent.
	Room int
	// Shared reports whether another replica has claimed items since this one's last claim.
	Shared bool
	// Forgot reports that the database may have forgotten commits: it crashed or was promoted since this replica's last
	// claim. Items may be leased in this replica's name that it has settled: see GiveBack.
	Forgot bool
	// Paused reports whether the settings pause all claims.
	Paused bool
	// AtCapacity lists workspaces that are at their limit and have more items waiting. A workspace is listed once until
	// it receives items again.
	AtCapacity []Full
	// LookAgainIn is the time until a claim may find an item that it cannot take now. Negative if there is no such time.
	LookAgainIn time.Duration
}

// Statements counts claims by the statement that was sent: the one for plain key queues, which does all that most
// claims need, or the procedure. Declined are those of the first that took nothing and left their claim to the
// procedure, which is counted as well.
type Statements struct{ Plain, Declined, Procedure int }

func (s *Statements) count(plain, declined bool) {
	switch {
	case declined:
		s.Declined++
	case plain:
		s.Plain++
	default:
		s.Procedure++
	}
}

// Full is a workspace that has reached its limit.
type Full struct {
	WorkspaceID string `json:"workspace_id"`
	Active      int    `json:"active"`
	Limit       int    `json:"limit"`
}

// Database executes the statements of a Store: a pool or a single connection.
type Database interface {
	postgres.Conn
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// Store executes the statements. Pool is always required; Owner is required to claim or to watch.
type Store struct {
	// Pool executes claims. A claim's commit must survive a crash of the database: if it were lost, the item's slot could
	// go to another item while the workflow of the first is running.
	Pool Database
	// Async executes statements that a crash of the database may undo. It may commit with synchronous_commit = off: what
	// is lost is recovered by lease expiry or by asking Temporal. Failures, which are not, make themselves durable. If
	// nil, Pool is used.
	Async Database
	// Owner is this replica's name. It must be unique among replicas that run at the same time.
	Owner string
	// Lease is the lease duration that a claim or a heartbeat sets.
	Lease time.Duration
	// Namespace is the Temporal namespace for workflows whose definition names none.
	Namespace string
	// CanWatch reports whether this replica can watch that many executions, just started or about to start, for their
	// end. It must not block. If it returns false, they are settled without a watcher and other replicas adopt them.
	// Nil means always true.
	CanWatch func(executions int) bool
	// SetBack is called when a claim finds that Postgres' clock was set back. It must not block. Nil disables it.
	SetBack func()
	// Full is called when a claim finds that items wait for a slot of a workspace that is at its limit: see AwaitsSlot. It
	// must not block. Nil disables it.
	Full func()

	memory memory
	demand demand
	// isolate makes claims name their isolation, because the default is not READ COMMITTED. Only behind a transaction
	// pooler, which takes no such setting.
	isolate bool
}

func (s *Store) async() Database {
	if s.Async != nil {
		return s.Async
	}
	return s.Pool
}

// Held identifies a leased item for Heartbeat.
type Held struct{ ID, Token int64 }

// Heartbeat renews leases and returns the renewed IDs. Treat a missing ID as lost: its lease has expired, or will,
// because its row is locked or a trigger or constraint rejects the update.
func (s *Store) Heartbeat(ctx context.Context, held []Held) ([]int64, error) {
	return aroundLocks(ctx, s, held, func(h Held) int64 { return h.ID }, func(held []Held) ([]int64, error) {
		renewed, err := inHalves(held, func(held []Held) ([]int64, error) {
			ids, tokens := make([]int64, len(held)), make([]int64, len(held))
			for n, h := range held {
				ids[n], tokens[n] = h.ID, h.Token
			}
			return s.ids(ctx, "renew leases", sql.Text("heartbeat"), ids, tokens, s.Lease)
		})
		if postgres.IsRefused(err) && len(renewed) > 0 {
			err = nil
		}
		return renewed, err
	})
}

// GiveBack takes back the items that are leased in this replica's name and that it does not hold, and returns their
// IDs: the answer to their claim was lost, or a failover of the database has forgotten how they were settled. Their
// starts may have been sent, so they keep their slots. It must not be called during a claim.
func (s *Store) GiveBack(ctx context.Context, held []Held) ([]int64, error) {
	s.memory.mu.Lock()
	drawn := s.memory.drawn
	s.memory.mu.Unlock()

	tokens := make([]int64, len(held))
	for n, h := range held {
		tokens[n] = h.Token
	}
	return s.ids(ctx, "give back items", sql.Text("give_back"), s.Owner, tokens, drawn)
}

// Behind reports whether another item that names the same workflow ID is to be started before this claimed one.
func (s *Store) Behind(ctx context.Context, itemID int64) (bool, error) {
	return postgres.Value[bool](ctx, s.async(), "find earlier items of the workflow ID", sql.Text("behind"), itemID)
}

// Hasten makes items due now that wait because their starts failed. It leaves locked ones.
func (s *Store) Hasten(ctx context.Context, itemIDs []int64) error {
	_, err := s.ids(ctx, "hasten items", sql.Text("hasten"), itemIDs)
	return err
}

// ids runs a statement that returns the IDs of the items it updated.
func (s *Store) ids(ctx context.Context, verb, statement string, args ...any) ([]int64, error) {
	return postgres.Values[int64](ctx, s.async(), verb, statement, args...)
}

// aroundLocks calls do, which returns the IDs of the items it updated. If do times out on a locked row, aroundLocks
// calls it again without the locked rows: a forgotten transaction that locks one row must not cost other items their
// leases. If all rows are locked it returns an error, because a retry may succeed.
func aroundLocks[T any](ctx context.Context, s *Store, items []T, id func(T) int64,
	do func([]T) ([]int64, error)) ([]int64, error) {
	moved, err := do(items)
	if !postgres.HasCode(err, postgres.LockNotAvailable) {
		return moved, err
	}
	ids := make([]int64, len(items))
	for n, item := range items {
		ids[n] = id(item)
	}
	free, lookErr := s.ids(ctx, "find unlocked items", sql.Text("unlocked"), ids)
	if lookErr != nil || len(free) == 0 {
		return nil, errors.Join(err, lookErr)
	}
	return do(slices.DeleteFunc(slices.Clone(items), func(item T) bool { return !slices.Contains(free, id(item)) }))
}

// ClaimLockTimeout is the lock_timeout for connections that claim: how long a combined settle and claim waits for the
// row of an item that it settles. It is short because all other claims queue behind it. Items that it could not settle
// are settled separately, where they block no claim.
const ClaimLockTimeout = 100 * time.Millisecond
