package e2e

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// amnesia is a frontend between replicas and Temporal that can forget workflows.
type amnesia struct {
	mu     sync.Mutex
	forgot func(workflowID string) bool
	cut    chan struct{} // closed once all calls that wait are cut
}

// forget makes Temporal find none of the workflows for which forgot returns true, and cuts all calls that wait.
func (a *amnesia) forget(forgot func(workflowID string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forgot = forgot
	close(a.cut)
	a.cut = make(chan struct{})
}

// subject returns the workflow that a call asks about, or "".
func subject(request any) string {
	switch r := request.(type) {
	case *workflowservice.GetWorkflowExecutionHistoryRequest:
		return r.GetExecution().GetWorkflowId()
	case *workflowservice.DescribeWorkflowExecutionRequest:
		return r.GetExecution().GetWorkflowId()
	case *workflowservice.SignalWorkflowExecutionRequest:
		return r.GetWorkflowExecution().GetWorkflowId()
	}
	return ""
}

func (a *amnesia) call(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	a.mu.Lock()
	cut, forgot := a.cut, subject(request) != "" && a.forgot != nil && a.forgot(subject(request))
	a.mu.Unlock()
	if forgot {
		return nil, serviceerror.ToStatus(serviceerror.NewNotFound("workflow not found")).Err()
	}

	type result struct {
		answer any
		err    error
	}
	results := make(chan result, 1)
	go func() {
		answer, err := handler(ctx, request)
		results <- result{answer, err}
	}()
	select {
	case r := <-results:
		return r.answer, r.err
	case <-cut:
		return nil, serviceerror.ToStatus(serviceerror.NewUnavailable("connection reset")).Err()
	}
}

func (s *stack) withAmnesia() *amnesia {
	s.t.Helper()
	a := &amnesia{cut: make(chan struct{})}
	s.intercept(a.call)
	return a
}

// A failover that lags, or a connection to the wrong cluster: for some seconds Temporal finds nothing. No limit is
// passed, whether or not a replica starts meanwhile. With PGDISPATCH_LONG=1 there are 50 rounds.
func TestReplicas_PassNoLimitWhenTemporalFindsNothingForAWhile(t *testing.T) {
	t.Parallel()
	rounds := 2
	if os.Getenv("PGDISPATCH_LONG") != "" {
		rounds = 50
	}
	s := newStack(t)
	temporal := s.withAmnesia()
	replicas := []*replica{s.replica(watchLease).ready(), s.replica(watchLease).ready()}
	s.enqueue("PRO", "Hold", 16)
	s.enqueue("FREE", "Hold", 4)
	running := func() bool { return s.count("status = 'DISPATCHED'") == 6 }
	s.eventually(running, "all slots are used")

	for round := range rounds {
		temporal.forget(func(string) bool { return true })
		if round%2 == 1 {
			require.NoError(t, replicas[0].Kill())
			replicas[0] = s.replica(watchLease)
		}
		s.eventually(func() bool {
			return one[int](s, "select count(*)::int from pgdispatch.missing_executions where asked_at > since") == 6
		}, "each is missed twice")
		temporal.forget(nil)
		replicas[0].ready()
		s.eventually(func() bool { return one[int](s, "select count(*)::int from pgdispatch.missing_executions") == 0 },
			"all are found again")
		require.True(t, running(), "round %d", round)
		require.Zero(t, s.count("status = 'FAILED'"))
		listed, answered := s.listed(" and ExecutionStatus = 'Running'")
		require.True(t, answered)
		require.Len(t, listed, 6)
	}
	s.requireSlotsMatchTemporal()
}

// If many workflows vanish at once, nothing is believed and nothing is started until a person decides.
func TestReplica_StartsNothingWhileManyWorkflowsAreMissing(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	temporal := s.withAmnesia()
	replica := s.replica("PGDISPATCH_POLL_INTERVAL=1s").ready()
	executions := s.enqueue("PRO", "Hold", 5)
	s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == 5 }, "all are started")
	lost := map[string]bool{}
	for _, execution := range executions {
		lost["execution-"+execution] = true
	}
	temporal.forget(func(workflowID string) bool { return lost[workflowID] })
	d := &desk{t: t, url: s.url, db: s.db}
	s.eventually(func() bool { return one[int](s, "select count(*)::int from pgdispatch.missing_executions") == 5 },
		"Temporal finds none of them")
	s.eventually(func() bool {
		return replica.has("Many running executions are missing in Temporal; starting nothing in their namespaces. " +
			"They keep their slots")
	}, "the replica has seen that")
	const aged = "update pgdispatch.missing_executions set since = since - interval '2 minutes'"
	s.eventually(func() bool {
		status, _, _ := d.tries("status")
		return len(status) > 0 && strings.Contains(status, "Temporal does not find 5 running executions") &&
			strings.Contains(status, "nothing is started in default")
	}, "status says so")

	others := s.enqueue("ENTERPRISE", "Echo", 3)
	s.exec(aged)
	s.eventually(func() bool {
		return one[int](s, `select count(*)::int from pgdispatch.missing_executions
			where asked_at > since + interval '2 minutes'`) == 5
	}, "each is asked about again")
	require.Equal(t, 5, s.count("status = 'DISPATCHED'"))
	require.Equal(t, 3, s.count("status = 'PENDING'"), "nothing is started")

	require.Equal(t, "gave up 5 of 5 items\n", d.types("executions", "give-up", "--all", "--yes", "--by", "ann"))
	s.eventually(func() bool { return s.count("status = 'FAILED' and last_error like '%gone from Temporal%'") == 5 },
		"they end")
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == len(others) }, "others start again")
}
