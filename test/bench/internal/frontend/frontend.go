// Package frontend is a Temporal frontend that does nothing: it takes starts, notes when each arrived, and answers. What
// is measured against it is the dispatcher and its database, and no workflow engine.
package frontend

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // Temporal takes what an SDK's client compresses, and answers in kind
	"google.golang.org/grpc/status"
)

// longPoll is how long an unanswered wait for a close event is held, as a real frontend does.
const longPoll = 20 * time.Second

// Never is a CloseAfter for workflows that run on.
const Never = time.Duration(-1)

var (
	errNotFound = status.Error(codes.NotFound, "workflow not found")
	errGone     = status.Error(codes.Canceled, "the caller has gone")
)

// Options is how a frontend behaves. The zero value answers at once, and every workflow has ended when it is asked for.
type Options struct {
	// StartDelay is how long a start is held before it is answered.
	StartDelay time.Duration
	// CloseAfter is how long a workflow runs after its start arrived. Never: for ever.
	CloseAfter time.Duration
}

// Server is a running frontend. Its clock is this process's, so that arrivals can be set against what this process sent.
type Server struct {
	workflowservice.UnimplementedWorkflowServiceServer

	options  Options
	grpc     *grpc.Server
	address  string
	runs     atomic.Int64
	inFlight atomic.Int64
	greatest atomic.Int64
	reads    atomic.Int64
	held     atomic.Int64
	others   atomic.Int64
	lists    atomic.Int64

	mu         sync.Mutex
	arrivals   map[string]arrival
	closures   []closure
	duplicates int
	unanswered map[string]chan struct{} // those who wait for a workflow to arrive
}

type arrival struct {
	at     time.Time
	run    string
	memo   *commonpb.Memo
	closed time.Time     // by Close; zero: it was not
	ended  chan struct{} // closed by Close
}

// Start listens on a free port of the loopback interface and serves until Stop.
func Start(options Options) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the frontend: %w", err)
	}
	s := &Server{options: options, grpc: grpc.NewServer(), address: listener.Addr().String(),
		arrivals: map[string]arrival{}, unanswered: map[string]chan struct{}{}}
	workflowservice.RegisterWorkflowServiceServer(s.grpc, s)
	go func() { _ = s.grpc.Serve(listener) }() // ends with Stop, and has nothing to say then
	return s, nil
}

// Address is where to find it.
func (s *Server) Address() string { return s.address }

// Stop ends it at once, long polls included.
func (s *Server) Stop() { s.grpc.Stop() }

// Counts is what a frontend has seen so far.
type Counts struct {
	Starts     int // different workflow IDs
	Duplicates int // starts of a workflow ID that was there already
	Greatest   int // starts that were held at once
	Polls      int // waits for a close event
	Held       int // of them, those that wait now
	Lists      int // lists of closed workflows
	Others     int // questions about one workflow that wait for nothing
}

// Counts returns what was seen since Start.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counts{Starts: len(s.arrivals), Duplicates: s.duplicates, Greatest: int(s.greatest.Load()), Polls: int(s.reads.Load()),
		Held: int(s.held.Load()), Lists: int(s.lists.Load()), Others: int(s.others.Load())}
}

// Arrivals returns when each workflow's first start arrived.
func (s *Server) Arrivals() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	arrivals := make(map[string]time.Time, len(s.arrivals))
	for id, a := range s.arrivals {
		arrivals[id] = a.at
	}
	return arrivals
}

// Await waits until a workflow's start has arrived, and says when.
func (s *Server) Await(ctx context.Context, workflowID string) (time.Time, error) {
	s.mu.Lock()
	a, ok := s.arrivals[workflowID]
	arrived := s.unanswered[workflowID]
	if !ok && arrived == nil {
		arrived = make(chan struct{})
		s.unanswered[workflowID] = arrived
	}
	s.mu.Unlock()
	if ok {
		return a.at, nil
	}
	select {
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("wait for the start of %s: %w", workflowID, context.Cause(ctx))
	case <-arrived:
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.arrivals[workflowID].at, nil
	}
}

// GetSystemInfo is asked by every SDK before anything else.
func (s *Server) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{ServerVersion: "1.0.0", Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{}}, nil
}

// StartWorkflowExecution notes the arrival and answers. A workflow ID that is known gets the run that it got before.
func (s *Server) StartWorkflowExecution(ctx context.Context, request *workflowservice.StartWorkflowExecutionRequest) (*workflowservice.StartWorkflowExecutionResponse, error) {
	now := time.Now()
	held := s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	for greatest := s.greatest.Load(); held > greatest && !s.greatest.CompareAndSwap(greatest, held); greatest = s.greatest.Load() {
	}

	id := request.GetWorkflowId()
	s.mu.Lock()
	a, known := s.arrivals[id]
	if known {
		s.duplicates++
	} else {
		a = arrival{at: now, run: "run-" + strconv.FormatInt(s.runs.Add(1), 10), memo: request.GetMemo(), ended: make(chan struct{})}
		s.arrivals[id] = a
	}
	waiting := s.unanswered[id]
	delete(s.unanswered, id)
	s.mu.Unlock()
	if waiting != nil {
		close(waiting)
	}

	if err := sleep(ctx, s.options.StartDelay); err != nil {
		return nil, err
	}
	return &workflowservice.StartWorkflowExecutionResponse{RunId: a.run, Started: !known, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}, nil
}

// GetWorkflowExecutionHistory answers with the close event once it is due, and empty when a long poll is over.
func (s *Server) GetWorkflowExecutionHistory(ctx context.Context, request *workflowservice.GetWorkflowExecutionHistoryRequest) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
	a, known := s.lookup(request.GetExecution().GetWorkflowId())
	if !known {
		return nil, errNotFound
	}
	if _, closed := s.closedAt(a); !closed && request.GetWaitNewEvent() {
		s.reads.Add(1)
		s.held.Add(1)
		defer s.held.Add(-1)
		if err := s.awaitClose(ctx, a); err != nil {
			return nil, err
		}
		a, _ = s.lookup(request.GetExecution().GetWorkflowId())
	} else if request.GetWaitNewEvent() {
		s.reads.Add(1)
	} else {
		s.others.Add(1)
	}
	if _, closed := s.closedAt(a); !closed {
		return &workflowservice.GetWorkflowExecutionHistoryResponse{History: &historypb.History{}, NextPageToken: []byte("more")}, nil
	}
	return &workflowservice.GetWorkflowExecutionHistoryResponse{History: &historypb.History{Events: []*historypb.HistoryEvent{{
		EventId: 5, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
			WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{}},
	}}}}, nil
}

// awaitClose returns when a workflow has closed, or when a long poll is over.
func (s *Server) awaitClose(ctx context.Context, a arrival) error {
	wait := longPoll
	if s.options.CloseAfter != Never {
		wait = min(wait, time.Until(a.at.Add(s.options.CloseAfter)))
	}
	over, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-a.ended:
		return nil
	case <-over.Done():
	}
	if ctx.Err() != nil {
		return errGone
	}
	return nil
}

// DescribeWorkflowExecution says whether a workflow runs or has ended.
func (s *Server) DescribeWorkflowExecution(_ context.Context, request *workflowservice.DescribeWorkflowExecutionRequest) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.others.Add(1)
	id := request.GetExecution().GetWorkflowId()
	a, known := s.lookup(id)
	if !known {
		return nil, errNotFound
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: s.info(id, a)}, nil
}

func (s *Server) lookup(workflowID string) (arrival, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, known := s.arrivals[workflowID]
	return a, known
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return errGone
	case <-timer.C:
		return nil
	}
}
