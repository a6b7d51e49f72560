package complete

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	nethttp "net/http"
	"net/url"
	"regexp"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
)

const (
	// headerTimeout, callbackTimeout and idleTimeout bound what a client may keep open: until its headers are there, until its
	// request is, and between two requests.
	headerTimeout   = 5 * time.Second
	callbackTimeout = 15 * time.Second
	idleTimeout     = time.Minute
	// endTimeout bounds what is done for one callback. Temporal waits for 10 s by default.
	endTimeout = 8 * time.Second
	// callbackStopTimeout bounds how long callbacks under way may take once Run is to end. Temporal tries again what is cut off.
	callbackStopTimeout = 2 * time.Second
	// maxHeaderBytes is twice what Temporal allows a callback's headers to have.
	maxHeaderBytes = 16 << 10
	// maxBodyBytes is twice what Temporal allows a result to have. The body is not looked at.
	maxBodyBytes = 4 << 20
	// atMostCallbacks is how many are seen to at once; the others wait. Each takes a connection to the database for a moment, and
	// leases are renewed by the same few.
	atMostCallbacks = 4
)

// complaintInterval is how often the log hears of callers without a valid token: anybody may call.
const complaintInterval = time.Minute

var errCallbackTime = fmt.Errorf("callback gave up after %s", endTimeout)

// What came of a callback, for Callbacks.Answered.
const (
	CallbackEnded        = "ended"        // the end is recorded, by this callback or before
	CallbackOpen         = "open"         // another run goes on in place of the one that closed
	CallbackUnauthorized = "unauthorized" // the token is missing, or not the execution's
	CallbackRefused      = "refused"      // not a POST
	CallbackUnavailable  = "unavailable"  // Temporal or the database is away: to be sent again
)

// Ender says how an execution has ended: TemporalWaiter, or a fake in tests.
type Ender interface {
	// Ended is asked when a run is said to have closed. Without a run ID, the newest one is meant.
	Ended(ctx context.Context, execution claim.Execution) (end End, ended bool, err error)
}

// Callbacks is called by Temporal when a workflow has ended, if its start asked for that. It takes a callback as a reason to ask
// Temporal, and not as an answer: how a workflow ended is read in one place, and a token that has become known lets a stranger do
// no more than have us look. Its fields are set before Run and not changed after.
type Callbacks struct {
	// Listener is what is served; Run closes it.
	Listener net.Listener
	// Key is what tokens are made with, the same in all replicas: any of them may be called.
	Key      []byte
	Store    Finisher
	Temporal Ender
	// Freed is called when an execution has ended, and a slot is free; it must not block. Nil: nobody is told.
	Freed func()
	// Answered is called with what came of each callback. Nil: nobody is told.
	Answered func(result string)
	Log      *slog.Logger

	places     chan struct{}
	complained atomic.Int64 // when, in Unix nanoseconds
}

// Run serves until ctx is cancelled, and returns nil then.
func (c *Callbacks) Run(ctx context.Context) error {
	server := &nethttp.Server{
		Handler: c.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: callbackTimeout, WriteTimeout: callbackTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
	}
	c.Log.InfoContext(ctx, "Serving completion callbacks", "address", c.Listener.Addr().String())
	var g errgroup.Group
	g.Go(func() error {
		if err := server.Serve(c.Listener); !errors.Is(err, nethttp.ErrServerClosed) {
			return fmt.Errorf("serve completion callbacks: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), callbackStopTimeout)
		defer cancel()
		if server.Shutdown(stopping) != nil {
			_ = server.Close() // who still asks is cut off
		}
		return nil
	})
	return g.Wait()
}

// Handler is what Run serves, whatever the path: what stands between may have one of its own.
func (c *Callbacks) Handler() nethttp.Handler {
	c.places = make(chan struct{}, atMostCallbacks)
	return nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		status, result := c.serve(w, r)
		if c.Answered != nil {
			c.Answered(result)
		}
		if status == nethttp.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		w.WriteHeader(status)
	})
}

// serve sees to one request. Temporal does not send again what was answered by 400, 401, 403, 404, 409 or 501; whatever else is
// not a success it does, for ever.
func (c *Callbacks) serve(w nethttp.ResponseWriter, r *nethttp.Request) (status int, result string) {
	ctx := r.Context()
	if r.Method != nethttp.MethodPost {
		return nethttp.StatusNotFound, CallbackRefused
	}
	execution, valid := checkCallback(c.Key, r.Header)
	if !valid {
		if c.mayComplain() {
			c.Log.WarnContext(ctx, "Refused a completion callback: its token is not valid", "from", r.RemoteAddr)
		}
		return nethttp.StatusUnauthorized, CallbackUnauthorized
	}
	execution.RunID = runOf(r.Header, execution.ID)
	ended, err := c.end(ctx, execution)
	if err != nil {
		level := slog.LevelWarn
		if errors.Is(err, ErrAway) || errors.Is(err, errCallbackTime) {
			level = slog.LevelDebug // of an outage, the log hears from elsewhere
		}
		c.Log.Log(ctx, level, "Cannot take a completion callback: Temporal sends it again", "execution_id", execution.ID, "error", claim.Clean(err.Error()))
		return nethttp.StatusServiceUnavailable, CallbackUnavailable
	}
	// The result is in the body. What is left unread of it would cost its sender the connection.
	_, _ = io.Copy(io.Discard, nethttp.MaxBytesReader(w, r.Body, maxBodyBytes))
	if !ended {
		return nethttp.StatusOK, CallbackOpen
	}
	return nethttp.StatusOK, CallbackEnded
}

func (c *Callbacks) mayComplain() bool {
	now, last := time.Now().UnixNano(), c.complained.Load()
	return now-last >= int64(complaintInterval) && c.complained.CompareAndSwap(last, now)
}

// end records an execution's end, if it has come.
func (c *Callbacks) end(ctx context.Context, execution claim.Execution) (ended bool, err error) {
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
	record(ctx, c.Store, c.Log, execution.ID, end, c.Freed)
	return true, context.Cause(ctx) // it insists until it succeeds, or ctx ends
}

// runInLink finds the run in the link that Temporal sends along: temporal:///namespaces/…/workflows/<ID>/<run>/history?…
var runInLink = regexp.MustCompile(`/workflows/([^/]+)/([^/?>]+)/history`)

// runOf is the run that has closed, as far as the request says; "": it does not.
func runOf(header nethttp.Header, executionID string) string {
	for _, link := range header.Values("Nexus-Link") {
		found := runInLink.FindStringSubmatch(link)
		if found == nil {
			continue
		}
		if workflowID, err := url.PathUnescape(found[1]); err == nil && workflowID == workflowIDPrefix+executionID {
			return found[2]
		}
	}
	return ""
}
