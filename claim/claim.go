// Package claim is the store: the one package that executes SQL for the dispatcher, the sweeper and the watcher.
//
// A Store's methods are one statement each, and each statement is in package sql. What a method reports as done is
// committed; what it reports as an error may be committed or not, because an answer can be lost after a commit. Nothing
// needs to know which: a claim that was lost expires, and a settle that is repeated changes nothing.
package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/sql"
)

// ErrLost is what an owner is told whose lease is no longer its own: it expired, and somebody else may hold the item.
// The update that was refused changed nothing.
var ErrLost = errors.New("lease lost")

// ErrLocked is a claim that was to settle an item whose row somebody else keeps locked. It settled and claimed nothing.
var ErrLocked = errors.New("an item to settle is locked")

// Statement timeouts. A statement that takes longer is given up by the replica; the database may still finish it.
const (
	// claimTimeout bounds a claim, its wait for other claims included.
	claimTimeout = 10 * time.Second
	// settleTimeout bounds every other statement that a worker, the sweeper or the watcher waits for.
	settleTimeout = 5 * time.Second
	// recountTimeout bounds the sweeper's recount, which reads every open item.
	recountTimeout = time.Minute
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
	// Namespaces are those that take no items for now, or not as many: of each, at most so many are given. A lane whose next
	// hundred items of a priority are all of namespaces that take none is looked at again after 3 s.
	Namespaces map[string]int
}

// Batch is the answer to a claim.
type Batch struct {
	Items []Item
	// More: more is due than was given.
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

// Store executes the statements. Its zero value is not ready: Pool and Owner are needed.
type Store struct {
	// Pool is for claims, whose commit must survive a crash of the database: see Async.
	Pool *pgxpool.Pool
	// Async is for everything else, and may commit with synchronous_commit = off: what a crash of the database makes it
	// forget is found again, by the lease or by asking Temporal. Nil: Pool.
	//
	// A claim must not be forgotten, because its slot would be given to another item while the first one's workflow runs.
	Async *pgxpool.Pool
	// Owner is this replica's name, unique among all replicas that ever ran at the same time.
	Owner string
	// Lease is how long a claim or a heartbeat holds an item.
	Lease time.Duration
	// Namespace is where workflows are started whose definition names none.
	Namespace string
	// CanWatch says whether this replica has room to watch the ends of so many executions that it has just started, or is about to;
	// it must not block. Where it has not, they are settled as watched by nobody, for others to adopt. Nil: it has.
	CanWatch func(executions int) bool
}

func (s *Store) async() *pgxpool.Pool {
	if s.Async != nil {
		return s.Async
	}
	return s.Pool
}

// Claim leases up to atMost due items. Limits hold exactly, over all replicas: W, every workspace's own, and pauses.
func (s *Store) Claim(ctx context.Context, atMost int) (Batch, error) {
	batch, _, err := s.SettleAndClaim(ctx, nil, Wanted{AtMost: atMost})
	return batch, err
}

// SettleAndClaim ends claims whose workflows were started and claims anew, in one transaction: what the first part frees,
// the second can give away. It returns the IDs that it ended; what is missing was lost. After an error nobody knows whether
// it was done: settling once more changes nothing where it was. After ErrLocked it was not.
func (s *Store) SettleAndClaim(ctx context.Context, started []Settlement, wanted Wanted) (Batch, []int64, error) {
	const verb = "claim items"
	batch, deadline := Batch{LookAgainIn: -1}, time.Now().Add(s.Lease)
	ctx, cancel := bounded(ctx, claimTimeout, verb)
	defer cancel()
	statements := &pgx.Batch{}
	var settled []int64
	if len(started) > 0 {
		statements.Queue(sql.Dispatched, s.dispatchedArgs(started)...).Query(func(rows pgx.Rows) (err error) {
			settled, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			if hasCode(err, lockNotAvailable) {
				err = fmt.Errorf("%w: %w", ErrLocked, err)
			}
			return err
		})
	}
	namespaces, allowed := make([]string, 0, len(wanted.Namespaces)), make([]int, 0, len(wanted.Namespaces))
	for namespace, items := range wanted.Namespaces {
		namespaces, allowed = append(namespaces, namespace), append(allowed, items)
	}
	statements.Queue(sql.Claim, s.Owner, wanted.AtMost, s.Lease, optional(s.Namespace), namespaces, allowed, s.watcher(wanted.AtMost)).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			if err := scan(rows, deadline, &batch); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	// One transaction without a BEGIN, because a batch is one.
	if err := s.Pool.SendBatch(ctx, statements).Close(); err != nil {
		return Batch{LookAgainIn: -1}, nil, named(ctx, s.Pool, verb, err)
	}
	return batch, settled, nil
}

func scan(row pgx.Row, deadline time.Time, batch *Batch) error {
	var (
		i                                         Item
		id, token                                 *int64
		execution, workspace, definition, version *string
		namespace, workflowType, taskQueue        *string
		nodes, params, trace, pr                  *string
		full                                      *string
		timeout, waited, unansweredFor, lookAgain *time.Duration
		attempts, failures, maxAttempts           *int
		unknown, more, capped, paused             *bool
	)
	if err := row.Scan(&id, &token, &execution, &workspace, &definition, &version, &namespace, &workflowType, &taskQueue, &timeout,
		&nodes, &params, &trace, &attempts, &failures, &maxAttempts, &unknown, &unansweredFor, &pr, &waited, &more, &capped, &lookAgain,
		&paused, &full); err != nil {
		return err
	}
	if id == nil {
		batch.More, batch.Capped, batch.Paused = value(more), value(capped), value(paused)
		if full != nil {
			if err := json.Unmarshal([]byte(*full), &batch.AtCapacity); err != nil {
				return fmt.Errorf("read at_capacity: %w", err)
			}
		}
		if lookAgain != nil {
			batch.LookAgainIn = max(*lookAgain, 0)
		}
		return nil
	}
	i.ID, i.Token, i.Deadline = *id, *token, deadline
	i.ExecutionID, i.WorkspaceID = value(execution), value(workspace)
	i.WorkflowDefinitionID, i.WorkflowDefinitionVersionID = value(definition), value(version)
	i.Namespace, i.WorkflowType, i.TaskQueue, i.ExecutionTimeout = value(namespace), value(workflowType), value(taskQueue), value(timeout)
	i.NodeIDs, i.Params, i.Traceparent = []byte(value(nodes)), []byte(value(params)), value(trace)
	i.AttemptCount, i.FailureCount, i.MaxAttempts = value(attempts), value(failures), value(maxAttempts)
	i.OutcomeUnknown, i.UnansweredFor = value(unknown), value(unansweredFor)
	i.Problem, i.Waited = value(pr), value(waited)
	batch.Items = append(batch.Items, i)
	return nil
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
// will, because somebody keeps its row locked.
func (s *Store) Heartbeat(ctx context.Context, held []Held) ([]int64, error) {
	return aroundLocks(ctx, s, held, func(h Held) int64 { return h.ID }, func(held []Held) ([]int64, error) {
		ids, tokens := make([]int64, len(held)), make([]int64, len(held))
		for n, h := range held {
			ids[n], tokens[n] = h.ID, h.Token
		}
		return s.ids(ctx, "renew leases", sql.Heartbeat, ids, tokens, s.Lease)
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
