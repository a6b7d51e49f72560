package temporal

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var exhausted = serviceerror.NewResourceExhausted

// temporalErrors lists every error of a start and its outcome.
var temporalErrors = map[string]struct {
	err  error
	want engine.Outcome
}{
	"none": {nil, engine.Started},

	"permanent":           {As(engine.Permanent, errors.New("too large")), engine.Permanent},
	"permanent foreign":   {As(engine.Permanent, fmt.Errorf("%w: x", ErrForeign)), engine.Permanent},
	"a panic":             {As(engine.Retryable, errors.New("panic: boom")), engine.Retryable},
	"not sent":            {As(engine.NotSent, errors.New("no time left")), engine.NotSent},
	"workflow not found":  {&serviceerror.NotFound{Message: "workflow not found for ID"}, engine.Blocked},
	"not sent, cancelled": {As(engine.NotSent, context.Canceled), engine.NotSent},

	"invalid argument": {serviceerror.NewInvalidArgument("WorkflowId exceeds maximum allowed length"),
		engine.Permanent},
	"already exists":      {serviceerror.NewAlreadyExists("x"), engine.Permanent},
	"already started":     {serviceerror.NewWorkflowExecutionAlreadyStarted("x", "request", "run"), engine.Permanent},
	"failed precondition": {serviceerror.NewFailedPrecondition("x"), engine.Permanent},
	"workflow not ready":  {serviceerror.NewWorkflowNotReady("x"), engine.Permanent},
	"out of range":        {status.Error(codes.OutOfRange, "x"), engine.Permanent},
	"message too large": {
		status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5242980 vs. 4194304)"),
		engine.Permanent},
	"message too large, by name": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED, "grpc: trying to send "+
		"message larger than max (9 vs. 4)"), engine.Permanent},
	"namespace already exists": {serviceerror.NewNamespaceAlreadyExists("x"), engine.Permanent},
	"newer build exists":       {serviceerror.NewNewerBuildExists("x"), engine.Permanent},
	"possibly forgotten item":  {As(engine.Forgotten, fmt.Errorf("%w: x", ErrForgotten)), engine.Forgotten},
	"unmarshalable message": {
		serviceerror.NewInternal("grpc: error while marshaling: string field contains invalid UTF-8"), engine.Permanent},

	"busy workflow": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "x"), engine.Busy},
	"too many starts": {
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "Too many starts for workflow execution-1"), engine.Busy},

	"no connection":       {As(engine.Unreached, serviceerror.NewUnavailable("connection refused")), engine.Unreached},
	"no connection, TLS":  {As(engine.Unreached, serviceerror.NewUnavailable("x509: expired")), engine.Unreached},
	"no connection ready": {As(engine.Unreached, serviceerror.NewDeadlineExceeded("x")), engine.Unreached},

	"namespace not found": {serviceerror.NewNamespaceNotFound("x"), engine.Blocked},
	"not found":           {serviceerror.NewNotFound("x"), engine.Blocked},
	"namespace deleted": {serviceerror.NewNamespaceInvalidState("x", enumspb.NAMESPACE_STATE_DELETED, nil),
		engine.Blocked},
	"permission denied":            {serviceerror.NewPermissionDenied("x", ""), engine.Blocked},
	"unauthenticated":              {status.Error(codes.Unauthenticated, "x"), engine.Blocked},
	"unimplemented":                {serviceerror.NewUnimplemented("x"), engine.Blocked},
	"client version not supported": {serviceerror.NewClientVersionNotSupported("1", "x", "2"), engine.Blocked},
	"server version not supported": {serviceerror.NewServerVersionNotSupported("1", "2"), engine.Blocked},

	"unavailable":              {serviceerror.NewUnavailable("connection refused"), engine.Unanswered},
	"namespace unavailable":    {serviceerror.NewNamespaceUnavailable("x"), engine.Unanswered},
	"namespace not active":     {serviceerror.NewNamespaceNotActive("x", "here", "there"), engine.Unanswered},
	"deadline of the server":   {serviceerror.NewDeadlineExceeded("x"), engine.Unanswered},
	"deadline of the context":  {context.DeadlineExceeded, engine.Unanswered},
	"cancelled by the server":  {serviceerror.NewCanceled("x"), engine.Unanswered},
	"cancelled by the context": {context.Canceled, engine.Unanswered},
	"cancelled by gRPC":        {status.Error(codes.Canceled, "client connection is closing"), engine.Unanswered},
	"system workflow": {serviceerror.NewSystemWorkflow(&commonpb.WorkflowExecution{}, errors.New("x")),
		engine.Unanswered},
	"buffer lost":   {serviceerror.NewWorkflowTaskCompletionBufferLost("x"), engine.Unanswered},
	"a future code": {status.Error(codes.Code(42), "x"), engine.Unanswered},
	"TLS handshake": {
		serviceerror.NewUnavailable("connection error: desc = \"transport: authentication handshake failed\""),
		engine.Unanswered},
	"first call, server down": {fmt.Errorf("failed reaching server: %w", serviceerror.NewUnavailable("x")),
		engine.Unanswered},
	"internal":         {serviceerror.NewInternal("x"), engine.Unanswered},
	"aborted":          {serviceerror.NewAborted("x"), engine.Unanswered},
	"data loss":        {serviceerror.NewDataLoss("x"), engine.Unanswered},
	"unknown code":     {status.Error(codes.Unknown, "x"), engine.Unanswered},
	"an unknown error": {errors.New("x"), engine.Unanswered},

	"rps limit":         {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "x"), engine.Throttled},
	"concurrent limit":  {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT, "x"), engine.Throttled},
	"system overloaded": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_SYSTEM_OVERLOADED, "x"), engine.Throttled},
	"persistence limit": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_PERSISTENCE_LIMIT, "x"), engine.Throttled},
	"storage limit":     {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_PERSISTENCE_STORAGE_LIMIT, "x"), engine.Throttled},
	"aps limit":         {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_APS_LIMIT, "x"), engine.Throttled},
	"ops limit":         {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_OPS_LIMIT, "x"), engine.Throttled},
	"circuit breaker":   {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_CIRCUIT_BREAKER_OPEN, "x"), engine.Throttled},
	"deployment limits": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_WORKER_DEPLOYMENT_LIMITS, "x"), engine.Throttled},
	"a future cause":    {exhausted(99, "x"), engine.Throttled},
	"no cause":          {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED, "x"), engine.Throttled},
	"exhausted by gRPC": {status.Error(codes.ResourceExhausted, "x"), engine.Throttled},
}

func TestClassifyKnowsEveryErrorOfTemporal(t *testing.T) {
	t.Parallel()
	for name, c := range temporalErrors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want.String(), Classify(c.err).String())
			if c.err != nil {
				wrapped := fmt.Errorf("%w: %w", errors.New("start timed out after 5s"), fmt.Errorf("start workflow: %w", c.err))
				require.Equal(t, c.want.String(), Classify(wrapped).String(), "wrapped")
			}
		})
	}
}
