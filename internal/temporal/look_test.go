package temporal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

type listResponse = workflowservice.ListWorkflowExecutionsResponse

// described is a run of e1's workflow; open: without a close time.
func described(runID, memo string, open bool) *workflowpb.WorkflowExecutionInfo {
	info := &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{RunId: runID},
		Memo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{memoKey: {Data: []byte(`"` + memo + `"`)}}}}
	if !open {
		info.CloseTime = timestamppb.Now()
	}
	return info
}

func TestLookAsksForTheNewestRun(t *testing.T) {
	t.Parallel()
	done, open := history{closed(completed(""))}, described("run-3", "e1", true)
	for name, c := range map[string]struct {
		service fakeService
		end     string // "": it is open
		runs    []string
	}{
		"it is open, whatever the earlier ones did": {fakeService{newest: open}, "", nil},
		"it is closed": {fakeService{newest: described("run-3", "e1", false), answers: done}, "COMPLETED",
			[]string{"run-3"}},
		"it goes on meanwhile": {fakeService{newest: described("run-3", "e1", false),
			answers: history{closed(continued("run-4")), empty("")}}, "", []string{"run-3", "run-4"}},
		"it is a stranger's": {fakeService{newest: described("run-9", "somebody else", true),
			answers: history{closed(terminated("enough"))}}, "TERMINATED", []string{"run-1"}},
	} {
		end, ended, err := (&Client{Service: &c.service, Namespace: "shop"}).Look(t.Context(),
			Execution{ID: "e1", RunID: "run-1"})
		require.NoError(t, err)
		require.Equal(t, c.end != "", ended, name)
		require.Equal(t, c.end, end.Outcome, name)
		require.Equal(t, c.runs, c.service.runs(), name)
		for _, r := range c.service.requests {
			require.False(t, r.WaitNewEvent)
		}
	}
	service := &fakeService{newest: open, describe: serviceerror.NewUnavailable("connection refused")}
	_, ended, err := (&Client{Service: service}).Look(t.Context(), Execution{ID: "e1"})
	require.ErrorIs(t, err, ErrAway)
	require.False(t, ended, "an outage proves no end")
	_, ended, err = (&Client{Service: &fakeService{}}).Look(t.Context(), Execution{ID: "e1"})
	require.ErrorIs(t, err, ErrMissing)
	require.False(t, ended, "one answer does not prove that it is gone")
}

func TestAResetIsFollowedToTheRunThatGoesOn(t *testing.T) {
	t.Parallel()
	for name, newest := range map[string]*workflowpb.WorkflowExecutionInfo{
		"open": described("run-2", "e1", true), "closed since": described("run-2", "e1", false),
	} {
		for _, ask := range []func(*Client, Execution) (End, error){
			func(c *Client, e Execution) (End, error) { return c.Wait(t.Context(), e) },
			func(c *Client, e Execution) (End, error) {
				end, ended, err := c.Ended(t.Context(), e)
				require.True(t, ended, name)
				return end, err
			},
		} {
			service := &fakeService{newest: newest, answers: history{closed(terminated("reset")), closed(completed(""))}}
			end := must.Get(ask(&Client{Service: service}, Execution{ID: "e1", RunID: "run-1"})).In(t)
			require.Equal(t, End{Outcome: "COMPLETED"}, end, name)
			require.Equal(t, []string{"run-1", "run-2"}, service.runs())
		}
	}
}

func TestAResetThatIsSeenAMomentLateIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &fakeService{newest: described("run-1", "e1", false), late: described("run-2", "e1", true),
			answers: history{closed(terminatedBy(resetterIdentity, "again")), closed(completed(""))}}
		end := must.Get((&Client{Service: service}).Wait(t.Context(), Execution{ID: "e1", RunID: "run-1"})).In(t)
		require.Equal(t, End{Outcome: "COMPLETED"}, end)
		require.Equal(t, []string{"run-1", "run-2"}, service.runs())

		began := time.Now()
		service = &fakeService{newest: described("run-1", "e1", false),
			answers: history{closed(terminatedBy("ann@laptop", "enough"))}}
		end = must.Get((&Client{Service: service}).Wait(t.Context(), Execution{ID: "e1", RunID: "run-1"})).In(t)
		require.Equal(t, "TERMINATED", end.Outcome)
		require.Equal(t, 1, service.described, "one describe call for any terminating identity")
		require.Zero(t, time.Since(began), "a termination that is no reset is seen at once")
	})
}

func TestClosedListsWhatMayBeOurs(t *testing.T) {
	t.Parallel()
	const id = "0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01"
	since, late := time.Date(2026, 8, 1, 10, 0, 0, 5000, time.UTC), time.Date(2026, 8, 1, 10, 5, 0, 0, time.UTC)
	info := func(workflowID string, status enumspb.WorkflowExecutionStatus) *workflowpb.WorkflowExecutionInfo {
		return &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
			Status: status, CloseTime: timestamppb.New(late)}
	}
	const completed, continued = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
		enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW
	service := &fakeService{list: func(r *workflowservice.ListWorkflowExecutionsRequest) (*listResponse, error) {
		if len(r.Query) > 60 {
			return nil, serviceerror.NewInvalidArgument("operator starts_with is not supported")
		}
		marked := info("execution-"+id, completed)
		marked.Execution.RunId = "run-2"
		marked.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{memoKey: {Data: []byte(`"` + id + `"`)}}}
		return &listResponse{NextPageToken: []byte("2"), Executions: []*workflowpb.WorkflowExecutionInfo{
			marked, info("order-1", completed), info("execution-of-a-stranger", completed), info("execution-"+id, continued),
		}}, nil
	}}
	waiter := &Client{Service: service, Namespace: "shop"}
	for range 2 {
		page, err := waiter.Closed(t.Context(), Range{Since: since}, nil) // the waiter's own namespace
		require.NoError(t, err)
		require.Equal(t,
			Page{ExecutionIDs: []string{id}, Runs: map[string]string{id: "run-2"}, Newest: late, Next: []byte("2")}, page)
	}
	page := must.Get(waiter.Closed(t.Context(), Range{Since: since, All: true}, nil)).In(t)
	require.Equal(t, []string{"order-1", "execution-of-a-stranger"}, page.WorkflowIDs)
	require.Equal(t, []string{id}, page.ExecutionIDs)
	queries := []string{}
	for _, r := range service.lists {
		queries = append(queries, r.Query)
	}
	const plain = "CloseTime >= '2026-08-01T10:00:00.000005Z'"
	require.Equal(t, []string{plain + " and WorkflowId starts_with 'execution-'", plain, plain, plain}, queries,
		"the prefix is tried once")

	lately := &fakeService{list: func(*workflowservice.ListWorkflowExecutionsRequest) (*listResponse, error) {
		return &listResponse{}, nil
	}}
	must.Get((&Client{Service: lately}).Closed(t.Context(), Range{Since: since, All: true}, nil)).In(t)
	require.Equal(t, plain, lately.lists[0].Query)
}

func TestTemporalSaysWhetherAQueueIsPolledAndHowOftenATaskWasTried(t *testing.T) {
	t.Parallel()
	service := &fakeService{newest: described("run-1", "e1", true), attempt: 7}
	waiter := &Client{Service: service, Namespace: "shop"}
	for queue, want := range map[string]bool{"orders": true, "typo": false} {
		require.Equal(t, want, must.Get(waiter.Polled(t.Context(), TaskQueue{Name: queue})).In(t))
	}
	for execution, want := range map[string]int{"e1": 7, "an unrelated workflow": 0} {
		require.Equal(t, want, must.Get(waiter.TaskAttempt(t.Context(), Execution{ID: execution})).In(t))
	}
	service.describe = serviceerror.NewUnavailable("connection refused")
	_, err := waiter.Polled(t.Context(), TaskQueue{Name: "orders"})
	require.ErrorIs(t, err, ErrAway)
	_, err = waiter.TaskAttempt(t.Context(), Execution{ID: "e1"})
	require.ErrorIs(t, err, ErrAway)
	attempt := must.Get((&Client{Service: &fakeService{}}).TaskAttempt(t.Context(), Execution{ID: "e1"})).In(t)
	require.Zero(t, attempt, "a deleted workflow")
}

func TestStopAsksForTheEndOfTheRunThatIsOpen(t *testing.T) {
	t.Parallel()
	stop := func(how string, service *fakeService) error {
		return (&Client{Service: service, Namespace: "shop"}).Stop(t.Context(),
			Stop{Execution: Execution{ID: "e1"}, How: how, Reason: "enough", RequestedBy: "ann"})
	}
	service := &fakeService{newest: described("run-3", "e1", true)}
	require.NoError(t, stop("CANCEL", service))
	require.NoError(t, stop("TERMINATE", service))
	require.Equal(t,
		[]string{"cancel execution-e1 run-3 by ann: enough (e1)", "terminate execution-e1 run-3 by ann: enough"},
		service.stops)

	service.stop = serviceerror.NewCancellationAlreadyRequested("again")
	require.NoError(t, stop("CANCEL", service), "the answer to the first request was lost")
	service.stop = serviceerror.NewNotFound("workflow execution already completed")
	require.ErrorIs(t, stop("TERMINATE", service), ErrNotOpen)
	service.stop = serviceerror.NewUnavailable("connection refused")
	require.ErrorIs(t, stop("TERMINATE", service), ErrAway)
}

func TestStopAsksForNobodyElsesEnd(t *testing.T) {
	t.Parallel()
	for name, service := range map[string]*fakeService{
		"not known":             {},
		"closed":                {newest: described("run-3", "e1", false)},
		"an unrelated workflow": {newest: described("run-3", "somebody else", true)},
		"away":                  {newest: described("run-3", "e1", true), describe: serviceerror.NewUnavailable("x")},
	} {
		err := (&Client{Service: service}).Stop(t.Context(), Stop{Execution: Execution{ID: "e1"}, How: "TERMINATE"})
		require.Error(t, err, name)
		require.Empty(t, service.stops, name)
	}
}
