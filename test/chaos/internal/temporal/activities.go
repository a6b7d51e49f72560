package temporal

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// Types of standalone activities, which are also the names of their definitions.
const (
	// Do takes as long as its params say, and completes.
	Do = "Do"
	// DoFail fails.
	DoFail = "DoFail"
	// DoTwice fails at its first attempt, and completes at the next.
	DoTwice = "DoTwice"
	// DoHold waits until it is cancelled or its time is up.
	DoHold = "DoHold"
)

// ActivityOptions are the start options of all activities. An attempt whose end Temporal does not learn is repeated.
const ActivityOptions = `{"start_to_close_timeout": "20s", "heartbeat_timeout": "3s",
	"retry_policy": {"initial_interval": "100ms"}}`

// beat is how often an activity tells Temporal that it works, and learns whether it is cancelled.
const beat = 200 * time.Millisecond

var activities = map[string]any{
	Do: func(ctx context.Context, in Input) (string, error) {
		return in.Params.Marker, work(ctx, in.Params.Millis)
	},
	DoFail: func(context.Context, Input) error {
		return temporal.NewNonRetryableApplicationError(deliberate, "Deliberate", errors.New("it is told to"))
	},
	DoTwice: func(ctx context.Context, _ Input) error {
		if activity.GetInfo(ctx).Attempt == 1 {
			return errors.New(deliberate)
		}
		return nil
	},
	DoHold: func(ctx context.Context, _ Input) error {
		for ctx.Err() == nil {
			activity.RecordHeartbeat(ctx)
			_ = work(ctx, int(beat.Milliseconds()))
		}
		return ctx.Err()
	},
}
