package operate

import (
	"context"
	"time"
)

// Activity returns the minutes since back ago without gaps, the current one last. Nil if no replica ran in them. They
// are kept for a day, and not by workspace: a store within some has none.
func (s *Store) Activity(ctx context.Context, back time.Duration) ([]Minute, error) {
	if s.Scope != nil {
		return nil, nil
	}
	return s.activity(ctx, back)
}

// Condense joins every n minutes into one. Starts are added up, ends are averages per minute, and of the numbers of
// items it keeps the highest.
func Condense(minutes []Minute, n int) []Minute {
	joined := []Minute{}
	for len(minutes) > 0 {
		size := len(minutes) % n // the first may be of fewer
		if size == 0 {
			size = n
		}
		joined = append(joined, join(minutes[:size]))
		minutes = minutes[size:]
	}
	return joined
}

func join(minutes []Minute) Minute {
	all := Minute{At: minutes[0].At}
	for _, m := range minutes {
		all.Started, all.Passed = all.Started+m.Started, all.Passed+m.Passed
		all.Completed, all.Failed, all.Cancelled = all.Completed+m.Completed, all.Failed+m.Failed, all.Cancelled+m.Cancelled
		all.Waiting, all.Claimed, all.Running = higher(all.Waiting, m.Waiting), higher(all.Claimed, m.Claimed),
			higher(all.Running, m.Running)
		all.Waits.Merge(m.Waits)
		all.StartableWaits.Merge(m.StartableWaits)
	}
	n := int64(len(minutes))
	all.Completed, all.Failed, all.Cancelled = (all.Completed+n-1)/n, (all.Failed+n-1)/n, (all.Cancelled+n-1)/n
	return all
}

func higher(a, b *int64) *int64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}
