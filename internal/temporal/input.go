package temporal

import (
	"encoding/json"
	"fmt"
	"strconv"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// Input says how params become the arguments of a workflow.
type Input string

const (
	// Envelope passes one object with the item's IDs, the node IDs and params. The empty Input is an Envelope, too.
	Envelope Input = "envelope"
	// Params passes params, an object, as the only argument.
	Params Input = "params"
	// Args passes each element of params, an array, as an argument.
	Args Input = "args"
	// Payloads passes each element of params, an array, as an argument that the application has encoded: an object with
	// metadata and data, whose values are in base64.
	Payloads Input = "payloads"
)

// IsKnown reports whether the input is one of these.
func (i Input) IsKnown() bool { return i == Envelope || i == Params || i == Args || i == Payloads }

// idsHeader is the header with the item's IDs, for workflows whose input is not an envelope.
const idsHeader = "pgdispatch"

// arguments returns the workflow's arguments. Params are decoded no further than necessary: a number of 400 digits or
// an object 5,000 levels deep is passed through unchanged.
func arguments(start Start) (input []*commonpb.Payload, err error) {
	switch start.Input {
	case Envelope, "":
		input = []*commonpb.Payload{jsonPayload(envelope(start))}
	case Params:
		input = []*commonpb.Payload{jsonPayload(start.Params)}
	case Args:
		var args []json.RawMessage
		err = json.Unmarshal(start.Params, &args)
		for _, arg := range args {
			input = append(input, jsonPayload(arg))
		}
	case Payloads:
		var payloads []struct {
			Metadata map[string][]byte `json:"metadata"`
			Data     []byte            `json:"data"`
		}
		err = json.Unmarshal(start.Params, &payloads)
		for _, p := range payloads {
			input = append(input, &commonpb.Payload{Metadata: p.Metadata, Data: p.Data})
		}
	default:
		return nil, fmt.Errorf("the definition's input is %q, which this replica does not know: upgrade it", start.Input)
	}
	if err != nil {
		return nil, fmt.Errorf("read params as %s: %w", start.Input, err)
	}
	if size := inputBytes(input); size > maxInputBytes {
		return nil, fmt.Errorf("workflow input has %d bytes, Temporal accepts %d: make params smaller", size, maxInputBytes)
	}
	return input, nil
}

func inputBytes(input []*commonpb.Payload) int {
	size := 0
	for _, payload := range input {
		size += len(payload.GetData())
	}
	return size
}

// addIDs adds the item's IDs to the memo and the header of a workflow that does not find them in its input. An activity
// always has the header, which says whose it is.
func addIDs(request *workflowservice.StartWorkflowExecutionRequest, start Start) {
	if start.Kind != Activity && (start.Input == Envelope || start.Input == "") {
		return
	}
	item := jsonPayload(strconv.AppendInt(nil, start.QueueItemID, 10))
	request.Memo.Fields["pgdispatch_queue_item_id"] = item
	request.Memo.Fields["pgdispatch_workspace_id"] = jsonPayload(jsonString(start.WorkspaceID))
	request.Memo.Fields["pgdispatch_workflow_definition_id"] = jsonPayload(jsonString(start.WorkflowDefinitionID))
	if request.Header == nil {
		request.Header = &commonpb.Header{Fields: map[string]*commonpb.Payload{}}
	}
	request.Header.Fields[idsHeader] = jsonPayload(append(appendIDs([]byte{'{'}, start), '}'))
}

// envelope builds the input from JSON as Postgres printed it.
func envelope(start Start) []byte {
	const names = 160 // upper bound in bytes, including the queue item's ID
	ids := len(start.ID) + len(start.WorkspaceID) + len(start.WorkflowDefinitionID) +
		len(start.WorkflowDefinitionVersionID)
	input := make([]byte, 0, names+ids+len(start.NodeIDs)+len(start.Params))
	input = appendIDs(append(input, '{'), start)
	input = append(append(input, `,"nodeIds":`...), start.NodeIDs...)
	input = append(append(input, `,"params":`...), start.Params...)
	return append(input, '}')
}

// appendIDs appends the item's IDs as fields of a JSON object.
func appendIDs(to []byte, start Start) []byte {
	to = appendString(append(to, `"executionId":`...), start.ID)
	to = appendString(append(to, `,"workspaceId":`...), start.WorkspaceID)
	to = appendString(append(to, `,"workflowDefinitionId":`...), start.WorkflowDefinitionID)
	to = appendString(append(to, `,"workflowDefinitionVersionId":`...), start.WorkflowDefinitionVersionID)
	return strconv.AppendInt(append(to, `,"queueItemId":`...), start.QueueItemID, 10)
}
