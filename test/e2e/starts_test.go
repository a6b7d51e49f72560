package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/pgdispatch/pgdispatch/internal/goldentest"
)

// idPolicy is what a start asks Temporal to do if its workflow ID exists.
type idPolicy struct {
	name     string
	reuse    enumspb.WorkflowIdReusePolicy
	conflict enumspb.WorkflowIdConflictPolicy
	attach   bool
}

var idPolicies = []idPolicy{
	{"reject", enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL, false},
	{"reuse", enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL, false},
	{"use existing", enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		false},
	{"attached", enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, true},
}

// trial is one workflow ID under a policy.
type trial struct {
	*stack
	idPolicy
	id, request string
	known       map[string]string // run ID -> name
}

// start sends a start of this trial's ID, and says what Temporal answers.
func (t *trial) start(request, workflowType string) (answer string) {
	t.t.Helper()
	r := &workflowservice.StartWorkflowExecutionRequest{
		Namespace: "default", WorkflowId: t.id, RequestId: request,
		WorkflowType:          &commonpb.WorkflowType{Name: workflowType},
		TaskQueue:             &taskqueuepb.TaskQueue{Name: t.queue},
		WorkflowIdReusePolicy: t.reuse, WorkflowIdConflictPolicy: t.conflict,
		Input: &commonpb.Payloads{Payloads: []*commonpb.Payload{
			{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte("{}")}}},
	}
	if t.attach {
		r.OnConflictOptions = &workflowpb.OnConflictOptions{AttachRequestId: true}
	}
	response, err := t.client.WorkflowService().StartWorkflowExecution(context.Background(), r)
	var exists *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &exists) {
		return "exists: " + t.known[exists.RunId]
	}
	require.NoError(t.t, err)
	return cmp.Or(t.known[response.RunId], "**a new run**")
}

// newest names the newest run and returns its status.
func (t *trial) newest(name string) enumspb.WorkflowExecutionStatus {
	t.t.Helper()
	d, err := t.client.DescribeWorkflowExecution(context.Background(), t.id, "")
	require.NoError(t.t, err)
	info := d.GetWorkflowExecutionInfo()
	if run := info.GetExecution().GetRunId(); t.known[run] == "" {
		t.known[run] = name
	}
	return info.GetStatus()
}

func (t *trial) terminate() {
	t.t.Helper()
	require.NoError(t.t, t.client.TerminateWorkflow(context.Background(), t.id, "", "enough"))
	t.eventually(func() bool { return t.newest("") != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING }, "run ends")
}

// afterOwn repeats a start once, after its run has come to something, and after all runs have closed if they are to.
func (t *trial) afterOwn(workflowType string, becomes func(*trial), closes bool) string {
	t.t.Helper()
	t.start(t.request, workflowType)
	t.newest("its run")
	becomes(t)
	if closes {
		t.terminate()
	}
	return t.start(t.request, workflowType)
}

func (t *trial) continues() {
	t.t.Helper()
	require.NoError(t.t, t.client.SignalWorkflow(context.Background(), t.id, "", "add", "x"))
	t.eventually(func() bool { t.newest("its second run"); return len(t.known) == 2 }, "workflow continues as new")
}

func (t *trial) resets() {
	t.t.Helper()
	var err error
	t.eventually(func() bool { // once the first workflow task is complete
		_, err = t.client.ResetWorkflowExecution(context.Background(), &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: "default", RequestId: uuid.NewString(), WorkflowTaskFinishEventId: 4,
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: t.id}})
		return err == nil
	}, "workflow is reset")
	t.newest("its second run")
}

// afterAnothers repeats a start under an ID that another client's run had at the first one, after that run has closed
// if it is to.
func (t *trial) afterAnothers(closes bool) string {
	t.t.Helper()
	t.start("another", "Hold")
	t.newest("another's run")
	t.start(t.request, "Hold")
	if closes {
		t.terminate()
	}
	return t.start(t.request, "Hold")
}

// Under other policies than ours a repeated start can run a workflow twice: the page says when.
func TestWhatTemporalAnswersToARepeatedStart(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	var table strings.Builder
	table.WriteString("\n| | its run is open | it continued as new, open | it was reset, open | another's run is open " +
		"| its run is closed | it continued as new, closed | it was reset, closed | another's run has closed since |\n" +
		"|---|---|---|---|---|---|---|---|---|\n")
	for _, policy := range idPolicies {
		next := func() *trial {
			return &trial{stack: s, idPolicy: policy, id: uuid.NewString(), request: uuid.NewString(),
				known: map[string]string{}}
		}
		var answers []string
		for _, closes := range []bool{false, true} {
			answers = append(answers, next().afterOwn("Hold", func(*trial) {}, closes),
				next().afterOwn("Relay", (*trial).continues, closes), next().afterOwn("Hold", (*trial).resets, closes),
				next().afterAnothers(closes))
		}
		fmt.Fprintf(&table, "| `%s` | %s |\n", policy.name, strings.Join(answers, " | "))
	}
	goldentest.RequirePart(t, checkout+"/docs/contributing/starts.md", "<!-- starts: begin -->\n", "<!-- starts: end -->",
		table.String()+"\n")
}
