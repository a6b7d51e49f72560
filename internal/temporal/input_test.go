package temporal

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
)

// started returns the request that an item with this input and params leads to.
func started(t *testing.T, input Input, params string) *startRequest {
	t.Helper()
	service, item := &startService{}, anItem()
	item.Input, item.Params, item.NodeIDs, item.WorkflowDefinitionVersionID = input, []byte(params), nil, ""
	_, err := starterOn(service).Start(t.Context(), item)
	require.NoError(t, err)
	return service.started[0]
}

func TestParamsBecomeTheArgumentsThatTheInputAsksFor(t *testing.T) {
	t.Parallel()
	digits := strings.Repeat("1", 400)
	for name, c := range map[string]struct {
		input  Input
		params string
		want   []*commonpb.Payload
	}{
		"params":       {Params, `{"n": ` + digits + `}`, []*commonpb.Payload{jsonPayload([]byte(`{"n": ` + digits + `}`))}},
		"no arguments": {Args, `[]`, nil},
		"two arguments": {Args, `["a", {"b": [` + digits + `, null]}]`,
			[]*commonpb.Payload{jsonPayload([]byte(`"a"`)), jsonPayload([]byte(`{"b": [` + digits + `, null]}`))}},
		"payloads": {Payloads, `[{"data": "AAH/", "metadata": {"encoding": "YmluYXJ5L2VuY3J5cHRlZA==", "key": ""}}, {}]`,
			[]*commonpb.Payload{{Data: []byte{0, 1, 255},
				Metadata: map[string][]byte{"encoding": []byte("binary/encrypted"), "key": {}}}, {}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := started(t, c.input, c.params).GetInput().GetPayloads()
			require.Len(t, got, len(c.want))
			for n := range got {
				require.Equal(t, c.want[n].GetData(), got[n].GetData())
				require.Equal(t, c.want[n].GetMetadata(), got[n].GetMetadata())
			}
		})
	}
}

func TestAWorkflowWithoutAnEnvelopeFindsTheItemInMemoAndHeader(t *testing.T) {
	t.Parallel()
	r := started(t, Args, `[1]`)
	require.Equal(t, `"11111111-1111-4111-8111-111111111111"`, string(r.Memo.Fields["pgdispatch_execution_id"].Data))
	require.Equal(t, `42`, string(r.Memo.Fields["pgdispatch_queue_item_id"].Data))
	require.Equal(t, `"22222222-2222-4222-8222-222222222222"`, string(r.Memo.Fields["pgdispatch_workspace_id"].Data))
	require.Equal(t, `"33333333-3333-4333-8333-333333333333"`,
		string(r.Memo.Fields["pgdispatch_workflow_definition_id"].Data))
	require.JSONEq(t, `{"executionId": "11111111-1111-4111-8111-111111111111", "queueItemId": 42,
		"workspaceId": "22222222-2222-4222-8222-222222222222", "workflowDefinitionVersionId": "",
		"workflowDefinitionId": "33333333-3333-4333-8333-333333333333"}`, string(r.Header.Fields["pgdispatch"].Data))
	require.Contains(t, r.Header.Fields, "_tracer-data")

	envelope := started(t, Envelope, `{}`)
	require.Len(t, envelope.Memo.Fields, 1)
	require.NotContains(t, envelope.Header.Fields, "pgdispatch")
}

func TestAnInputThatCannotBeReadFailsTheItem(t *testing.T) {
	t.Parallel()
	half := `"` + strings.Repeat("x", maxInputBytes/2) + `"`
	for name, c := range map[string]struct {
		input        Input
		params, want string
	}{
		"no array":   {Args, `{}`, "read params as args"},
		"no base64":  {Payloads, `[{"data": "?"}]`, "read params as payloads"},
		"unknown":    {"soap", `{}`, `the definition's input is "soap", which this replica does not know`},
		"many bytes": {Args, "[" + half + "," + half + "]", "make params smaller"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, item := &startService{}, anItem()
			item.Input, item.Params = c.input, []byte(c.params)
			_, err := starterOn(service).Start(t.Context(), item)
			require.ErrorContains(t, err, c.want)
			require.Equal(t, engine.Permanent, Classify(err))
			require.Empty(t, service.started)
		})
	}
}
