package request

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Postgres executes the statements about requests. If a method succeeds, its effect is committed. Its connections may
// commit with synchronous_commit = off: the statements make durable what a request to Temporal rests on.
type Postgres struct{ DB postgres.Conn }

// Outcomes of sending a signal.
const (
	signalDelivered = "DELIVERED"
	signalGivenUp   = "GIVEN_UP"
	signalOpen      = "OPEN" // to be tried again
)

// Signal is a signal that this replica must send now.
type Signal struct {
	temporal.Signal
	ID     int64
	Try    int           // counts from 1, and fences earlier tries
	Waited time.Duration // since it was sent, when it was taken
}

// SettledSignal is the outcome of one try.
type SettledSignal struct {
	ID      int64
	Try     int
	Outcome string // DELIVERED, GIVEN_UP, or OPEN: to be tried again
	Error   string // empty means none; an OPEN signal without one is tried again at once
	RunID   string // the run to send it to from now on; empty means no other
}

// GivenUp are signals of an execution that ended before they were sent.
type GivenUp struct {
	ExecutionID, Reason string
	Signals             int
}

// TakenSignals is the result of TakeSignals.
type TakenSignals struct {
	Now     []Signal
	GivenUp []GivenUp
	Next    *time.Duration // until signals may be due; nil if none is open
	Waits   bool           // whether signals wait for their workflow's start or for an earlier signal
}

// execution is what a row says of an execution. All fields are nil if the row is about none.
type execution struct{ ExecutionID, WorkflowID, RunID, Namespace *string }

func (e execution) temporal() temporal.Execution {
	return temporal.Execution{ID: postgres.OrZero(e.ExecutionID), WorkflowID: postgres.OrZero(e.WorkflowID),
		RunID: postgres.OrZero(e.RunID), Namespace: postgres.OrZero(e.Namespace)}
}

// TakeSignals settles tries and returns up to atMost signals that this replica must send now, at most one of each
// execution. started are executions that this replica has started, for which signals may wait.
func (s *Postgres) TakeSignals(ctx context.Context, settled []SettledSignal, started []string,
	atMost int) (taken TakenSignals, err error) {
	var (
		ids            = make([]int64, len(settled))
		tries          = make([]int, len(settled))
		outcomes       = make([]string, len(settled))
		problems, runs = make([]*string, len(settled)), make([]*string, len(settled))
	)
	for n, one := range settled {
		ids[n], tries[n], outcomes[n] = one.ID, one.Try, one.Outcome
		problems[n], runs[n] = postgres.OrNull(postgres.Clean(one.Error)), postgres.OrNull(one.RunID)
	}
	type row struct {
		execution
		ID                      *int64
		Tries, Signals          *int
		RequestID, SendTo, Name *string
		Payload                 []byte
		Waited, NextIn          *time.Duration
		GivenUp                 *string
		Waits, Unanswered       *bool
	}
	rows, err := postgres.Read[row](ctx, s.DB, "take signals", sql.Text("signal_take"), ids, tries, outcomes, problems,
		runs, postgres.OrEmpty(started), atMost)
	for _, r := range rows {
		switch {
		case r.ID != nil:
			taken.Now = append(taken.Now, Signal{
				Signal: temporal.Signal{
					Execution: r.temporal(), To: postgres.OrZero(r.SendTo), RequestID: postgres.OrZero(r.RequestID),
					Name: postgres.OrZero(r.Name), Payload: r.Payload, Unanswered: postgres.OrZero(r.Unanswered),
				},
				ID: *r.ID, Try: postgres.OrZero(r.Tries), Waited: postgres.OrZero(r.Waited)})
		case r.GivenUp != nil:
			taken.GivenUp = append(taken.GivenUp,
				GivenUp{ExecutionID: postgres.OrZero(r.ExecutionID), Reason: *r.GivenUp, Signals: postgres.OrZero(r.Signals)})
		default:
			taken.Next, taken.Waits = r.NextIn, postgres.OrZero(r.Waits)
		}
	}
	return taken, err
}

// TakeStops returns up to atMost requests that this replica must carry out now, and reports whether any request is
// open. Taking a request postpones its next try, so that other replicas do not take it in the meantime.
func (s *Postgres) TakeStops(ctx context.Context, atMost int) (stops []temporal.Stop, open bool, err error) {
	type row struct {
		execution
		Open                     bool
		Kind                     *temporal.Kind
		How, Reason, RequestedBy *string
	}
	taken, err := postgres.Read[row](ctx, s.DB, "take stop requests", sql.Text("stop_take"), atMost)
	for _, r := range taken {
		open = r.Open
		if r.ExecutionID != nil {
			stopped := r.temporal()
			stopped.Kind = postgres.OrZero(r.Kind)
			stops = append(stops, temporal.Stop{Execution: stopped, How: postgres.OrZero(r.How),
				Reason: postgres.OrZero(r.Reason), RequestedBy: postgres.OrZero(r.RequestedBy)})
		}
	}
	return stops, open, err
}

// StopDone records Temporal's response to a request. An empty problem means that Temporal accepted it; otherwise the
// request stays open and is retried.
func (s *Postgres) StopDone(ctx context.Context, stop temporal.Stop, problem string) error {
	return postgres.Exec(ctx, s.DB, "settle stop request", sql.Text("stop_done"), stop.ID, stop.How,
		postgres.OrNull(postgres.Clean(problem)))
}
