package frontend

import (
	"context"
	"time"

	"go.temporal.io/api/workflowservice/v1"
)

// SignalWorkflowExecution records the arrival of a signal as that of a workflow with the signal's name, and answers.
func (s *Server) SignalWorkflowExecution(
	_ context.Context, request *workflowservice.SignalWorkflowExecutionRequest,
) (*workflowservice.SignalWorkflowExecutionResponse, error) {
	now := time.Now()
	if _, known := s.lookup(request.GetWorkflowExecution().GetWorkflowId()); !known {
		return nil, errNotFound
	}
	id := "execution-" + request.GetSignalName()
	s.mu.Lock()
	s.arrivals[id] = arrival{at: now, ended: make(chan struct{})}
	waiting := s.unanswered[id]
	delete(s.unanswered, id)
	s.mu.Unlock()
	if waiting != nil {
		close(waiting)
	}
	return &workflowservice.SignalWorkflowExecutionResponse{}, nil
}
