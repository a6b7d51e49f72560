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
	// NotifyEnded is whether ends of items are notified on the channel pgdispatch_ended.
	NotifyEnded bool
}

// Settings returns the settings.
func (s *Store) Settings(ctx context.Context) (Settings, error) {
	return oneSettings[Settings](ctx, s, "read settings", sql.Text("settings_get"))
}

// SettingsChange is the settings after a change and before it.
type SettingsChange struct{ Is, Was Settings }

// SetSettings changes the settings whose argument is not nil. The audit log records who.
func (s *Store) SetSettings(ctx context.Context, maxClaims *int, paused *bool, resultBytes *int,
	who string) (SettingsChange, error) {
	return s.change(ctx, "change settings", sql.Text("settings_set"), maxClaims, paused, resultBytes, (*bool)(nil), who)
}

// SetNotifyEnded changes whether ends are announced to applications.
func (s *Store) SetNotifyEnded(ctx context.Context, on bool, who string) (SettingsChange, error) {
	return s.change(ctx, "change settings", sql.Text("settings_set"), (*int)(nil), (*bool)(nil), (*int)(nil), on, who)
}

// SetRetention changes how long finished items are kept, except for open dead letters. Nil keeps them forever.
func (s *Store) SetRetention(ctx context.Context, keep *time.Duration, who string) (SettingsChange, error) {
	return s.change(ctx, "change retention", sql.Text("retention_set"), true, keep, false, (*time.Duration)(nil), who)
}

// SetDeadLetterRetention changes how long open dead letters are kept. Nil keeps them for as long as they are open.
func (s *Store) SetDeadLetterRetention(ctx context.Context, keep *time.Duration, who string) (SettingsChange, error) {
	return s.change(ctx, "change retention of dead letters", sql.Text("retention_set"), false, (*time.Duration)(nil),
		true, keep, who)
}

// changedSettings is a row of the statements that change settings.
type changedSettings struct {
	Settings
	WasMaxClaims           int
	WasPaused              bool
	WasRetention           *time.Duration
	WasDeadLetterRetention *time.Duration
	WasResultBytes         int
	WasNotifyEnded         bool
}

func (s *Store) change(ctx context.Context, verb, statement string, args ...any) (SettingsChange, error) {
	if s.Scope != nil {
		return SettingsChange{}, fmt.Errorf("%s: %w", verb, ErrAll)
	}
	c, err := oneSettings[changedSettings](ctx, s, verb, statement, args...)
	was := Settings{c.WasMaxClaims, c.WasPaused, c.WasRetention, c.WasDeadLetterRetention, c.WasResultBytes,
		c.WasNotifyEnded}
	return SettingsChange{Is: c.Settings, Was: was}, err
}

func oneSettings[T any](ctx context.Context, s *Store, verb, statement string, args ...any) (T, error) {
	settings, err := postgres.Read[T](ctx, s.DB, verb, statement, args...)
	if err == nil && len(settings) != 1 {
		err = fmt.Errorf("%s: pgdispatch.settings has %d rows, it must have one", verb, len(settings))
	}
	if err != nil {
		var none T
		return none, err
	}
	return settings[0], nil
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
