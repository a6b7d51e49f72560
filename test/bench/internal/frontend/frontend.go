// Package frontend is a Temporal frontend without a workflow engine: it accepts starts, records when each arrived, and
// answers. Measurements against it show the cost of the dispatcher and its database only.
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

	// Temporal accepts compressed requests of an SDK client and answers in kind.
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
)

// longPoll is how long an unanswered long poll for a close event is held, as by a real frontend.
const longPoll = 20 * time.Second

// Never, as CloseAfter, means that workflows never close by themselves.
const Never = time.Duration(-1)

var errNotFound = status.Error(codes.NotFound, "workflow not found")

// Options configures a frontend. With the zero value it answers at once, and every workflow has already closed when it
// is queried.
type Options struct {
	// StartDelay is how long each start is held before it is answered.
	StartDelay time.Duration
	// CloseAfter is how long a workflow runs after its start arrived. Never means forever.
	CloseAfter time.Duration
}

// Server is a running frontend. It uses this process's clock, so arrivals can be compared with what this process sent.
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
	unanswered map[string]chan struct{} // waiters for a workflow's arrival
}

type arrival struct {
	at     time.Time
	run    string
	memo   *commonpb.Memo
	closed time.Time     // set by Close; zero if it was not called
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
	go func() { _ = s.grpc.Serve(listener) }() // ends with Stop; its error then carries no information
	return s, nil
}

// Address returns the server's address as host:port.
func (s *Server) Address() string { return s.address }

// Stop ends the server at once, long polls included.
func (s *Server) Stop() { s.grpc.Stop() }

// Counts holds what a frontend has seen so far.
type Counts struct {
	Starts     int // different workflow IDs
	Duplicates int // starts of a workflow ID that already existed
	Greatest   int // the most starts held at once
	Polls      int // long polls for a close event
	Held       int // long polls that are held now
	Lists      int // lists of closed workflows
	Others     int // queries about one workflow that do not wait
}

// Counts returns the counts since Start.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counts{
		Starts: len(s.arrivals), Duplicates: s.duplicates, Greatest: int(s.greatest.Load()), Polls: int(s.reads.Load()),
		Held: int(s.held.Load()), Lists: int(s.lists.Load()), Others: int(s.others.Load()),
	}
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

// Await waits until a workflow's start has arrived, and returns the time of arrival.
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

// GetSystemInfo answers the request that every SDK sends first.
func (s *Server) GetSystemInfo(
	context.Context, *workflowservice.GetSystemInfoRequest,
) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{ServerVersion: "1.0.0",
		Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{}}, nil
}

// StartWorkflowExecution records the arrival and answers. A known workflow ID gets the run ID of its first start.
func (s *Server) StartWorkflowExecution(
	ctx context.Context, request *workflowservice.StartWorkflowExecutionRequest,
) (*workflowservice.StartWorkflowExecutionResponse, error) {
	now := time.Now()
	held := s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	greatest := s.greatest.Load()
	for held > greatest && !s.greatest.CompareAndSwap(greatest, held) {
		greatest = s.greatest.Load()
	}

	id := request.GetWorkflowId()
	s.mu.Lock()
	a, known := s.arrivals[id]
	if known {
		s.duplicates++
	} else {
		a = arrival{at: now, run: "run-" + strconv.FormatInt(s.runs.Add(1), 10), memo: request.GetMemo(),
			ended: make(chan struct{})}
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
	return &workflowservice.StartWorkflowExecutionResponse{RunId: a.run, Started: !known,
		Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}, nil
}

// GetWorkflowExecutionHistory returns the close event once it is due. A long poll that times out gets an empty answer.
func (s *Server) GetWorkflowExecutionHistory(
	ctx context.Context, request *workflowservice.GetWorkflowExecutionHistoryRequest,
) (*workflowservice.GetWorkflowExecutionHistoryResponse, error) {
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
		return &workflowservice.GetWorkflowExecutionHistoryResponse{History: &historypb.History{},
			NextPageToken: []byte("more")}, nil
	}
	completed := &historypb.HistoryEvent{
		EventId: 5, EventType: enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionCompletedEventAttributes{
			WorkflowExecutionCompletedEventAttributes: &historypb.WorkflowExecutionCompletedEventAttributes{}},
	}
	history := &historypb.History{Events: []*historypb.HistoryEvent{completed}}
	return &workflowservice.GetWorkflowExecutionHistoryResponse{History: history}, nil
}

// awaitClose returns when the workflow has closed or the long poll has timed out.
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
	return status.FromContextError(ctx.Err()).Err()
}

// DescribeWorkflowExecution tells whether a workflow is running or has closed.
func (s *Server) DescribeWorkflowExecution(
	_ context.Context, request *workflowservice.DescribeWorkflowExecutionRequest,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
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
		return status.FromContextError(ctx.Err()).Err()
	case <-timer.C:
		return nil
	}
}
