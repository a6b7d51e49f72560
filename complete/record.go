package complete

import (
	"context"
	"errors"
	"log/slog"

	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/sethvargo/go-retry"
)

// record records an end, retrying until it succeeds or ctx ends. It logs the end and calls freed only if the end was
// not recorded before.
func record(ctx context.Context, store Finisher, log *slog.Logger, executionID string, end temporal.End, freed func()) {
	var first bool
	record := func(ctx context.Context) (err error) {
		first, err = store.Finish(ctx, executionID, end.Outcome, end.Reason, end.Result)
		return err
	}
	err := retryUntilDone(ctx, log, executionID, "Cannot record an execution's end", record)
	if err != nil || !first {
		return
	}
	fields := []any{"execution_id", executionID, "outcome", end.Outcome}
	if end.Outcome != "COMPLETED" {
		fields = append(fields, "error", postgres.Clean(end.Reason))
	}
	log.InfoContext(ctx, "Execution ended", fields...)
	if freed != nil {
		freed()
	}
}

// retryUntilDone retries until try succeeds, ctx is cancelled, or try returns ErrCrowded. A panic counts as a failed
// try. An error is logged if it differs from the last one. temporal.ErrAway is logged at debug level only, because
// outages are logged elsewhere.
func retryUntilDone(ctx context.Context, log *slog.Logger, executionID, complaint string,
	try func(context.Context) error) error {
	backoff := retry.WithJitterPercent(spreadPercent, attempt.Backoff(retryBase, retryCap))
	var said attempt.Complaint
	return retry.Do(ctx, backoff, func(ctx context.Context) error {
		err := attempt.Contain(ctx, try)
		if err == nil || errors.Is(err, temporal.ErrCrowded) {
			return err
		}
		if ctx.Err() == nil && said.IsNew(err) {
			level := slog.LevelWarn
			if errors.Is(err, temporal.ErrAway) {
				level = slog.LevelDebug
			}
			log.Log(ctx, level, complaint, "execution_id", executionID, "error", err)
		}
		return retry.RetryableError(err)
	})
}
