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

// temporalErrors lists the errors of a start by their outcome.
var temporalErrors = map[engine.Outcome][]error{
	engine.Started: {nil},
	engine.Unregistered: {
		serviceerror.NewInvalidArgument("Namespace shop has no mapping defined for search attribute Customer"),
		serviceerror.NewInvalidArgument("search attribute Customer is not defined"),
	},
	engine.Permanent: {
		As(engine.Permanent, errors.New("too large")),
		As(engine.Permanent, fmt.Errorf("%w: x", ErrForeign)),
		serviceerror.NewInvalidArgument("WorkflowId exceeds maximum allowed length"),
		serviceerror.NewAlreadyExists("x"),
		serviceerror.NewWorkflowExecutionAlreadyStarted("x", "request", "run"),
		serviceerror.NewFailedPrecondition("x"),
		serviceerror.NewWorkflowNotReady("x"),
		status.Error(codes.OutOfRange, "x"),
		status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5242980 vs. 4194304)"),
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED, "grpc: trying to send message larger than max (9 vs. 4)"),
		status.Error(codes.ResourceExhausted, "gRPC message exceeds maximum size 4194304: 4194400"),
		status.Error(codes.Unknown, "unexpected HTTP status code received from server: 413 (Request Entity Too Large)"),
		serviceerror.NewNamespaceAlreadyExists("x"),
		serviceerror.NewNewerBuildExists("x"),
		serviceerror.NewInternal("grpc: error while marshaling: string field contains invalid UTF-8"),
	},
	engine.Retryable: {As(engine.Retryable, errors.New("panic: boom"))},
	engine.NotSent:   {As(engine.NotSent, errors.New("no time left")), As(engine.NotSent, context.Canceled)},
	engine.Forgotten: {As(engine.Forgotten, fmt.Errorf("%w: x", ErrForgotten))},
	engine.Busy: {
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "x"),
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW, "Too many starts for workflow execution-1"),
	},
	engine.Unreached: {
		As(engine.Unreached, serviceerror.NewUnavailable("connection refused")),
		As(engine.Unreached, serviceerror.NewUnavailable("x509: expired")),
		As(engine.Unreached, serviceerror.NewDeadlineExceeded("x")),
	},
	engine.Blocked: {
		&serviceerror.NotFound{Message: "workflow not found for ID"},
		serviceerror.NewNamespaceNotFound("x"),
		serviceerror.NewNotFound("x"),
		serviceerror.NewNamespaceInvalidState("x", enumspb.NAMESPACE_STATE_DELETED, nil),
		serviceerror.NewPermissionDenied("x", ""),
		status.Error(codes.Unauthenticated, "x"),
		serviceerror.NewUnimplemented("x"),
		serviceerror.NewClientVersionNotSupported("1", "x", "2"),
		serviceerror.NewServerVersionNotSupported("1", "2"),
	},
	engine.Unanswered: {
		serviceerror.NewUnavailable("connection refused"),
		serviceerror.NewUnavailable("connection error: desc = \"transport: authentication handshake failed\""),
		fmt.Errorf("failed reaching server: %w", serviceerror.NewUnavailable("the first call finds no server")),
		serviceerror.NewNamespaceUnavailable("x"),
		serviceerror.NewNamespaceNotActive("x", "here", "there"),
		serviceerror.NewDeadlineExceeded("of the server"), context.DeadlineExceeded,
		serviceerror.NewCanceled("by the server"), context.Canceled,
		status.Error(codes.Canceled, "client connection is closing"),
		serviceerror.NewSystemWorkflow(&commonpb.WorkflowExecution{}, errors.New("x")),
		serviceerror.NewWorkflowTaskCompletionBufferLost("x"),
		status.Error(codes.Code(42), "a future code"),
		serviceerror.NewInternal("x"), serviceerror.NewAborted("x"), serviceerror.NewDataLoss("x"),
		status.Error(codes.Unknown, "x"), errors.New("an unknown error"),
	},
	engine.Throttled: {
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "x"),
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT, "x"),
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_SYSTEM_OVERLOADED, "x"),
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_PERSISTENCE_LIMIT, "x"),
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_PERSISTENCE_STORAGE_LIMIT, "x"),
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_APS_LIMIT, "x"),
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_OPS_LIMIT, "x"),
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_CIRCUIT_BREAKER_OPEN, "x"),
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_WORKER_DEPLOYMENT_LIMITS, "x"),
		exhausted(99, "a future cause"),
		exhausted(enumspb.RESOURCE_EXHAUSTED_CAUSE_UNSPECIFIED, "x"),
		status.Error(codes.ResourceExhausted, "x"),
	},
}

func TestClassifyKnowsEveryErrorOfTemporal(t *testing.T) {
	t.Parallel()
	for want, errs := range temporalErrors {
		for _, err := range errs {
			require.Equal(t, want.String(), Classify(err).String(), "%T %v", err, err)
			if err != nil {
				wrapped := fmt.Errorf("%w: %w", errors.New("start timed out after 5s"), fmt.Errorf("start workflow: %w", err))
				require.Equal(t, want.String(), Classify(wrapped).String(), "wrapped: %T %v", err, err)
			}
		}
	}
}
