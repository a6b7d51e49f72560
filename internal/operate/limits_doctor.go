package operate

import (
	"context"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// judgedLimits is how many limits doctor judges, the oldest.
	judgedLimits = 1000
	// unlimitedKeys is how many keys without a limit doctor compares with theirs.
	unlimitedKeys = 500
)

// LimitFacts is what doctor judges a limit by.
type LimitFacts struct {
	KeyLimit
	WorkspaceMax *int // how many items its workspace may run in a burst; nil: a limit over all workspaces
	// Waits reports whether an item with the key waits, among the 10,000 that arrived first.
	Waits bool
}

// LimitKey is a limit key of items in a workspace.
type LimitKey struct{ Key, WorkspaceID string }

// LimitFacts returns the facts of the first 1,000 limits.
func (s *Store) LimitFacts(ctx context.Context) ([]LimitFacts, error) {
	limits, err := s.KeyLimits(ctx, KeyLimitFilter{}, judgedLimits)
	if err != nil || len(limits) == 0 {
		return nil, err
	}
	type found struct {
		ID           int64
		WorkspaceMax *int
		Waits        bool
	}
	rows, err := postgres.Read[found](ctx, s.DB, "read limits", sql.Text("doctor_limits"), judgedLimits, depthLimit)
	of := map[int64]found{}
	for _, row := range rows {
		of[row.ID] = row
	}
	facts := make([]LimitFacts, len(limits))
	for n, l := range limits {
		facts[n] = LimitFacts{l, of[l.ID].WorkspaceMax, of[l.ID].Waits}
	}
	return facts, err
}

// UnlimitedKeys returns limit keys of items that wait or hold slots for which there is no limit.
func (s *Store) UnlimitedKeys(ctx context.Context) ([]LimitKey, error) {
	return postgres.Read[LimitKey](ctx, s.DB, "read limit keys", sql.Text("doctor_limit_keys"), depthLimit, unlimitedKeys)
}
