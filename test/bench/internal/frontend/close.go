package frontend

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// visibleAfter is the delay until a list shows a closed workflow: Elasticsearch's default refresh interval.
const visibleAfter = time.Second

// closure is a workflow that Close closed.
type closure struct {
	id string
	at time.Time
}

// Close closes a started workflow and returns the time at which it closed. Further calls return the same time.
func (s *Server) Close(workflowID string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.arrivals[workflowID]
	if a.closed.IsZero() {
		a.closed = time.Now()
		s.arrivals[workflowID] = a
		s.closures = append(s.closures, closure{workflowID, a.closed})
		close(a.ended)
	}
	return a.closed
}

// ListWorkflowExecutions lists the workflows that Close closed since a given time, newest first.
func (s *Server) ListWorkflowExecutions(
	_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest,
) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	s.lists.Add(1)
	since, err := sinceOf(request.GetQuery())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.closures)
	if token := request.GetNextPageToken(); len(token) > 0 {
		if n, err = strconv.Atoi(string(token)); err != nil || n > len(s.closures) {
			return nil, status.Error(codes.InvalidArgument, "not a page token")
		}
	}
	response := &workflowservice.ListWorkflowExecutionsResponse{}
	for n--; n >= 0; n-- {
		c := s.closures[n]
		switch {
		case time.Since(c.at) < visibleAfter:
			continue
		case c.at.Before(since):
			return response, nil
		case len(response.Executions) == int(request.GetPageSize()):
			response.NextPageToken = strconv.AppendInt(nil, int64(n+1), 10)
			return response, nil
		}
		response.Executions = append(response.Executions, s.info(c.id, s.arrivals[c.id]))
	}
	return response, nil
}

var closeTime = regexp.MustCompile(`CloseTime >= '([^']+)'`)

func sinceOf(query string) (time.Time, error) {
	found := closeTime.FindStringSubmatch(query)
	if found == nil {
		return time.Time{}, fmt.Errorf("read query %q: it has no close time", query)
	}
	return time.Parse(time.RFC3339Nano, found[1])
}

// info describes a workflow.
func (s *Server) info(workflowID string, a arrival) *workflowpb.WorkflowExecutionInfo {
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: workflowID, RunId: a.run}, Memo: a.memo,
		Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
	}
	if at, closed := s.closedAt(a); closed {
		info.Status, info.CloseTime = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, timestamppb.New(at)
	}
	return info
}

// closedAt returns when a workflow closed, and reports whether it has.
func (s *Server) closedAt(a arrival) (at time.Time, closed bool) {
	switch due := a.at.Add(s.options.CloseAfter); {
	case !a.closed.IsZero():
		return a.closed, true
	case s.options.CloseAfter == Never || time.Now().Before(due):
		return time.Time{}, false
	default:
		return due, true
	}
}
