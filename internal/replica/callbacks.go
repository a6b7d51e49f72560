package replica

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/sethvargo/go-retry"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

const (
	// watchGrace is how long an execution with a callback stays unwatched.
	watchGrace = 5 * time.Second
	// keyInterval is how often the callback key is requested until the database answers.
	keyInterval = time.Second
)

// listenCallbacks opens the address that Temporal calls. It is separate from the admin address, because Temporal's
// network need not reach health, metrics and profiles. It returns nil if callbacks are disabled.
func listenCallbacks(ctx context.Context, c config.Config) (net.Listener, error) {
	if c.CallbackURL == "" {
		return nil, nil
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", c.CallbackAddr)
	if err != nil {
		return nil, fmt.Errorf("PGDISPATCH_CALLBACK_ADDR is %q: %w", c.CallbackAddr, err)
	}
	return listener, nil
}

// receive creates the callback server and returns the callback that starts request. It waits for the database, which
// holds the key.
func (r *replica) receive(ctx context.Context, listener net.Listener,
	asked complete.Ender) (*temporal.Callback, error) {
	var key []byte
	complained := false
	err := retry.Do(ctx, retry.NewConstant(keyInterval), func(ctx context.Context) (err error) {
		key, err = r.store.CallbackKey(ctx)
		if err != nil && !complained && ctx.Err() == nil {
			complained = true
			r.log.Error("Waiting for Postgres", "error", postgres.Redact(err))
		}
		return retry.RetryableError(err)
	})
	if err != nil {
		return nil, fmt.Errorf("read callback key: %w", err)
	}
	r.callbacks = &complete.Callbacks{
		Listener: listener, Key: key, Ends: r.ends, Temporal: asked,
		Freed: r.ended("callback"), Answered: r.telemetry.Callback, Log: r.log.With("component", "callbacks"),
	}
	return &temporal.Callback{
		URL: r.CallbackURL,
		Header: func(execution temporal.Execution) map[string]string {
			return temporal.CallbackHeader(key, execution)
		},
		Log: r.log.With("component", "dispatcher"),
	}, nil
}

// ended returns the function to call when an end is recorded. way names how it was detected.
func (r *replica) ended(way string) func() {
	return func() {
		r.telemetry.Ended(way)
		r.wake.Ring("completion")
	}
}

// mayWait reports whether nothing waits for what an execution's end frees: no application listens for ends, and no item
// waits for its slot, as far as this replica knows.
func (r *replica) mayWait(executionID string) bool {
	workspace := r.watcher.SlotOf(executionID)
	return workspace != "" && !r.announces.Load() && !r.claims.AwaitsSlot(workspace)
}

// dispatched returns the function that watches a started execution and delivers the signals that wait for it. If
// Temporal will call back, watching starts only after watchGrace. It never does for an activity.
func (r *replica) dispatched(callback *temporal.Callback) func(item *claim.Item, runID string) {
	return func(item *claim.Item, runID string) {
		r.signaler.Started(item.ExecutionID)
		if item.Kind != temporal.Activity && callback.Taken() {
			r.watcher.WatchLater(item.ExecutionID)
			return
		}
		execution := item.Execution()
		execution.RunID = runID
		r.watcher.WatchSlot(item.Frees(), execution)
	}
}
