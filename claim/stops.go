package claim

import (
	"context"

	"github.com/pgdispatch/pgdispatch/sql"
)

// Stop is a request to end an execution's workflow.
type Stop struct {
	ExecutionID string
	Namespace   string // of its workflow; "": the replica's. Not used by RequestStop
	How         string // CANCEL or TERMINATE
	Reason      string
	RequestedBy string
}

// RequestStop withdraws an item that waits, or asks for the end of its workflow, and returns what came of it: WITHDRAWN,
// REQUESTED, ALREADY_REQUESTED or ALREADY_ENDED.
func (s *Store) RequestStop(ctx context.Context, stop Stop) (string, error) {
	return one[string](ctx, s.Pool, settleTimeout, "request stop", sql.StopRequest, stop.ExecutionID, stop.How, stop.Reason, stop.RequestedBy)
}

// TakeStops returns the requests that this replica is to carry out now, at most so many, and whether any was open. Nobody else
// is given them for a while.
func (s *Store) TakeStops(ctx context.Context, atMost int) (stops []Stop, open bool, err error) {
	type row struct {
		Open                                             bool
		ExecutionID, Namespace, How, Reason, RequestedBy *string
	}
	taken, err := read[row](ctx, s.async(), "take stop requests", sql.StopTake, atMost)
	for _, r := range taken {
		open = r.Open
		if r.ExecutionID != nil {
			stops = append(stops, Stop{*r.ExecutionID, value(r.Namespace), value(r.How), value(r.Reason), value(r.RequestedBy)})
		}
	}
	return stops, open, err
}

// StopDone says what Temporal said to a request; "": it has taken it.
func (s *Store) StopDone(ctx context.Context, stop Stop, problem string) error {
	return s.exec(ctx, "settle stop request", sql.StopDone, stop.ExecutionID, stop.How, optional(Clean(problem)))
}
