package temporal

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
)

const (
	// workflowIDPrefix precedes the execution ID in a workflow ID.
	workflowIDPrefix = "execution-"
	// memoKey marks a workflow as ours. Runs that follow by continue-as-new, retry or cron keep the memo, and nothing
	// else that distinguishes them from other clients' workflows.
	memoKey = "pgdispatch_execution_id"
)

// Execution identifies a workflow or an activity that pgdispatch starts or has started.
type Execution struct {
	ID         string // of the row, a UUID
	WorkflowID string // that its item names; empty if it names none: see Workflow
	RunID      string // that its start answered; empty means the newest run
	Namespace  string // empty means the client's: executions from before there were several namespaces
	Kind       Kind
}

// Workflow returns the ID of the execution's workflow or activity. It is the same for every attempt to start it.
func (e Execution) Workflow() string { return cmp.Or(e.WorkflowID, WorkflowID(e.ID)) }

// WorkflowID returns the ID of the workflow of an execution whose item names none.
func WorkflowID(executionID string) string { return workflowIDPrefix + executionID }

// ExecutionID returns the execution that a workflow ID names, and whether it has the format of WorkflowID.
func ExecutionID(workflowID string) (id string, ours bool) {
	id, found := strings.CutPrefix(workflowID, workflowIDPrefix)
	return id, found && uuid.Validate(id) == nil
}

// TrimID returns the execution ID of a reference to an execution, which may be its ID or its workflow's.
func TrimID(reference string) string { return strings.TrimPrefix(reference, workflowIDPrefix) }

// requestID makes Temporal answer a repeated start with the run that the first one started.
func requestID(executionID string) string { return "pgdispatch-" + executionID }

// memo returns the memo of an execution's workflow.
func memo(executionID string) *commonpb.Memo {
	return &commonpb.Memo{Fields: map[string]*commonpb.Payload{memoKey: jsonPayload(jsonString(executionID))}}
}

// startedFor returns the execution that pgdispatch started the workflow for, or "".
func startedFor(info *workflowpb.WorkflowExecutionInfo) string {
	var marked string
	if err := json.Unmarshal(info.GetMemo().GetFields()[memoKey].GetData(), &marked); err != nil {
		return ""
	}
	return marked
}

// isOurs reports whether pgdispatch started the workflow for this execution.
func isOurs(info *workflowpb.WorkflowExecutionInfo, executionID string) bool {
	return startedFor(info) == executionID
}
