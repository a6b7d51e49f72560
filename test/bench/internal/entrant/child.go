// Package entrant holds the contestants other than the product: the hand-written loop, the polled design, River, and
// starts without a queue. Each runs as a process of its own and exits on SIGTERM.
package entrant

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// Main runs the contestant that the environment selects and ends the process. It returns if none is selected.
func Main() {
	text := os.Getenv(lab.ChildVariable)
	if text == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, text)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(ctx context.Context, text string) error {
	var child lab.Child
	if err := json.Unmarshal([]byte(text), &child); err != nil {
		return fmt.Errorf("read %s: %w", lab.ChildVariable, err)
	}
	connect := dial
	if child.Kind == lab.KindRiver {
		connect = dialSDK
	}
	starter, err := connect(child)
	if err != nil {
		return err
	}
	defer starter.close()
	switch child.Kind {
	case lab.KindFloor:
		return floor(ctx, child, starter)
	case lab.KindPolled:
		return polled(ctx, child, starter)
	case lab.KindRiver:
		return works(ctx, child, starter)
	case lab.KindRaw:
		return raw(ctx, child, starter)
	}
	return fmt.Errorf("run child: there is no kind %q", child.Kind)
}

// starter starts workflows.
type starter struct {
	service workflowservice.WorkflowServiceClient
	close   func()
}

// dial connects the bare gRPC stub, which is cheaper than an SDK client. The floor and the limit use it.
func dial(child lab.Child) (*starter, error) {
	conn, err := grpc.NewClient(child.Frontend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("dial the frontend: %w", err)
	}
	return &starter{workflowservice.NewWorkflowServiceClient(conn), func() { _ = conn.Close() }}, nil // the process ends
}

// dialSDK connects Temporal's SDK with its defaults, as an application with a queue beside Temporal would. By default
// the SDK compresses its requests.
func dialSDK(child lab.Child) (*starter, error) {
	options := client.Options{HostPort: child.Frontend, Logger: log.NewStructuredLogger(
		slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))}
	if child.GzipOff {
		options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("make Temporal's client: %w", err)
	}
	return &starter{temporal.WorkflowService(), temporal.Close}, nil
}

// start sends the same request as the product: the same number of fields and an input of the same size.
func (s *starter) start(ctx context.Context, id int64, execution, workspace, definition, params string) error {
	memo := map[string]*commonpb.Payload{"execution_id": jsonPayload(fmt.Appendf(nil, "%q", execution))}
	input := fmt.Appendf(nil,
		`{"executionId":%q,"workspaceId":%q,"workflowDefinitionId":%q,"workflowDefinitionVersionId":%q,"queueItemId":%d,`+
			`"nodeIds":["charge", "ship"],"params":%s}`,
		execution, workspace, definition, definition, id, params)
	_, err := s.service.StartWorkflowExecution(ctx, &workflowservice.StartWorkflowExecutionRequest{
		Namespace:                "default",
		WorkflowId:               "execution-" + execution,
		WorkflowType:             &commonpb.WorkflowType{Name: "Order"},
		TaskQueue:                &taskqueuepb.TaskQueue{Name: "orders", Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		Input:                    &commonpb.Payloads{Payloads: []*commonpb.Payload{jsonPayload(input)}},
		Identity:                 "bench",
		RequestId:                "bench-" + execution,
		WorkflowIdReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIdConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		Memo:                     &commonpb.Memo{Fields: memo},
	})
	if err != nil {
		return fmt.Errorf("start workflow: %w", err)
	}
	return nil
}

// awaitEnd waits until a workflow has ended, as the SDK does.
func (s *starter) awaitEnd(ctx context.Context, execution string) error {
	request := &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace:              "default",
		Execution:              &commonpb.WorkflowExecution{WorkflowId: "execution-" + execution},
		WaitNewEvent:           true,
		HistoryEventFilterType: enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT,
	}
	for {
		response, err := s.service.GetWorkflowExecutionHistory(ctx, request)
		if err != nil {
			return fmt.Errorf("wait for workflow: %w", err)
		}
		if len(response.GetHistory().GetEvents()) > 0 {
			return nil
		}
		request.NextPageToken = response.GetNextPageToken()
	}
}

func jsonPayload(data []byte) *commonpb.Payload {
	return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: data}
}
