// Package temporal is all that speaks to Temporal: it gives workflows their identity, starts them, waits for their end,
// lists, signals, stops and describes them, and says what an error means.
//
// It uses the raw service, because the SDK's client cannot set a request ID, accepts an existing workflow as its own,
// and retries on its own.
package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

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
	DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest,
		...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error)
	DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest,
		...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error)
}

// Client speaks to Temporal. Set its fields before use and do not change them afterwards.
type Client struct {
	Service   Service
	Namespace string // of executions that name none, and the one that Probe describes
	Identity  string // shown in the histories of started workflows
	// Callback makes Temporal report the end of workflows. If nil, no callback is requested.
	Callback *Callback

	memories memories
	// uncompressed is set once a compressed start was refused but accepted uncompressed.
	uncompressed atomic.Bool
	noPrefix     atomic.Bool // visibility cannot search by prefix
}

// namespace returns named, or the client's namespace if named is empty.
func (t *Client) namespace(named string) string { return cmp.Or(named, t.Namespace) }

// Probe describes the namespace. A refusal counts as an answer unless it implies that all other requests would fail,
// too. A missing namespace is not an error, because other namespaces may exist.
func (t *Client) Probe(ctx context.Context) error {
	_, err := t.Service.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: t.Namespace})
	var missing *serviceerror.NamespaceNotFound
	if errors.As(err, &missing) {
		return nil
	}
	switch Code(err) {
	case codes.OK, codes.PermissionDenied, codes.Unimplemented, codes.ResourceExhausted:
		return nil
	default:
		return fmt.Errorf("describe namespace: %w", err)
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
