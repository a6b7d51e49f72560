package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// MaxMaxClaims is the maximum of Settings.MaxClaims.
const MaxMaxClaims = 100_000

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
	// WorkflowIDBytes is how many bytes a workflow ID may have that an item names.
	WorkflowIDBytes int
	// NotifyEnded is whether ends of items are notified on the channel pgdispatch_ended.
	NotifyEnded bool
}

// Settings returns the settings.
func (s *Store) Settings(ctx context.Context) (Settings, error) {
	found, err := s.settings(ctx, "read settings", sql.Text("settings_get"), 1)
	if err != nil {
		return Settings{}, err
	}
	return found[0], nil
}

// SettingsChange is the settings after a change and before it.
type SettingsChange struct{ Is, Was Settings }

// ChangeSettings changes the settings in the patch. The audit log records who.
func (s *Store) ChangeSettings(ctx context.Context, patch Patch, who string) (SettingsChange, error) {
	if s.Scope != nil {
		return SettingsChange{}, fmt.Errorf("change settings: %w", ErrAll)
	}
	found, err := s.settings(ctx, "change settings", sql.Text("settings_set"), 2, patch.text(), who)
	if err != nil {
		return SettingsChange{}, err
	}
	return SettingsChange{Is: found[1], Was: found[0]}, nil
}

// settings runs a statement that returns this number of versions of the only row of settings.
func (s *Store) settings(ctx context.Context, verb, statement string, versions int, args ...any) ([]Settings, error) {
	found, err := postgres.Read[Settings](ctx, s.DB, verb, statement, args...)
	if err == nil && len(found) != versions {
		err = fmt.Errorf("%s: pgdispatch.settings must have one row", verb)
	}
	return found, err
}

// Administered is a change made from the command line or from a page: an entry of the audit log.
type Administered struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Who     string          `json:"who"`  // the author, as given
	Role    string          `json:"role"` // the Postgres role that made the change
	Action  string          `json:"action"`
	Subject string          `json:"subject"`
	Details json.RawMessage `json:"details"`
}

// AuditFilter selects changes. The zero value selects all.
type AuditFilter struct {
	Who    string // empty means any
	Action string // beginning of the action; empty means any
	Since  Moment
	Until  Moment
	Before int64 // only changes with a lower ID; zero means any
	// Subject is what was changed, such as "settings" or "workspace " and an ID. Empty means any. Otherwise only the
	// newest 10,000 changes are searched.
	Subject string
}

// changesLooked is the number of newest changes that are searched for a subject.
const changesLooked = 10_000

// Audit returns up to atMost changes made from the command line and from pages, the newest first. In scope are only
// changes of workspaces.
func (s *Store) Audit(ctx context.Context, f AuditFilter, atMost int) ([]Administered, error) {
	var looked *int
	if f.Subject != "" {
		looked = postgres.OrNull(changesLooked)
	}
	return postgres.Read[Administered](ctx, s.DB, "read the log of changes", sql.Text("audit_list"),
		postgres.OrNull(f.Who), postgres.OrNull(f.Action),
		f.Since.At, f.Since.Ago, f.Until.At, f.Until.Ago, postgres.OrNull(f.Before), atMost, postgres.OrNull(f.Subject),
		looked, s.Scope)
}
