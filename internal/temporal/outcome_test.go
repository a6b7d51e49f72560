package temporal

import (
	"context"
	"errors"
	"fmt"
	"testing"

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
	want Outcome
}{
	"none": {nil, Started},

	"permanent":           {As(Permanent, errors.New("too large")), Permanent},
	"permanent foreign":   {As(Permanent, fmt.Errorf("%w: x", ErrForeign)), Permanent},
	"a panic":             {As(Retryable, errors.New("panic: boom")), Retryable},
	"not sent":            {As(NotSent, errors.New("no time left")), NotSent},
	"workflow not found":  {&serviceerror.NotFound{Message: "workflow not found for ID"}, Blocked},
	"not sent, cancelled": {As(NotSent, context.Canceled), NotSent},

	"invalid argument": {serviceerror.NewInvalidArgument("WorkflowId exceeds maximum allowed length"),
		Permanent},
	"already exists":      {serviceerror.NewAlreadyExists("x"), Permanent},
	"already started":     {serviceerror.NewWorkflowExecutionAlreadyStarted("x", "request", "run"), Permanent},
	"failed precondition": {serviceerror.NewFailedPrecondition("x"), Permanent},
	"workflow not ready":  {serviceerror.NewWorkflowNotReady("x"), Permanent},
	"out of range":        {status.Error(codes.OutOfRange, "x"), Permanent},
	"message too large": {
		status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5242980 vs. 4194304)"), Permanent},
	"message too large, by name": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED, "grpc: trying to send "+
		"message larger than max (9 vs. 4)"), Permanent},
	"namespace already exists": {serviceerror.NewNamespaceAlreadyExists("x"), Permanent},
	"newer build exists":       {serviceerror.NewNewerBuildExists("x"), Permanent},
	"possibly forgotten item":  {As(Permanent, fmt.Errorf("%w: x", ErrForgotten)), Permanent},
	"unmarshalable message": {
		serviceerror.NewInternal("grpc: error while marshaling: string field contains invalid UTF-8"), Permanent},

	"busy workflow": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "x"), Busy},
	"too many starts": {
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "Too many starts for workflow execution-1"), Busy},

	"no connection":       {As(Unreached, serviceerror.NewUnavailable("connection refused")), Unreached},
	"no connection, TLS":  {As(Unreached, serviceerror.NewUnavailable("x509: certificate has expired")), Unreached},
	"no connection ready": {As(Unreached, serviceerror.NewDeadlineExceeded("x")), Unreached},

	"namespace not found": {serviceerror.NewNamespaceNotFound("x"), Blocked},
	"not found":           {serviceerror.NewNotFound("x"), Blocked},
	"namespace deleted": {serviceerror.NewNamespaceInvalidState("x", enumspb.NAMESPACE_STATE_DELETED, nil),
		Blocked},
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
	"cancelled by gRPC":        {status.Error(codes.Canceled, "grpc: the client connection is closing"), Unanswered},
	"system workflow": {serviceerror.NewSystemWorkflow(&commonpb.WorkflowExecution{}, errors.New("x")),
		Unanswered},
	"buffer lost":   {serviceerror.NewWorkflowTaskCompletionBufferLost("x"), Unanswered},
	"a future code": {status.Error(codes.Code(42), "x"), Unanswered},
	"TLS handshake": {
		serviceerror.NewUnavailable("connection error: desc = \"transport: authentication handshake failed\""), Unanswered},
	"first call, server down": {fmt.Errorf("failed reaching server: %w", serviceerror.NewUnavailable("x")), Unanswered},
	"internal":                {serviceerror.NewInternal("x"), Unanswered},
	"aborted":                 {serviceerror.NewAborted("x"), Unanswered},
	"data loss":               {serviceerror.NewDataLoss("x"), Unanswered},
	"unknown code":            {status.Error(codes.Unknown, "x"), Unanswered},
	"an unknown error":        {errors.New("x"), Unanswered},

	"rps limit":         {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "x"), Throttled},
	"concurrent limit":  {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT, "x"), Throttled},
	"system overloaded": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_SYSTEM_OVERLOADED, "x"), Throttled},
	"persistence limit": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_PERSISTENCE_LIMIT, "x"), Throttled},
	"storage limit":     {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_PERSISTENCE_STORAGE_LIMIT, "x"), Throttled},
	"aps limit":         {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_APS_LIMIT, "x"), Throttled},
	"ops limit":         {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_OPS_LIMIT, "x"), Throttled},
	"circuit breaker":   {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_CIRCUIT_BREAKER_OPEN, "x"), Throttled},
	"deployment limits": {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_WORKER_DEPLOYMENT_LIMITS, "x"), Throttled},
	"a future cause":    {exhausted(99, "x"), Throttled},
	"no cause":          {exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED, "x"), Throttled},
	"exhausted by gRPC": {status.Error(codes.ResourceExhausted, "x"), Throttled},
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
