// Package claim is the store: the one package that executes SQL for the dispatcher, the sweeper and the watcher.
//
// A Store's methods are one statement each, and each statement is in package sql. What a method reports as done is
// committed; what it reports as an error may be committed or not, because an answer can be lost after a commit. Nothing
// needs to know which: a claim that was lost expires, and a settle that is repeated changes nothing.
package claim

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

// ErrLost is what an owner is told whose lease is no longer its own: it expired, and somebody else may hold the item.
// The update that was refused changed nothing.
var ErrLost = errors.New("lease lost")

// ErrApart is a claim that settled and claimed nothing because of an item that it was to settle, or to take beside: somebody keeps its
// row locked, or a trigger or a constraint refuses the update. Settle apart, and claim again.
var ErrApart = errors.New("settle and claim apart")

// Statement timeouts. A statement that takes longer is given up by the replica; the database may still finish it.
const (
	// claimTimeout bounds a claim, its wait for other claims included.
	claimTimeout = 10 * time.Second
	// settleTimeout bounds every other statement that a worker, the sweeper or the watcher waits for.
	settleTimeout = 5 * time.Second
)

// Item is a leased item and everything that starting its workflow needs.
type Item struct {
	ID    int64
	Token int64 // changes at every claim; a settle with an older one is refused

	ExecutionID                 string
	WorkspaceID                 string
	WorkflowDefinitionID        string
	WorkflowDefinitionVersionID string

	// Namespace is where its workflow is to be started, and found if it was.
	Namespace        string
	WorkflowType     string
	TaskQueue        string
	ExecutionTimeout time.Duration // 0: none
	NodeIDs          []byte        // a JSON array of strings, as stored
	Params           []byte        // a JSON object, as stored; never decoded
	Traceparent      string        // "": none

	AttemptCount int // this claim included
	FailureCount int // earlier failures of the item's own
	MaxAttempts  int

	// OutcomeUnknown: an earlier start was sent and never answered, so the workflow may be running.
	OutcomeUnknown bool
	// UnansweredFor is how long ago the first of those starts was sent, at the most, by the database's clock; 0 where the
	// outcome is known.
	UnansweredFor time.Duration
	// Priority is the level of its workspace at which it waited.
	Priority int
	// Problem says why the item cannot be started as it is, such as "workspace not found"; "": it can.
	Problem string
	// Waited is how long the item has been due, by the database's clock.
	Waited time.Duration
	// Deadline is when the lease ends at the latest, by this process's monotonic clock. It was set before the claim was
	// sent, so it is never later than the database's own end of the lease.
	Deadline time.Time
}

// WorkflowID is the ID that the item's workflow has in Temporal, the same for every attempt.
func (i Item) WorkflowID() string { return "execution-" + i.ExecutionID }

// Wanted says what a claim is to give.
type Wanted struct {
	AtMost int
	// Holding is how many items the replica has in its hands that this claim does not end.
	Holding int
	// Named are the payloads of notifications: hints of where items wait.
	Named []string
	// Look: something may have changed that no notification named. Quiet: whatever changes is announced, so there is no need to look.
	Look, Quiet bool
	// Namespaces are those that take no items for now, or not as many: of each, at most so many are given. A lane whose next
	// hundred items of a priority are all of namespaces that take none is looked at again after 3 s.
	Namespaces map[string]int
}

// Batch is the answer to a claim.
type Batch struct {
	Items []Item
	// Asked is how many entries the proposal had, and Vain how many of them gave nothing; 0: no claim was sent.
	Asked, Vain int
	// Unannounced is how many workspaces were found to have something due of which nobody had said so.
	Unannounced int
	// Flush is how long the commit took, at the most; 0: there was none. It includes a round trip.
	Flush time.Duration
	// Parked are the items that were found to be refused by a trigger or a constraint of the database. Others are claimed meanwhile.
	Parked []Parked
	// Arrived is how many items were found to have come by a look.
	Arrived int
	// More: more is due than was given, as far as is known.
	More bool
	// Capped: W left room for less than was asked for. Where More is due too, it is W that holds it back.
	Capped bool
	// Paused: the settings say that nothing is to be claimed.
	Paused bool
	// AtCapacity names workspaces that are at their limit and have more waiting, each once until it has room again.
	AtCapacity []Full
	// LookAgainIn is how long until an item that waits for its time is due; negative: none does.
	LookAgainIn time.Duration
}

// Full is a workspace at its limit.
type Full struct {
	WorkspaceID string `json:"workspace_id"`
	Active      int    `json:"active"`
	Limit       int    `json:"limit"`
}

// Database is what a Store executes its statements on: a pool, or one connection.
type Database interface {
	querier
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// Store executes the statements. Its zero value is not ready: Pool and Owner are needed.
type Store struct {
	// Pool is for claims, whose commit must survive a crash of the database: see Async.
	Pool Database
	// Async is for everything else, and may commit with synchronous_commit = off: what a crash of the database makes it
	// forget is found again, by the lease or by asking Temporal. Nil: Pool.
	//
	// A claim must not be forgotten, because its slot would be given to another item while the first one's workflow runs.
	Async Database
	// Owner is this replica's name, unique among all replicas that ever ran at the same time.
	Owner string
	// Lease is how long a claim or a heartbeat holds an item.
	Lease time.Duration
	// Namespace is where workflows are started whose definition names none.
	Namespace string
	// CanWatch says whether this replica has room to watch the ends of so many executions that it has just started, or is about to;
	// it must not block. Where it has not, they are settled as watched by nobody, for others to adopt. Nil: it has.
	CanWatch func(executions int) bool

	memory memory
}

func (s *Store) async() Database {
	if s.Async != nil {
		return s.Async
	}
	return s.Pool
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// Held names a leased item for a heartbeat.
type Held struct{ ID, Token int64 }

// Heartbeat renews leases, all in one statement, and returns the IDs that were renewed. What is missing is lost: it expired, or
// will, because somebody keeps its row locked, or a trigger or a constraint of the database refuses the update.
func (s *Store) Heartbeat(ctx context.Context, held []Held) ([]int64, error) {
	return aroundLocks(ctx, s, held, func(h Held) int64 { return h.ID }, func(held []Held) ([]int64, error) {
		renewed, err := inHalves(held, func(held []Held) ([]int64, error) {
			ids, tokens := make([]int64, len(held)), make([]int64, len(held))
			for n, h := range held {
				ids[n], tokens[n] = h.ID, h.Token
			}
			return s.ids(ctx, "renew leases", sql.Heartbeat, ids, tokens, s.Lease)
		})
		if refused(err) && len(renewed) > 0 {
			err = nil
		}
		return renewed, err
	})
}

// ids runs a statement that returns the IDs it moved.
func (s *Store) ids(ctx context.Context, verb, statement string, args ...any) ([]int64, error) {
	return rows(ctx, s.async(), settleTimeout, verb, pgx.RowTo[int64], statement, args...)
}

// exec runs a statement that returns nothing.
func (s *Store) exec(ctx context.Context, verb, statement string, args ...any) error {
	return exec(ctx, s.async(), settleTimeout, verb, statement, args...)
}
