package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/sql"
)

// Swept is the result of a sweep.
type Swept struct {
	Requeued int // items whose lease expired and that are PENDING again
	// NextExpiryIn is the time until the next expiry of an item's lease or of a replica's presence. Nil if there is
	// neither.
	NextExpiryIn *time.Duration
	// Shortened is the number of leases shortened because they were set before the database's clock was set back, and
	// would have lasted until the clock caught up.
	Shortened int
	// Now is the database's time.
	Now time.Time
	// Open is the number of running executions, and Mine the number of those that this replica is recorded to watch.
	Open, Mine int
	// Unwatched reports whether no live replica watches some of them.
	Unwatched bool
	// Stops reports whether requests to stop executions are open.
	Stops bool
	// Deletes reports whether a retention is set.
	Deletes bool
	// Namespaces are the namespaces that definitions name. It contains "" if some definitions name none.
	Namespaces []string
	// NotifyQueue is the used fraction of the Postgres cluster's notification queue, 0 to 1.
	NotifyQueue float64
}

// Sweep returns up to atMost items whose lease expired to PENDING, and reports the work that there is for other
// components. Sweeps are safe to run concurrently with each other and with claims.
func (s *Store) Sweep(ctx context.Context, atMost int) (Swept, error) {
	swept, err := read[Swept](ctx, s.async(), "sweep", sql.Sweep, atMost, s.Owner)
	if err != nil || len(swept) == 0 {
		return Swept{}, err
	}
	return swept[0], nil
}

// Finish records the end of an execution. Outcome is Temporal's name for it. Finish returns false if the end was
// recorded before or no start was sent. If the item is still CLAIMED, the end takes effect when its start is settled.
// Reason is why the execution did not complete or, if it completed, a note on its result. Result is JSON; empty means
// none. A result that exceeds Settings.ResultBytes or that Postgres rejects is not stored.
func (s *Store) Finish(ctx context.Context, executionID, outcome, reason, result string) (bool, error) {
	return one[bool](ctx, s.async(), settleTimeout, "finish execution", sql.Finish, executionID, outcome, optional(Clean(reason)), optional(result))
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
func (s *Store) FinishAll(ctx context.Context, ends []Ended) (first map[string]bool, err error) {
	var (
		ids      = make([]string, len(ends))
		outcomes = make([]string, len(ends))
		reasons  = make([]*string, len(ends))
		results  = make([]*string, len(ends))
	)
	for n, end := range ends {
		ids[n], outcomes[n], reasons[n], results[n] = end.ExecutionID, end.Outcome, optional(Clean(end.Reason)), optional(end.Result)
	}
	type answer struct {
		ID    string
		First bool
	}
	answers, err := read[answer](ctx, s.async(), "finish executions", sql.FinishAll, ids, outcomes, reasons, results)
	first = make(map[string]bool, len(answers))
	for _, a := range answers {
		first[a.ID] = a.First
	}
	return first, err
}

// Alive records that this replica is alive, for one lease duration from now.
func (s *Store) Alive(ctx context.Context, p Presence) error {
	state, err := json.Marshal(p.State)
	if err != nil {
		return fmt.Errorf("renew replica: %w", err)
	}
	return s.exec(ctx, "renew replica", sql.ReplicaAlive, s.Owner, p.Version, p.Workers, s.Lease, optional(s.Namespace), string(state))
}

// ReleaseOwned releases all items that are still leased to this replica and returns their number. Call it at shutdown,
// when no worker holds an item.
func (s *Store) ReleaseOwned(ctx context.Context) (int, error) {
	ids, err := s.ids(ctx, "release owned items", sql.ReleaseOwned, s.Owner)
	return len(ids), err
}

// Gone records that this replica has stopped, so that other replicas can adopt its executions at once.
func (s *Store) Gone(ctx context.Context) error {
	return s.exec(ctx, "remove replica", sql.ReplicaGone, s.Owner)
}

// Holder is a session that may keep Postgres from emptying the notification queue.
type Holder struct {
	PID                         int
	Role, Database, Application string
	Age                         *time.Duration // of its transaction; nil if this role may not see it
}

// String describes the session and how to end it.
func (h Holder) String() string {
	age := ""
	if h.Age != nil {
		age = fmt.Sprintf(", in one transaction for %s", h.Age.Round(time.Second))
	}
	return fmt.Sprintf("pid %d, role %q, database %q, application %q%s: `select pg_terminate_backend(%d)`", h.PID, h.Role, h.Database, h.Application, age, h.PID)
}

// NotifyHolder returns the session with the oldest transaction in the cluster. Nil if no other session is in a
// transaction.
func (s *Store) NotifyHolder(ctx context.Context) (*Holder, error) {
	holders, err := read[Holder](ctx, s.async(), "look for the session that holds the notification queue", sql.NotifyHolder)
	if err != nil || len(holders) == 0 {
		return nil, err
	}
	return &holders[0], nil
}

// Ping notifies a channel, to check whether LISTEN still delivers.
func (s *Store) Ping(ctx context.Context, channel, payload string) error {
	return s.exec(ctx, "ping listener", sql.Ping, channel, payload)
}

// Settings are shared by all replicas. Every claim reads them, so a change applies to the next claim.
type Settings struct {
	MaxClaims int  // W: the maximum number of leased items across all replicas
	Paused    bool // whether all claims are paused
	// Retention is how long finished items are kept. Nil keeps them forever.
	Retention *time.Duration
	// DeadLetterRetention is how long open dead letters are kept. Nil keeps them for as long as they are open.
	DeadLetterRetention *time.Duration
	// ResultBytes is the maximum size in bytes of a stored workflow result. Larger results are not stored. Zero stores
	// none.
	ResultBytes int
}

// Settings returns the settings.
func (s *Store) Settings(ctx context.Context) (Settings, error) {
	return s.settings(ctx, "read settings", sql.SettingsGet)
}

// SetSettings changes the settings whose argument is not nil, and returns all settings. The audit log records who.
func (s *Store) SetSettings(ctx context.Context, maxClaims *int, paused *bool, resultBytes *int, who string) (Settings, error) {
	return s.settings(ctx, "change settings", sql.SettingsSet, maxClaims, paused, resultBytes, who)
}

func (s *Store) settings(ctx context.Context, verb, statement string, args ...any) (Settings, error) {
	settings, err := read[Settings](ctx, s.Pool, verb, statement, args...)
	if err == nil && len(settings) != 1 {
		err = fmt.Errorf("%s: pgdispatch.settings has %d rows, it must have one", verb, len(settings))
	}
	if err != nil {
		return Settings{}, err
	}
	return settings[0], nil
}

// WorkspaceStatistics is the current state of a workspace.
type WorkspaceStatistics struct {
	WorkspaceID            string         `json:"workspace_id"`
	Name                   string         `json:"name"`
	Plan                   string         `json:"plan"`
	Paused                 bool           `json:"paused"`
	MaxConcurrentWorkflows int            `json:"max_concurrent_workflows"`
	Waiting                int64          `json:"waiting"`
	Claimed                int64          `json:"claimed"`
	Running                int64          `json:"running"`
	OldestWaiting          *time.Duration `json:"oldest_waiting_ns"` // nil if nothing waits
}

// WorkspaceStatistics returns up to atMost workspaces, those with the most items first.
func (s *Store) WorkspaceStatistics(ctx context.Context, atMost int) ([]WorkspaceStatistics, error) {
	return read[WorkspaceStatistics](ctx, s.Pool, "read workspace statistics", sql.WorkspaceStatistics, atMost)
}

// Replica is a live replica.
type Replica struct {
	ID       string        `json:"id"`
	Version  string        `json:"version"`
	Workers  int           `json:"workers"`
	Up       time.Duration `json:"up_ns"`
	Leased   int64         `json:"leased"`
	Watching int64         `json:"watching"`
	Heard    time.Duration `json:"heard_ns"` // time since its last heartbeat
	State    ReplicaState  `json:"state"`    // as of its last heartbeat
}

// Replicas returns the live replicas, the oldest first.
func (s *Store) Replicas(ctx context.Context) ([]Replica, error) {
	return read[Replica](ctx, s.Pool, "read replicas", sql.Replicas)
}
