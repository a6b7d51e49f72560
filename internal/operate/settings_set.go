package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

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
