// Package temporal is all that speaks to Temporal: it gives workflows and standalone activities their identity, starts
// them, waits for their end, lists, signals, stops and describes them, and says what an error means.
//
// It uses the raw service, because the SDK's client cannot set a request ID, accepts an existing workflow as its own,
// and retries on its own.
package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// Service is the part of Temporal's workflow service that Client needs.
type Service interface {
	StartWorkflowExecution(context.Context, *workflowservice.StartWorkflowExecutionRequest,
		...grpc.CallOption) (*workflowservice.StartWorkflowExecutionResponse, error)
	GetWorkflowExecutionHistory(context.Context, *workflowservice.GetWorkflowExecutionHistoryRequest,
		...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryResponse, error)
	DescribeWorkflowExecution(context.Context, *workflowservice.DescribeWorkflowExecutionRequest,
		...grpc.CallOption) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	ListWorkflowExecutions(context.Context, *workflowservice.ListWorkflowExecutionsRequest,
		...grpc.CallOption) (*workflowservice.ListWorkflowExecutionsResponse, error)
	RequestCancelWorkflowExecution(context.Context, *workflowservice.RequestCancelWorkflowExecutionRequest,
		...grpc.CallOption) (*workflowservice.RequestCancelWorkflowExecutionResponse, error)
	SignalWorkflowExecution(context.Context, *workflowservice.SignalWorkflowExecutionRequest,
		...grpc.CallOption) (*workflowservice.SignalWorkflowExecutionResponse, error)
	TerminateWorkflowExecution(context.Context, *workflowservice.TerminateWorkflowExecutionRequest,
		...grpc.CallOption) (*workflowservice.TerminateWorkflowExecutionResponse, error)
	StartActivityExecution(context.Context, *workflowservice.StartActivityExecutionRequest,
		...grpc.CallOption) (*workflowservice.StartActivityExecutionResponse, error)
	PollActivityExecution(context.Context, *workflowservice.PollActivityExecutionRequest,
		...grpc.CallOption) (*workflowservice.PollActivityExecutionResponse, error)
	DescribeActivityExecution(context.Context, *workflowservice.DescribeActivityExecutionRequest,
		...grpc.CallOption) (*workflowservice.DescribeActivityExecutionResponse, error)
	ListActivityExecutions(context.Context, *workflowservice.ListActivityExecutionsRequest,
		...grpc.CallOption) (*workflowservice.ListActivityExecutionsResponse, error)
	RequestCancelActivityExecution(context.Context, *workflowservice.RequestCancelActivityExecutionRequest,
		...grpc.CallOption) (*workflowservice.RequestCancelActivityExecutionResponse, error)
	TerminateActivityExecution(context.Context, *workflowservice.TerminateActivityExecutionRequest,
		...grpc.CallOption) (*workflowservice.TerminateActivityExecutionResponse, error)
	DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest,
		...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error)
	DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest,
		...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error)
	GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest,
		...grpc.CallOption) (*workflowservice.GetSystemInfoResponse, error)
}

// Client speaks to Temporal. Set its fields before use and do not change them afterwards.
type Client struct {
	Service   Service
	Namespace string // of executions that name none, and the one that Probe describes
	Identity  string // shown in the histories of started workflows
	// Callback makes Temporal report the end of workflows. If nil, no callback is requested.
	Callback *Callback
	// Codec encodes what is sent and decodes what workflows return. If nil, payloads are JSON that everybody can read.
	Codec *Codec

	memories memories
	// uncompressed is set once a compressed start was refused but accepted uncompressed.
	uncompressed atomic.Bool
	noPrefix     atomic.Bool // visibility cannot search by prefix
	noActivities atomic.Pointer[string]
}

// namespace returns named, or the client's namespace if named is empty.
func (t *Client) namespace(named string) string { return cmp.Or(named, t.Namespace) }

// NamespaceError says why Temporal, which answers, does not serve the client's namespace, and what to do about it. It
// says nothing about other namespaces.
type NamespaceError string

// Error implements error.
func (e NamespaceError) Error() string { return string(e) }

// nobody is the ID of an execution that does not exist.
const nobody = "00000000-0000-0000-0000-000000000000"

// Probe asks whether Temporal answers and serves the client's namespace, and whether the codec server, if there is one,
// encodes. If only the namespace is not served, the error is a NamespaceError. If only the codec server does not
// encode, it is a CodecError.
func (t *Client) Probe(ctx context.Context) error {
	if err := t.probeTemporal(ctx); err != nil || t.Codec == nil {
		return err
	}
	return t.Codec.Probe(ctx, t.Namespace)
}

// probeTemporal is Probe without the codec server. Refusals count as answers unless they imply that all requests would
// fail.
func (t *Client) probeTemporal(ctx context.Context) error {
	response, err := t.Service.DescribeNamespace(ctx,
		&workflowservice.DescribeNamespaceRequest{Namespace: t.Namespace})
	if Code(err) == codes.PermissionDenied { // a replica may do without describing its namespace, but not without this
		_, err = t.closed(ctx, Execution{ID: nobody})
	}
	var missing *serviceerror.NamespaceNotFound
	var noExecution *serviceerror.NotFound
	switch state := response.GetNamespaceInfo().GetState(); {
	case errors.As(err, &missing):
		return NamespaceError(fmt.Sprintf("Temporal has no namespace %q: register it (%s), or correct TEMPORAL_NAMESPACE",
			t.Namespace, registration(t.Namespace)))
	case Code(err) == codes.PermissionDenied:
		return NamespaceError(fmt.Sprintf("namespace %q: %v: allow the API key or certificate of pgdispatch to use it, or "+
			"correct TEMPORAL_NAMESPACE", t.Namespace, err))
	case state == enumspb.NAMESPACE_STATE_DEPRECATED || state == enumspb.NAMESPACE_STATE_DELETED:
		return NamespaceError(fmt.Sprintf("namespace %q is %s and takes no new workflows: correct TEMPORAL_NAMESPACE",
			t.Namespace, strings.ToLower(state.String())))
	case errors.As(err, &noExecution):
		return nil
	}
	switch Code(err) {
	case codes.OK, codes.Unimplemented, codes.ResourceExhausted:
		return nil
	default:
		return fmt.Errorf("probe Temporal: %w", err)
	}
}

// bounded makes a request with requestTimeout and classifies its error.
func bounded(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("request timed out after %s", requestTimeout))
	defer cancel()
	err := request(ctx)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return away(err)
}
