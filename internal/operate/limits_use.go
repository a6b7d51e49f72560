package operate

import (
	"cmp"
	"context"
	"slices"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// UsedLimit is a limit with its use.
type UsedLimit struct {
	KeyLimit
	// Waiting is how many due items with the key wait, among the 10,000 waiting items that arrived first.
	Waiting int64 `json:"waiting"`
}

// LimitUse is how the limits of keys are used, as seen from the newest 10,000 items that hold slots and the 10,000
// waiting items that arrived first.
type LimitUse struct {
	Limits []UsedLimit `json:"limits"` // the most used first
	// OthersActive and OthersWaiting are the sums of the limits that Limits leaves out.
	OthersActive  int64 `json:"others_active"`
	OthersWaiting int64 `json:"others_waiting"`
	// Behind is how many items wait for a full one of Limits.
	Behind int64 `json:"behind"`
}

// limitUseRow is a limit, or, without a key, the sums of the others.
type limitUseRow struct {
	UsedLimit
	Behind int64
}

// Full returns the full limits, those with the most waiting items first.
func (u LimitUse) Full() []UsedLimit {
	full := slices.DeleteFunc(slices.Clone(u.Limits), func(l UsedLimit) bool { return !l.Full() })
	slices.SortStableFunc(full, func(a, b UsedLimit) int { return cmp.Compare(b.Waiting, a.Waiting) })
	return full
}

// LimitUse returns the atMost most used limits. Its cost does not grow with the queue or with the number of limits.
func (s *Store) LimitUse(ctx context.Context, atMost int) (u LimitUse, err error) {
	rows, err := postgres.Read[limitUseRow](ctx, s.DB, "read the use of limits", sql.Text("limits_in_use"), depthLimit,
		atMost)
	for _, row := range rows {
		if row.Key == "" {
			u.OthersActive, u.OthersWaiting, u.Behind = row.Active, row.Waiting, row.Behind
			continue
		}
		row.readRates()
		u.Limits = append(u.Limits, row.UsedLimit)
	}
	return u, err
}
