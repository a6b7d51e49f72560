package claim

import (
	"context"

	"github.com/pgdispatch/pgdispatch/sql"
)

// Stop is a request to stop an execution's workflow.
type Stop struct {
	ExecutionID string
	Namespace   string // of its workflow; empty means the replica's; ignored by RequestStop
	How         string // CANCEL or TERMINATE
	Reason      string
	RequestedBy string
}

// RequestStop cancels an item that waits, or requests the stop of its workflow. It returns WITHDRAWN, REQUESTED,
// ALREADY_REQUESTED or ALREADY_ENDED.
func (s *Store) RequestStop(ctx context.Context, stop Stop) (string, error) {
	return one[string](ctx, s.Pool, settleTimeout, "request stop", sql.StopRequest, stop.ExecutionID, stop.How, stop.Reason, stop.RequestedBy)
}

// TakeStops returns up to atMost requests that this replica must carry out now, and reports whether any request is
// open. Taking a request postpones its next try, so that other replicas do not take it in the meantime.
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

// StopDone records Temporal's response to a request. An empty problem means that Temporal accepted it; otherwise the
// request stays open and is retried.
func (s *Store) StopDone(ctx context.Context, stop Stop, problem string) error {
	return s.exec(ctx, "settle stop request", sql.StopDone, stop.ExecutionID, stop.How, optional(Clean(problem)))
}
