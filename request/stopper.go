// Package request carries out what users ask of running workflows: it delivers signals, and requests to cancel or
// terminate. Requests are rows, and every replica may carry out any of them.
package request

import (
	"context"
	"log/slog"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// StopStore is the part of the store that Stopper needs.
type StopStore interface {
	TakeStops(ctx context.Context, atMost int) (stops []temporal.Stop, open bool, err error)
	StopDone(ctx context.Context, stop temporal.Stop, problem string) error
}

const (
	// stopPause is the delay before open requests are tried again: those that Temporal did not accept, and those whose
	// workflow was not started yet.
	stopPause = time.Second
	// atMostStops limits the requests taken at once.
	atMostStops = 20
)

// Stopper carries out requests to cancel or terminate workflows. It does not end executions: the slot is freed when the
// workflow closes, which is detected like any other end. Set the fields before Run and do not change them afterwards.
type Stopper struct {
	Store    StopStore
	Temporal interface {
		Stop(ctx context.Context, stop temporal.Stop) error
	}
	// Wake signals that a request may exist.
	Wake <-chan struct{}
	Log  *slog.Logger

	complaint attempt.Complaint
}

// Run carries out requests until ctx is cancelled, then returns nil.
func (s *Stopper) Run(ctx context.Context) error {
	again := time.NewTimer(0) // run at once, for requests made while no replica was running
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.Wake:
		case <-again.C:
		}
		open, err := s.carryOut(ctx)
		if err != nil && ctx.Err() == nil {
			s.complain(ctx, err)
		}
		if open || err != nil {
			again.Reset(stopPause)
		}
	}
}

// carryOut carries out pending requests and reports whether some remain open.
func (s *Stopper) carryOut(ctx context.Context) (open bool, err error) {
	stops, open, err := s.Store.TakeStops(ctx, atMostStops)
	if err != nil {
		return open, err
	}
	for _, stop := range stops {
		problem := ""
		err := attempt.Contain(ctx, func(ctx context.Context) error { return s.Temporal.Stop(ctx, stop) })
		switch {
		case ctx.Err() != nil:
			return open, nil
		case err != nil:
			problem = err.Error()
			s.complain(ctx, err, "execution_id", stop.ID)
		default:
			s.complaint.Over()
			s.Log.InfoContext(ctx, "Asked Temporal to stop an execution", "execution_id", stop.ID, "how", stop.How,
				"requested_by", postgres.Clean(stop.RequestedBy))
		}
		if err := s.Store.StopDone(ctx, stop, problem); err != nil {
			return open, err
		}
	}
	return open, nil
}

func (s *Stopper) complain(ctx context.Context, err error, about ...any) {
	if s.complaint.IsNew(err) {
		s.Log.WarnContext(ctx, "Cannot stop an execution; retrying", append(about, "error", err)...)
	}
}
