package dispatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgdispatch/pgdispatch/claim"
)

var exhausted = serviceerror.NewResourceExhausted

// temporalErrors is every error that a start can have, and what it means.
var temporalErrors = map[string]struct {
	err  error
	want Outcome
}{
	"none": {nil, Started},

	"our own permanent":         {permanentError{errors.New("too large")}, Permanent},
	"our own permanent foreign": {permanentError{fmt.Errorf("%w: x", ErrForeign)}, Permanent},
	"a panic":                   {panicError{errors.New("panic: boom")}, Retryable},
	"not sent":                  {notSentError{errors.New("no time left")}, NotSent},
	"not found, of a workflow":  {&serviceerror.NotFound{Message: "workflow not found for ID"}, Blocked},
	"not sent, cancelled":       {notSentError{context.Canceled}, NotSent},

	"invalid argument":           {serviceerror.NewInvalidArgument("WorkflowId exceeds maximum allowed length"), Permanent},
	"already exists":             {serviceerror.NewAlreadyExists("x"), Permanent},
	"already started":            {serviceerror.NewWorkflowExecutionAlreadyStarted("x", "request", "run"), Permanent},
	"failed precondition":        {serviceerror.NewFailedPrecondition("x"), Permanent},
	"workflow not ready":         {serviceerror.NewWorkflowNotReady("x"), Permanent},
	"out of range":               {status.Error(codes.OutOfRange, "x"), Permanent},
	"message too large":          {status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5242980 vs. 4194304)"), Permanent},
	"message too large, by name": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED, "grpc: trying to send message larger than max (9 vs. 4)"), Permanent},
	"namespace already exists":   {serviceerror.NewNamespaceAlreadyExists("x"), Permanent},
	"newer build exists":         {serviceerror.NewNewerBuildExists("x"), Permanent},
	"item that may be forgotten": {permanentError{fmt.Errorf("%w: x", ErrForgotten)}, Permanent},
	"message not marshals":       {serviceerror.NewInternal("grpc: error while marshaling: string field contains invalid UTF-8"), Permanent},

	"busy workflow":   {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "x"), Retryable},
	"too many starts": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "Too many starts for workflow execution-1"), Retryable},

	"no connection":       {unreachedError{serviceerror.NewUnavailable("connection refused")}, Unreached},
	"no connection, TLS":  {unreachedError{serviceerror.NewUnavailable("x509: certificate has expired")}, Unreached},
	"no connection ready": {unreachedError{serviceerror.NewDeadlineExceeded("x")}, Unreached},

	"namespace not found":          {serviceerror.NewNamespaceNotFound("x"), Blocked},
	"not found":                    {serviceerror.NewNotFound("x"), Blocked},
	"namespace deleted":            {serviceerror.NewNamespaceInvalidState("x", enumspb.NAMESPACE_STATE_DELETED, nil), Blocked},
	"permission denied":            {serviceerror.NewPermissionDenied("x", ""), Blocked},
	"unauthenticated":              {status.Error(codes.Unauthenticated, "x"), Blocked},
	"unimplemented":                {serviceerror.NewUnimplemented("x"), Blocked},
	"client version not supported": {serviceerror.NewClientVersionNotSupported("1", "x", "2"), Blocked},
	"server version not supported": {serviceerror.NewServerVersionNotSupported("1", "2"), Blocked},

	"unavailable":              {serviceerror.NewUnavailable("connection refused"), Unanswered},
	"namespace unavailable":    {serviceerror.NewNamespaceUnavailable("x"), Unanswered},
	"namespace not active":     {serviceerror.NewNamespaceNotActive("x", "here", "there"), Unanswered},
	"deadline of the server":   {serviceerror.NewDeadlineExceeded("x"), Unanswered},
	"deadline of the context":  {context.DeadlineExceeded, Unanswered},
	"cancelled by the server":  {serviceerror.NewCanceled("x"), Unanswered},
	"cancelled by the context": {context.Canceled, Unanswered},
	"cancelled by a grpc":      {status.Error(codes.Canceled, "grpc: the client connection is closing"), Unanswered},
	"system workflow":          {serviceerror.NewSystemWorkflow(&commonpb.WorkflowExecution{}, errors.New("x")), Unanswered},
	"buffer lost":              {serviceerror.NewWorkflowTaskCompletionBufferLost("x"), Unanswered},
	"a code of tomorrow":       {status.Error(codes.Code(42), "x"), Unanswered},
	"TLS handshake":            {serviceerror.NewUnavailable("connection error: desc = \"transport: authentication handshake failed\""), Unanswered},
	"first call, server down":  {fmt.Errorf("failed reaching server: %w", serviceerror.NewUnavailable("x")), Unanswered},
	"internal":                 {serviceerror.NewInternal("x"), Unanswered},
	"aborted":                  {serviceerror.NewAborted("x"), Unanswered},
	"data loss":                {serviceerror.NewDataLoss("x"), Unanswered},
	"unknown code":             {status.Error(codes.Unknown, "x"), Unanswered},
	"an error of no kind":      {errors.New("x"), Unanswered},

	"rps limit":           {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "x"), Throttled},
	"concurrent limit":    {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT, "x"), Throttled},
	"system overloaded":   {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_SYSTEM_OVERLOADED, "x"), Throttled},
	"persistence limit":   {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_PERSISTENCE_LIMIT, "x"), Throttled},
	"storage limit":       {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_PERSISTENCE_STORAGE_LIMIT, "x"), Throttled},
	"aps limit":           {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_APS_LIMIT, "x"), Throttled},
	"ops limit":           {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_OPS_LIMIT, "x"), Throttled},
	"circuit breaker":     {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_CIRCUIT_BREAKER_OPEN, "x"), Throttled},
	"deployment limits":   {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_WORKER_DEPLOYMENT_LIMITS, "x"), Throttled},
	"a cause of tomorrow": {exhausted(99, "x"), Throttled},
	"no cause":            {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED, "x"), Throttled},
	"exhausted by a grpc": {status.Error(codes.ResourceExhausted, "x"), Throttled},
}

func TestClassifyKnowsEveryErrorOfTemporal(t *testing.T) {
	t.Parallel()
	for name, c := range temporalErrors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want.String(), Classify(c.err).String())
			if c.err != nil {
				wrapped := fmt.Errorf("%w: %w", errors.New("start gave up after 5s"), fmt.Errorf("start workflow: %w", c.err))
				require.Equal(t, c.want.String(), Classify(wrapped).String(), "wrapped")
			}
		})
	}
}

func TestSettlementSaysHowAnOutcomeEndsAClaim(t *testing.T) {
	t.Parallel()
	panicked := panicError{errors.New("panic: boom")}
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		outcome  Outcome
		err      error
		failures int
		verb     claim.Verb
		unknown  bool
		delay    time.Duration // before jitter
	}{
		"started":                     {Started, nil, 0, claim.Dispatched, false, 0},
		"started after failures":      {Started, nil, 9, claim.Dispatched, false, 0},
		"permanent":                   {Permanent, boom, 0, claim.Fail, false, 0},
		"first failure of its own":    {Retryable, boom, 0, claim.Retry, false, time.Second},
		"second":                      {Retryable, boom, 1, claim.Retry, false, 2 * time.Second},
		"third, the last":             {Retryable, boom, 2, claim.Fail, false, 4 * time.Second},
		"beyond the last":             {Retryable, boom, 7, claim.Fail, false, 128 * time.Second},
		"a panic":                     {Retryable, panicked, 0, claim.Retry, true, time.Second},
		"the last panic":              {Retryable, panicked, 2, claim.Fail, true, 4 * time.Second},
		"not sent":                    {NotSent, boom, 2, claim.Release, false, 0},
		"blocked":                     {Blocked, boom, 2, claim.Release, false, 0},
		"unreached":                   {Unreached, boom, 2, claim.Release, false, 0},
		"throttled":                   {Throttled, boom, 2, claim.Release, true, 0},
		"unanswered":                  {Unanswered, boom, 0, claim.Release, true, 0},
		"unanswered at the last try":  {Unanswered, boom, 2, claim.Release, true, 0},
		"unanswered beyond the limit": {Unanswered, boom, 100, claim.Release, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := claim.Item{ID: 7, Token: 3, MaxAttempts: 3, FailureCount: c.failures}
			s := (&run{}).settlement(item, c.outcome, "run", c.err)
			require.EqualValues(t, 7, s.ID)
			require.EqualValues(t, 3, s.Token)
			require.Equal(t, c.verb, s.Verb)
			require.Equal(t, c.unknown, s.Unknown)
			require.Equal(t, c.outcome == Started, s.RunID == "run")
			require.Equal(t, c.err == nil, s.Error == "")
			require.GreaterOrEqual(t, s.Delay, c.delay*8/10)
			require.LessOrEqual(t, s.Delay, c.delay*12/10)
		})
	}
}

func TestSettlementKeepsAnErrorThatPostgresTakes(t *testing.T) {
	t.Parallel()
	s := (&run{}).settlement(claim.Item{}, Permanent, "", errors.New("bad \x00 \xff text\nin two lines"))
	require.Equal(t, "bad \uFFFD \uFFFD text in two lines", s.Error)
}

func TestRetryDelayDoublesWithJitterUpToItsCap(t *testing.T) {
	t.Parallel()
	for failures, nominal := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 5: 16 * time.Second, 8: 128 * time.Second,
		9: 256 * time.Second, 10: retryCap, 32: retryCap, 1000: retryCap,
	} {
		seen := map[time.Duration]bool{}
		for range 50 {
			delay := retryDelay(failures)
			require.GreaterOrEqual(t, delay, nominal*8/10, "after %d failures", failures)
			require.LessOrEqual(t, delay, nominal*12/10, "after %d failures", failures)
			seen[delay] = true
		}
		require.Greater(t, len(seen), 1, "items that failed together come back together")
	}
}

func TestBreakerTripsProbesOneAtATimeAndCloses(t *testing.T) {
	t.Parallel()
	var b breaker
	now := time.Now()
	require.False(t, b.open())
	require.Equal(t, 5, b.allows(now, 5, 3), "closed: all that are free")

	b.trip(now)
	require.True(t, b.open())
	require.Zero(t, b.allows(now, 5, 0), "it pauses first")
	require.Zero(t, b.allows(b.until.Add(-1), 5, 0))
	require.Equal(t, 1, b.allows(b.until, 5, 0), "then it probes with one")
	require.Zero(t, b.allows(b.until, 5, 1), "and with no other while that one is under way")
	require.Zero(t, b.allows(b.until, 0, 0))

	b.close()
	require.False(t, b.open())
	require.Equal(t, 5, b.allows(now, 5, 0))
}

func TestBreakerIgnoresFailuresThatWereUnderWay(t *testing.T) {
	t.Parallel()
	var b breaker
	now := time.Now()
	b.trip(now)
	until := b.until
	for range 50 {
		b.trip(now.Add(time.Millisecond))
	}
	require.Equal(t, until, b.until)
}

func TestBreakerPausesLongerUpToItsCap(t *testing.T) {
	t.Parallel()
	var b breaker
	now := time.Now()
	for n := range 20 {
		b.trip(now)
		nominal := min(probeBase<<n, probeCap)
		require.GreaterOrEqual(t, b.until.Sub(now), nominal*8/10)
		require.LessOrEqual(t, b.until.Sub(now), nominal*12/10)
		now = b.until
	}
	b.close()
	b.trip(now)
	require.LessOrEqual(t, b.until.Sub(now), probeBase*12/10, "after an outage it begins with a short pause")
}
