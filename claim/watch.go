package claim

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/sql"
)

// Execution is one that this replica is to watch, or to ask about.
type Execution struct {
	ID        string
	RunID     string
	Namespace string // "": the replica's, of an execution from before there were several
}

// Adopt takes over open executions that no live replica watches, and own ones that are not in watching, at most so many. Those
// whose slot is waited for come first.
func (s *Store) Adopt(ctx context.Context, atMost int, watching []string) ([]Execution, error) {
	if watching == nil {
		watching = []string{} // a null array would compare with nothing, and no own execution be taken
	}
	return read[Execution](ctx, s.async(), "adopt executions", sql.Adopt, s.Owner, atMost, watching)
}

// GiveUpWatches says that this replica watches executions no longer: nil means all of its own. Others adopt them.
func (s *Store) GiveUpWatches(ctx context.Context, executionIDs []string) error {
	return s.exec(ctx, "give up watches", sql.GiveUpWatches, s.Owner, executionIDs)
}

// SwapWatches takes executions that nobody watches and whose workspace waits for their slot, at most so many, and gives up as
// many of this replica's that nobody waits for.
func (s *Store) SwapWatches(ctx context.Context, atMost int) (taken []Execution, dropped []string, err error) {
	type swapped struct {
		ID        string
		RunID     *string
		Namespace string
	}
	both, err := read[swapped](ctx, s.async(), "swap watches", sql.SwapWatches, s.Owner, atMost)
	for _, e := range both {
		if e.RunID == nil {
			dropped = append(dropped, e.ID)
		} else {
			taken = append(taken, Execution{ID: e.ID, RunID: *e.RunID, Namespace: e.Namespace})
		}
	}
	return taken, dropped, err
}

// Turn is the turn to list the workflows that closed in a namespace. One replica has the turns at a time.
type Turn struct {
	Namespace string
	Wide      bool      // the list is to reach far back, for what was late in the last ones
	Since     time.Time // the close time to list from, by Temporal's clock
}

// CloseTurns takes the turns to list closed workflows, in every namespace with open executions where there is need to; none: or
// another replica took them, less than often ago. Every wide, a list reaches far back.
func (s *Store) CloseTurns(ctx context.Context, often, wide time.Duration) ([]Turn, error) {
	return read[Turn](ctx, s.async(), "take turns", sql.CloseTurn, often, wide, s.Namespace)
}

// CloseDone says how far the closed workflows of a namespace have been listed; a zero time: none was found.
func (s *Store) CloseDone(ctx context.Context, namespace string, newest time.Time, wide bool) error {
	var seen *time.Time
	if !newest.IsZero() {
		seen = &newest
	}
	return s.exec(ctx, "end turn", sql.CloseDone, namespace, seen, wide)
}

// OpenAmong returns those of some executions that run as far as is known.
func (s *Store) OpenAmong(ctx context.Context, executionIDs []string) ([]Execution, error) {
	return read[Execution](ctx, s.async(), "read open executions", sql.OpenAmong, executionIDs)
}

// Silent returns open executions that nobody watches and nobody has asked about for so long, at most so many. They count as
// asked about from then on.
func (s *Store) Silent(ctx context.Context, atMost int, after time.Duration) ([]Execution, error) {
	return read[Execution](ctx, s.async(), "read silent executions", sql.Silent, atMost, after)
}
