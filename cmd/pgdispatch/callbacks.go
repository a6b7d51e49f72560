package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/sethvargo/go-retry"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/dispatch"
	"github.com/pgdispatch/pgdispatch/internal/telemetry"
)

const (
	// watchGrace is how long an execution with a callback stays unwatched.
	watchGrace = 5 * time.Second
	// keyInterval is how often the callback key is requested until the database answers.
	keyInterval = time.Second
	// maxCallbackURL is the longest callback URL that Temporal accepts, in bytes.
	maxCallbackURL = 1000
)

// listenCallbacks opens the address that Temporal calls. It is separate from the admin address, because Temporal's
// network need not reach health, metrics and profiles. It returns nil if callbacks are disabled.
func listenCallbacks(ctx context.Context, c config) (net.Listener, error) {
	if c.callbackURL == "" {
		return nil, nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", c.callbackAddr)
	if err != nil {
		return nil, fmt.Errorf("PGDISPATCH_CALLBACK_ADDR is %q: %w", c.callbackAddr, err)
	}
	return listener, nil
}

// receive creates the callback server and returns the callback that starts request. It waits for the database, which
// holds the key.
func (r *replica) receive(ctx context.Context, listener net.Listener, asked complete.Ender, t *telemetry.Telemetry) (*dispatch.Callback, error) {
	var key []byte
	complained := false
	err := retry.Do(ctx, retry.NewConstant(keyInterval), func(ctx context.Context) (err error) {
		key, err = r.store.CallbackKey(ctx)
		if err != nil && !complained && ctx.Err() == nil {
			complained = true
			r.log.Error("Waiting for Postgres", "error", redact(err))
		}
		return retry.RetryableError(err)
	})
	if err != nil {
		return nil, fmt.Errorf("read callback key: %w", err)
	}
	r.callbacks = &complete.Callbacks{
		Listener: listener, Key: key, Store: r.ends, Temporal: asked,
		Freed: r.ended(t, "callback"), Answered: t.Callback, Log: r.log.With("component", "callbacks"),
	}
	return &dispatch.Callback{
		URL: r.callbackURL,
		Header: func(executionID, namespace string) map[string]string {
			return complete.CallbackHeader(key, claim.Execution{ID: executionID, Namespace: namespace})
		},
		Log: r.log.With("component", "dispatcher"),
	}, nil
}

// together is the store, but records ends in batches.
type together struct {
	*telemetry.Store
	ends *complete.Ends
}

func (t together) Finish(ctx context.Context, executionID, outcome, reason, result string) (bool, error) {
	return t.ends.Finish(ctx, executionID, outcome, reason, result)
}

// ended returns the function to call when an end is recorded. way names how it was detected.
func (r *replica) ended(t *telemetry.Telemetry, way string) func() {
	return func() {
		t.Ended(way)
		r.ring("completion")
	}
}

// dispatched returns the function that watches a started execution. If Temporal will call back, watching starts only
// after watchGrace.
func (r *replica) dispatched(callback *dispatch.Callback) func(claim.Execution) {
	return func(execution claim.Execution) {
		if callback.Taken() {
			r.watcher.WatchLater(execution.ID)
			return
		}
		r.watcher.Watch(execution)
	}
}

func parseCallbackURL(text string, into *string) error {
	if text != "" {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" || len(text) > maxCallbackURL {
			return fmt.Errorf("it must be a URL such as https://pgdispatch.example.com/callbacks, without a password, of %d characters at the most", maxCallbackURL)
		}
	}
	*into = text
	return nil
}

// checkCallbacks requires that both the callback URL and address are set, or neither.
func (c config) checkCallbacks() error {
	switch {
	case c.callbackURL != "" && c.callbackAddr == "":
		return errors.New("PGDISPATCH_CALLBACK_URL is set and PGDISPATCH_CALLBACK_ADDR is not: nobody would hear what Temporal says")
	case c.callbackURL == "" && c.callbackAddr != "":
		return errors.New("PGDISPATCH_CALLBACK_ADDR is set and PGDISPATCH_CALLBACK_URL is not: Temporal would not know whom to call")
	}
	return nil
}
