package claim

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/sql"
)

// Swept is what a sweep found.
type Swept struct {
	Requeued int // items whose lease ran out and that are PENDING again
	// NextExpiryIn is how long until the next lease runs out, or the presence of a replica; nil: there is neither.
	NextExpiryIn *time.Duration
	// Shortened counts leases from before the database's clock was set back, which would have held until it has caught up.
	Shortened int
	// Now is the database's time.
	Now time.Time
	// Open is how many executions run, and Mine how many of them this replica is to watch.
	Open, Mine int
	// Unwatched: nobody alive watches some of them.
	Unwatched bool
	// Stops: requests to stop executions are open.
	Stops bool
	// Deletes: a retention is set.
	Deletes bool
	// Namespaces are those that definitions name, "" among them where some name none.
	Namespaces []string
	// NotifyQueue is how full the notification queue of the Postgres cluster is, 0 to 1.
	NotifyQueue float64
}

// Sweep puts at most so many items whose lease ran out back to PENDING, and returns what other components have to do.
// Any number of sweeps may run at once, beside any number of claims.
func (s *Store) Sweep(ctx context.Context, atMost int) (Swept, error) {
	swept, err := read[Swept](ctx, s.async(), "sweep", sql.Sweep, atMost, s.Owner)
	if err != nil || len(swept) == 0 {
		return Swept{}, err
	}
	return swept[0], nil
}

// Finish records the end of an execution: outcome is Temporal's name for it. It returns false where it had been recorded
// before, or where no start was sent. An end of an item that is still CLAIMED takes effect when its start is settled. The reason
// is why it did not complete; of one that did, a note on its result. The result is JSON, "": none; one that is too large for the
// settings, or that Postgres does not take, is left out.
func (s *Store) Finish(ctx context.Context, executionID, outcome, reason, result string) (bool, error) {
	return one[bool](ctx, s.async(), settleTimeout, "finish execution", sql.Finish, executionID, outcome, optional(Clean(reason)), optional(result))
}

// Ended is how an execution ended, as Finish is told it.
type Ended struct {
	ExecutionID string
	Outcome     string
	Reason      string
	Result      string
}

// FinishAll is Finish for many executions in one statement, each of them once. It answers for those that it could see to, and waits for
// nobody: what is missing from the answer is left to Finish. Where it fails, some of them may be recorded or none.
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

// Alive says that this replica lives, for one lease from now.
func (s *Store) Alive(ctx context.Context, p Presence) error {
	state, err := json.Marshal(p.State)
	if err != nil {
		return fmt.Errorf("renew replica: %w", err)
	}
	return s.exec(ctx, "renew replica", sql.ReplicaAlive, s.Owner, p.Version, p.Workers, s.Lease, optional(s.Namespace), string(state))
}

// ReleaseOwned gives back whatever is still leased to this replica, and returns how many items that was. It is for the end,
// when no worker holds any.
func (s *Store) ReleaseOwned(ctx context.Context) (int, error) {
	ids, err := s.ids(ctx, "release owned items", sql.ReleaseOwned, s.Owner)
	return len(ids), err
}

// Gone says that this replica ends, so that others take over its watches at once.
func (s *Store) Gone(ctx context.Context) error {
	return s.exec(ctx, "remove replica", sql.ReplicaGone, s.Owner)
}

// Holder is a session that may keep the notification queue from being emptied.
type Holder struct {
	PID                         int
	Role, Database, Application string
	Age                         *time.Duration // of its transaction; nil: this role may not see it
}

// String says which session it is, and how to end it.
func (h Holder) String() string {
	age := ""
	if h.Age != nil {
		age = fmt.Sprintf(", in one transaction for %s", h.Age.Round(time.Second))
	}
	return fmt.Sprintf("pid %d, role %q, database %q, application %q%s: `select pg_terminate_backend(%d)`", h.PID, h.Role, h.Database, h.Application, age, h.PID)
}

// NotifyHolder returns the session that has been in one transaction for longest, nil where none is in one.
func (s *Store) NotifyHolder(ctx context.Context) (*Holder, error) {
	holders, err := read[Holder](ctx, s.async(), "look for the session that holds the notification queue", sql.NotifyHolder)
	if err != nil || len(holders) == 0 {
		return nil, err
	}
	return &holders[0], nil
}

// Ping notifies a channel, to see whether LISTEN still delivers.
func (s *Store) Ping(ctx context.Context, channel, payload string) error {
	return s.exec(ctx, "ping listener", sql.Ping, channel, payload)
}

// Settings are the ones that all replicas share. They are read at every claim, so a change holds at once.
type Settings struct {
	MaxClaims int  // W: how many items may be leased at once, over all replicas
	Paused    bool // nothing is claimed
	// Retention is how long a finished item is kept; nil: for ever.
	Retention *time.Duration
	// DeadLetterRetention is how long a dead letter is kept that nobody has seen to; nil: until somebody has.
	DeadLetterRetention *time.Duration
	// ResultBytes is how many bytes of a workflow's result are kept; a longer one is left out. 0: none.
	ResultBytes int
}

// Settings reads the settings.
func (s *Store) Settings(ctx context.Context) (Settings, error) {
	return s.settings(ctx, "read settings", sql.SettingsGet)
}

// SetSettings changes the settings that are not nil, and returns all.
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

// WorkspaceStatistics is one workspace as it is now.
type WorkspaceStatistics struct {
	WorkspaceID            string         `json:"workspace_id"`
	Name                   string         `json:"name"`
	Plan                   string         `json:"plan"`
	Paused                 bool           `json:"paused"`
	MaxConcurrentWorkflows int            `json:"max_concurrent_workflows"`
	Waiting                int64          `json:"waiting"`
	Claimed                int64          `json:"claimed"`
	Running                int64          `json:"running"`
	OldestWaiting          *time.Duration `json:"oldest_waiting_ns"` // nil: nothing waits
}

// WorkspaceStatistics reads at most so many workspaces, those with the most items first.
func (s *Store) WorkspaceStatistics(ctx context.Context, atMost int) ([]WorkspaceStatistics, error) {
	return read[WorkspaceStatistics](ctx, s.Pool, "read workspace statistics", sql.WorkspaceStatistics, atMost)
}

// Replica is one that lives.
type Replica struct {
	ID       string        `json:"id"`
	Version  string        `json:"version"`
	Workers  int           `json:"workers"`
	Up       time.Duration `json:"up_ns"`
	Leased   int64         `json:"leased"`
	Watching int64         `json:"watching"`
	Heard    time.Duration `json:"heard_ns"` // how long ago its last heartbeat was
	State    ReplicaState  `json:"state"`    // at that time
}

// Replicas reads the replicas that live, the oldest first.
func (s *Store) Replicas(ctx context.Context) ([]Replica, error) {
	return read[Replica](ctx, s.Pool, "read replicas", sql.Replicas)
}
