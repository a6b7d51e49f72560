package complete

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/serve"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

const (
	// headerTimeout, callbackTimeout and idleTimeout limit how long a client may take to send its headers, to complete
	// a request, and to stay idle between two requests.
	headerTimeout   = 5 * time.Second
	callbackTimeout = 15 * time.Second
	idleTimeout     = time.Minute
	// endTimeout limits the work for one callback. Temporal waits 10 s by default.
	endTimeout = 8 * time.Second
	// callbackStopTimeout limits how long callbacks in progress may take after ctx is cancelled. Temporal retries those
	// that are cut off.
	callbackStopTimeout = 2 * time.Second
	// maxHeaderBytes is twice the header size that Temporal allows for a callback.
	maxHeaderBytes = 16 << 10
	// maxBodyBytes is twice the result size that Temporal allows. The body is discarded.
	maxBodyBytes = 4 << 20
	// atMostCallbacks limits concurrent callbacks; more wait. Each uses a database connection briefly, from the small
	// pool that also serves lease renewals.
	atMostCallbacks = 4
	// mostConnections is the number of connections open at a time. Anyone who reaches the address can open some, so
	// beyond it the one without progress for longest is closed. Temporal sends 100 callbacks a second per history host.
	mostConnections = 256
)

// complaintInterval is the minimum time between two warnings about invalid tokens. Anyone can send such requests.
const complaintInterval = time.Minute

var errCallbackTime = fmt.Errorf("callback timed out after %s", endTimeout)

// Results of a callback, passed to Callbacks.Answered.
const (
	CallbackEnded        = "ended"        // the end is recorded, by this callback or earlier
	CallbackOpen         = "open"         // another run continues the one that closed
	CallbackUnauthorized = "unauthorized" // the token is missing or belongs to another execution
	CallbackRefused      = "refused"      // not a POST
	CallbackUnavailable  = "unavailable"  // Temporal or the database is unavailable; Temporal retries
)

// Ender looks up how an execution ended. temporal.Client implements it.
type Ender interface {
	// Ended reports whether an execution has ended, and how. It is called for a run that is believed to be closed. An
	// empty RunID means the newest run.
	Ended(ctx context.Context, execution temporal.Execution) (end temporal.End, ended bool, err error)
}

// Callbacks serves the completion callbacks that Temporal sends when a workflow closes, if its start requested one. A
// callback only triggers a query to Temporal; its content is not trusted. A leaked token therefore allows no more than
// triggering such a query. Set the fields before Run and do not change them afterwards.
type Callbacks struct {
	// Listener accepts the callbacks. Run closes it.
	Listener net.Listener
	// Key signs and verifies the tokens. All replicas must share it, because a callback can reach any of them.
	Key      []byte
	Ends     Finisher
	Temporal Ender
	// Freed is called after an end is recorded and its slot is free. It must not block. Nil disables it.
	Freed func()
	// Answered is called with the result of each callback. Nil disables it.
	Answered func(result string)
	Log      *slog.Logger

	places     chan struct{}
	complained atomic.Int64 // time of the last warning, in Unix nanoseconds
}

// Run serves callbacks until ctx is cancelled, then returns nil.
func (c *Callbacks) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: c.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: callbackTimeout, WriteTimeout: callbackTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	c.Log.InfoContext(ctx, "Serving completion callbacks", "address", c.Listener.Addr().String())
	if err := serve.Run(ctx, server, c.Listener, mostConnections, callbackStopTimeout); err != nil {
		return fmt.Errorf("serve completion callbacks: %w", err)
	}
	return nil
}

// Handler returns the handler that Run serves. It ignores the path, because a proxy in between may use its own.
func (c *Callbacks) Handler() http.Handler {
	c.places = make(chan struct{}, atMostCallbacks)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, result := c.serve(w, r)
		if c.Answered != nil {
			c.Answered(result)
		}
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		w.WriteHeader(status)
	})
}

// serve handles one request. Temporal does not retry responses 400, 401, 403, 404, 409 and 501. It retries every other
// non-success response forever.
func (c *Callbacks) serve(w http.ResponseWriter, r *http.Request) (status int, result string) {
	ctx := r.Context()
	if r.Method != http.MethodPost {
		return http.StatusNotFound, CallbackRefused
	}
	execution, valid := temporal.CheckCallback(c.Key, r.Header)
	if !valid {
		if c.mayComplain() {
			c.Log.WarnContext(ctx, "Rejected a completion callback: invalid token", "from", r.RemoteAddr)
		}
		return http.StatusUnauthorized, CallbackUnauthorized
	}
	execution.RunID = runOf(r.Header, execution)
	release := serve.Keep(ctx) // other clients cannot displace this connection: only Temporal has tokens
	ended, err := c.end(ctx, execution)
	release()
	if err != nil {
		level := slog.LevelWarn
		if errors.Is(err, temporal.ErrAway) || errors.Is(err, errCallbackTime) {
			level = slog.LevelDebug // outages are logged elsewhere
		}
		c.Log.Log(ctx, level, "Cannot process a completion callback; Temporal will resend it", "execution_id", execution.ID,
			"error", err)
		return http.StatusServiceUnavailable, CallbackUnavailable
	}
	// Drain the body, which holds the result. Unread data would make the server close the connection.
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if !ended {
		return http.StatusOK, CallbackOpen
	}
	return http.StatusOK, CallbackEnded
}

func (c *Callbacks) mayComplain() bool {
	now, last := time.Now().UnixNano(), c.complained.Load()
	return now-last >= int64(complaintInterval) && c.complained.CompareAndSwap(last, now)
}

// end records the execution's end and reports whether it has ended.
func (c *Callbacks) end(ctx context.Context, execution temporal.Execution) (ended bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, endTimeout, errCallbackTime)
	defer cancel()
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	end, ended, err := c.Temporal.Ended(ctx, execution)
	if err != nil || !ended {
		return false, err
	}
	record(ctx, c.Ends, c.Log, execution.ID, end, c.Freed)
	return true, context.Cause(ctx) // record retries until it succeeds or ctx ends
}

// runInLink matches the link that Temporal sends: temporal:///namespaces/…/workflows/<ID>/<run>/history?…
var runInLink = regexp.MustCompile(`/workflows/([^/]+)/([^/?>]+)/history`)

// runOf returns the ID of the closed run, or "" if the request does not name it.
func runOf(header http.Header, execution temporal.Execution) string {
	for _, link := range header.Values("Nexus-Link") {
		found := runInLink.FindStringSubmatch(link)
		if found == nil {
			continue
		}
		if workflowID, err := url.PathUnescape(found[1]); err == nil && workflowID == execution.Workflow() {
			return found[2]
		}
	}
	return ""
}
