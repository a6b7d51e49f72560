package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// maxInputBytes is the maximum size of a workflow's input: Temporal's limit.blobSize.error, 2 MiB by default. A
	// server with a lower limit answers InvalidArgument, which fails the item as well.
	maxInputBytes = 2 << 20
	// compressAbove is the input size in bytes above which a start is compressed. Compressing less takes longer than
	// sending it.
	compressAbove = 64 << 10
	// traceHeader is the header in which the tracing interceptors of Temporal's SDKs expect the caller's span.
	traceHeader = "_tracer-data"
)

var (
	// ErrForeign reports that the workflow ID is in use by a workflow that pgdispatch did not start.
	ErrForeign = errors.New("workflow ID is used by a workflow that pgdispatch did not start")
	// ErrExists reports that Temporal has a run under the workflow ID that an item names, which its policy rejects.
	ErrExists = errors.New("workflow ID exists")
)

// Start is a request to start an item's workflow, or its activity.
type Start struct {
	Execution
	// Policy applies to executions with a WorkflowID. Others are started with Reject.
	Policy Policy

	WorkflowType     string // or the activity's type
	TaskQueue        string
	ExecutionTimeout time.Duration // zero means no timeout; for an activity the schedule-to-close timeout
	Traceparent      string        // empty if there is none
	Options          []byte        // a JSON object: see options.go; nil if there are none

	// The rest of the workflow's input.
	QueueItemID                 int64
	WorkspaceID                 string
	WorkflowDefinitionID        string
	WorkflowDefinitionVersionID string
	NodeIDs                     []byte // a JSON array of strings, as stored
	Params                      []byte // JSON, as stored
	Input                       Input  // what becomes of params

	// Unanswered reports whether an earlier request for this execution got no response. UnansweredFor is an upper bound on
	// the time since the first such request. Without Unanswered, it is that of a request which may have been forgotten;
	// zero means that there was none.
	Unanswered    bool
	UnansweredFor time.Duration
}

func (s Start) maybeSent() bool { return s.Unanswered || s.UnansweredFor > 0 }

// Start starts a workflow, or finds that an earlier attempt started it, and returns its run ID. The same execution
// yields the same request with the same request ID: Temporal answers a repeated request with the run that the first one
// started, even if that run has ended. Start returns ErrForgotten if Temporal may have forgotten the workflow, and
// ErrExists if the policy rejects the run that has the workflow ID.
func (t *Client) Start(ctx context.Context, start Start) (string, error) {
	request, err := t.request(start)
	if err != nil {
		return "", As(engine.Permanent, err)
	}
	if err := t.mayForget(ctx, start); err != nil {
		return "", err
	}
	if start.maybeSent() && start.WorkflowID != "" && start.Policy != Reject {
		// Temporal recognises a repeated request only while it is the newest run's. Under these policies it would start
		// another run after one that has continued as new and closed.
		if runID, found, err := t.Find(ctx, start); found || err != nil {
			return runID, err
		}
	}
	if err := t.encodeStart(ctx, request.StartWorkflowExecutionRequest); err != nil {
		return "", err
	}
	var wire wire
	runID, err := t.sendWithCallback(ctx, request, start.Execution, &wire)
	existing, requestID, exists := startedBy(err)
	switch {
	case err == nil:
		return runID, nil
	case exists && requestID == request.RequestId:
		return existing, nil
	case Code(err) == codes.AlreadyExists:
		return t.existing(ctx, start)
	case wire.unused() && Code(err) == codes.Internal:
		// gRPC refused to send this request, for example because of what a header contains.
		return "", As(engine.Permanent, fmt.Errorf("start %s: %w", start.Kind, err))
	case wire.unused():
		return "", As(engine.Unreached, fmt.Errorf("start %s: %w", start.Kind, err))
	case isBlocked(err):
		return "", sharedError{fmt.Errorf("start %s: %w", start.Kind, err)}
	case Classify(err) == engine.Unregistered:
		return "", fmt.Errorf("start %s: retried for some minutes, in case it is being registered: %w", start.Kind, err)
	default:
		return "", fmt.Errorf("start %s: %w", start.Kind, err)
	}
}

// sendWithCallback sends a start with a callback, or without one while Temporal refuses callbacks. It does not parse
// error texts: if the request succeeds without the callback, the callback was the reason for the refusal. An activity
// has none: Temporal refuses them for activities by default.
func (t *Client) sendWithCallback(ctx context.Context, request order, execution Execution,
	wire *wire) (runID string, err error) {
	if request.activity != nil || t.Callback == nil || !t.Callback.wanted() {
		return t.send(ctx, request, wire)
	}
	execution.Namespace = request.GetNamespace()
	request.CompletionCallbacks = t.Callback.request(execution)
	attach := request.GetOnConflictOptions()
	if attach != nil {
		attach.AttachCompletionCallbacks = true
	}
	runID, refusal := t.send(ctx, request, wire)
	full := attach != nil && Code(refusal) == codes.FailedPrecondition // an existing run takes a limited number
	if !isRefusal(refusal) && !full {
		if refusal == nil {
			t.Callback.taken(ctx)
		}
		return runID, refusal
	}
	request.CompletionCallbacks = nil
	if attach != nil {
		attach.AttachCompletionCallbacks = false
	}
	runID, err = t.send(ctx, request, wire)
	if err == nil && !full {
		t.Callback.refuse(ctx, refusal)
	}
	return runID, err
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

// send sends a start, compressed if it is large and no codec has encoded it. If compression is not supported, for
// example by a proxy, it resends uncompressed, so that one large item does not stop the others.
func (t *Client) send(ctx context.Context, request order, wire *wire) (runID string, err error) {
	large := t.Codec == nil && inputBytes(request.GetInput().GetPayloads()) > compressAbove
	if !large || t.uncompressed.Load() {
		return t.post(ctx, request, wire.options()...)
	}
	runID, err = t.post(ctx, request, append(wire.options(), grpc.UseCompressor(gzip.Name))...)
	if Code(err) != codes.Unimplemented {
		return runID, err
	}
	runID, err = t.post(ctx, request, wire.options()...)
	if err == nil {
		t.uncompressed.Store(true)
	}
	return runID, err
}

// request returns the request for an item.
func (t *Client) request(start Start) (order, error) {
	input, err := arguments(start)
	if err != nil {
		return order{}, err
	}
	request := order{StartWorkflowExecutionRequest: &workflowservice.StartWorkflowExecutionRequest{
		Namespace:                t.namespace(start.Namespace),
		WorkflowId:               start.Workflow(),
		WorkflowType:             &commonpb.WorkflowType{Name: start.WorkflowType},
		TaskQueue:                &taskqueuepb.TaskQueue{Name: start.TaskQueue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		Input:                    &commonpb.Payloads{Payloads: input},
		Identity:                 t.Identity,
		RequestId:                requestID(start.ID),
		WorkflowIdReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIdConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		Memo:                     memo(start.ID),
	}}
	switch start.Kind {
	case Workflow, "":
	case Activity:
		request.activity = &workflowservice.StartActivityExecutionRequest{}
	default:
		return order{}, fmt.Errorf("the definition's kind is %q, which this replica does not know: upgrade it", start.Kind)
	}
	if start.ExecutionTimeout > 0 {
		request.WorkflowExecutionTimeout = durationpb.New(start.ExecutionTimeout.Truncate(time.Millisecond))
	}
	if start.Traceparent != "" {
		carrier := append(appendString([]byte(`{"traceparent":`), start.Traceparent), '}')
		request.Header = &commonpb.Header{Fields: map[string]*commonpb.Payload{traceHeader: jsonPayload(carrier)}}
	}
	addIDs(request.StartWorkflowExecutionRequest, start)
	if err := applyPolicy(request.StartWorkflowExecutionRequest, start); err != nil {
		return order{}, err
	}
	return request, applyOptions(request, start.Options)
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
