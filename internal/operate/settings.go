package operate

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

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
	// NotifyEnded is whether ends of items are notified on the channel pgdispatch_ended.
	NotifyEnded bool
}

// Settings returns the settings.
func (s *Store) Settings(ctx context.Context) (Settings, error) {
	return oneSettings[Settings](ctx, s, "read settings", sql.Text("settings_get"))
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
	Unanswered             int64          `json:"unanswered"`        // they hold slots; see Depth
	OldestWaiting          *time.Duration `json:"oldest_waiting_ns"` // nil if nothing waits
}

// WorkspaceStatistics returns up to atMost workspaces, those with the most items first.
func (s *Store) WorkspaceStatistics(ctx context.Context, atMost int) ([]WorkspaceStatistics, error) {
	return postgres.Read[WorkspaceStatistics](ctx, s.DB, "read workspace statistics", sql.Text("workspace_statistics"),
		atMost)
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
	return postgres.Read[Replica](ctx, s.DB, "read replicas", sql.Text("replicas"))
}
