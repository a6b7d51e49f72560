package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgdispatch/pgdispatch/claim"
)

const (
	// maxInputBytes is the maximum size of a workflow's input: Temporal's limit.blobSize.error, 2 MiB by default. A
	// server with a lower limit answers InvalidArgument, which fails the item as well.
	maxInputBytes = 2 << 20
	// compressAbove is the input size in bytes above which a start is compressed. Compressing less takes longer than
	// sending it.
	compressAbove = 64 << 10
	// memoKey marks a workflow as ours. Runs that follow by continue-as-new, retry or cron keep the memo, and nothing
	// else that distinguishes them from other clients' workflows.
	memoKey = "pgdispatch_execution_id"
	// traceHeader is the header in which the tracing interceptors of Temporal's SDKs expect the caller's span.
	traceHeader = "_tracer-data"
)

// ErrForeign reports that the workflow ID is in use by a workflow that pgdispatch did not start.
var ErrForeign = errors.New("workflow ID is taken by a workflow that pgdispatch did not start")

// Service is the part of Temporal's workflow service that TemporalStarter needs. It is the raw service, because the
// SDK's client cannot set a request ID, accepts an existing workflow as its own, and retries on its own.
type Service interface {
	StartWorkflowExecution(context.Context, *workflowservice.StartWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.StartWorkflowExecutionResponse, error)
	DescribeWorkflowExecution(context.Context, *workflowservice.DescribeWorkflowExecutionRequest, ...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest, ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error)
}

// TemporalStarter starts workflows. Each item's workflow is started once, no matter how often Start is called.
type TemporalStarter struct {
	Service   Service
	Namespace string // for items without a namespace
	Identity  string // shown in the workflow's history
	// Callback makes Temporal report the end of workflows. If nil, no callback is requested.
	Callback *Callback

	memories memories
	// uncompressed is set once a compressed start was refused but accepted uncompressed.
	uncompressed atomic.Bool
}

// Start starts an item's workflow, or finds that an earlier attempt started it, and returns its run ID. The same item
// yields the same request with the same request ID: Temporal answers a repeated request with the run that the first one
// started, even if that run has ended. Start returns ErrForgotten if Temporal may have forgotten the item's workflow.
func (s *TemporalStarter) Start(ctx context.Context, item claim.Item) (string, error) {
	request, err := s.request(item)
	if err != nil {
		return "", permanentError{err}
	}
	if err := s.mayForget(ctx, item); err != nil {
		return "", err
	}
	var wire wire
	response, err := s.start(ctx, request, item.ExecutionID, &wire)
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case err == nil:
		return response.GetRunId(), nil
	case errors.As(err, &started) && started.StartRequestId == request.RequestId:
		return started.RunId, nil
	case code(err) == codes.AlreadyExists:
		// A run that continued ours has a different request ID, and so does another client's run. Or the answer lacks
		// the ID.
		runID, found, err := s.Find(ctx, item)
		if err == nil && !found {
			err = permanentError{fmt.Errorf("%w: %s", ErrForeign, request.WorkflowId)}
		}
		return runID, err
	case wire.unused():
		return "", unreachedError{fmt.Errorf("start workflow: %w", err)}
	default:
		return "", fmt.Errorf("start workflow: %w", err)
	}
}

// wire records whether a call had a connection to be sent on. A call without one was not carried out, whatever its
// error says, so items tried during an outage have a known outcome.
type wire struct {
	peer  peer.Peer
	ended atomic.Bool
}

func (w *wire) options() []grpc.CallOption {
	return []grpc.CallOption{grpc.Peer(&w.peer), grpc.OnFinish(func(error) { w.ended.Store(true) })}
}

// unused reports whether the call has ended without a peer, according to gRPC itself.
func (w *wire) unused() bool { return w.ended.Load() && w.peer.Addr == nil }

// send sends a start, compressed if it is large. If compression is not supported, for example by a proxy, it resends
// uncompressed, so that one large item does not stop the others.
func (s *TemporalStarter) send(ctx context.Context, request *workflowservice.StartWorkflowExecutionRequest, wire *wire) (*workflowservice.StartWorkflowExecutionResponse, error) {
	large := len(request.GetInput().GetPayloads()[0].GetData()) > compressAbove
	if !large || s.uncompressed.Load() {
		return s.Service.StartWorkflowExecution(ctx, request, wire.options()...)
	}
	response, err := s.Service.StartWorkflowExecution(ctx, request, append(wire.options(), grpc.UseCompressor(gzip.Name))...)
	if code(err) != codes.Unimplemented {
		return response, err
	}
	response, err = s.Service.StartWorkflowExecution(ctx, request, wire.options()...)
	if err == nil {
		s.uncompressed.Store(true)
	}
	return response, err
}

// Find looks for the item's workflow without starting it. found is false if there is none, or only one that pgdispatch
// did not start for this item.
func (s *TemporalStarter) Find(ctx context.Context, item claim.Item) (runID string, found bool, err error) {
	response, err := s.Service.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: s.namespace(item),
		Execution: &commonpb.WorkflowExecution{WorkflowId: item.WorkflowID()},
	})
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("describe workflow: %w", err)
	}
	info := response.GetWorkflowExecutionInfo()
	return info.GetExecution().GetRunId(), isOurs(info, item), nil
}

func (s *TemporalStarter) namespace(item claim.Item) string {
	return cmp.Or(item.Namespace, s.Namespace)
}

func isOurs(info *workflowpb.WorkflowExecutionInfo, item claim.Item) bool {
	return bytes.Equal(info.GetMemo().GetFields()[memoKey].GetData(), jsonString(item.ExecutionID))
}

func (s *TemporalStarter) request(item claim.Item) (*workflowservice.StartWorkflowExecutionRequest, error) {
	input := workflowInput(item)
	if len(input) > maxInputBytes {
		return nil, fmt.Errorf("workflow input has %d bytes, Temporal accepts %d: make params smaller", len(input), maxInputBytes)
	}
	request := &workflowservice.StartWorkflowExecutionRequest{
		Namespace:                s.namespace(item),
		WorkflowId:               item.WorkflowID(),
		WorkflowType:             &commonpb.WorkflowType{Name: item.WorkflowType},
		TaskQueue:                &taskqueuepb.TaskQueue{Name: item.TaskQueue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		Input:                    &commonpb.Payloads{Payloads: []*commonpb.Payload{jsonPayload(input)}},
		Identity:                 s.Identity,
		RequestId:                "pgdispatch-" + item.ExecutionID,
		WorkflowIdReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIdConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		Memo:                     &commonpb.Memo{Fields: map[string]*commonpb.Payload{memoKey: jsonPayload(jsonString(item.ExecutionID))}},
	}
	if item.ExecutionTimeout > 0 {
		request.WorkflowExecutionTimeout = durationpb.New(item.ExecutionTimeout.Truncate(time.Millisecond))
	}
	if item.Traceparent != "" {
		carrier := append(appendString([]byte(`{"traceparent":`), item.Traceparent), '}')
		request.Header = &commonpb.Header{Fields: map[string]*commonpb.Payload{traceHeader: jsonPayload(carrier)}}
	}
	return request, nil
}

// workflowInput builds the input from JSON as Postgres printed it. Params are not decoded: a number of 400 digits or an
// object 5,000 levels deep is passed through unchanged.
func workflowInput(item claim.Item) []byte {
	const names = 160 // upper bound in bytes, including the queue item's ID
	ids := len(item.ExecutionID) + len(item.WorkspaceID) + len(item.WorkflowDefinitionID) + len(item.WorkflowDefinitionVersionID)
	input := make([]byte, 0, names+ids+len(item.NodeIDs)+len(item.Params))
	input = appendString(append(input, `{"executionId":`...), item.ExecutionID)
	input = appendString(append(input, `,"workspaceId":`...), item.WorkspaceID)
	input = appendString(append(input, `,"workflowDefinitionId":`...), item.WorkflowDefinitionID)
	input = appendString(append(input, `,"workflowDefinitionVersionId":`...), item.WorkflowDefinitionVersionID)
	input = strconv.AppendInt(append(input, `,"queueItemId":`...), item.ID, 10)
	input = append(append(input, `,"nodeIds":`...), item.NodeIDs...)
	input = append(append(input, `,"params":`...), item.Params...)
	return append(input, '}')
}

func jsonString(text string) []byte {
	return appendString(make([]byte, 0, len(text)+2), text)
}

// appendString appends text as JSON. Most texts, such as IDs, need no escaping.
func appendString(to []byte, text string) []byte {
	for n := range len(text) {
		if c := text[n]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(text)
			if err != nil {
				panic(err) // no string fails to marshal
			}
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}

// jsonPlain is shared by all payloads and must not be changed.
var jsonPlain = map[string][]byte{"encoding": []byte("json/plain")}

// jsonPayload returns a payload that the default data converter of every Temporal SDK can read.
func jsonPayload(data []byte) *commonpb.Payload {
	return &commonpb.Payload{Metadata: jsonPlain, Data: data}
}
