package complete

import (
	"context"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

// TakeStops returns up to atMost requests that this replica must carry out now, and reports whether any request is
// open. Taking a request postpones its next try, so that other replicas do not take it in the meantime.
func (s *Postgres) TakeStops(ctx context.Context, atMost int) (stops []temporal.Stop, open bool, err error) {
	type row struct {
		Open                                             bool
		ExecutionID, Namespace, How, Reason, RequestedBy *string
	}
	taken, err := postgres.Read[row](ctx, s.DB, "take stop requests", sql.Text("stop_take"), atMost)
	for _, r := range taken {
		open = r.Open
		if r.ExecutionID != nil {
			stops = append(stops, temporal.Stop{ExecutionID: *r.ExecutionID, Namespace: postgres.OrZero(r.Namespace),
				How: postgres.OrZero(r.How), Reason: postgres.OrZero(r.Reason), RequestedBy: postgres.OrZero(r.RequestedBy)})
		}
	}
	return stops, open, err
}

// StopDone records Temporal's response to a request. An empty problem means that Temporal accepted it; otherwise the
// request stays open and is retried.
func (s *Postgres) StopDone(ctx context.Context, stop temporal.Stop, problem string) error {
	return postgres.Exec(ctx, s.DB, "settle stop request", sql.Text("stop_done"), stop.ExecutionID, stop.How,
		postgres.OrNull(postgres.Clean(problem)))
}
