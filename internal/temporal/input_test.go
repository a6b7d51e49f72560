package temporal

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

// started returns the request that an item with this input and params leads to.
func started(t *testing.T, input Input, params string) *startRequest {
	t.Helper()
	service, item := &startService{}, anItem()
	item.Input, item.Params, item.NodeIDs, item.WorkflowDefinitionVersionID = input, []byte(params), nil, ""
	must.Get(starterOn(service).Start(t.Context(), item)).In(t)
	return service.started[0]
}

func TestParamsBecomeTheArgumentsThatTheInputAsksFor(t *testing.T) {
	digits := strings.Repeat("1", 400)
	type given struct {
		input  Input
		params string
		want   []*commonpb.Payload
	}
	must.Each(t, map[string]given{
		"params":       {Params, `{"n": ` + digits + `}`, []*commonpb.Payload{jsonPayload([]byte(`{"n": ` + digits + `}`))}},
		"no arguments": {Args, `[]`, nil},
		"two arguments": {Args, `["a", {"b": [` + digits + `, null]}]`,
			[]*commonpb.Payload{jsonPayload([]byte(`"a"`)), jsonPayload([]byte(`{"b": [` + digits + `, null]}`))}},
		"payloads": {Payloads, `[{"data": "AAH/", "metadata": {"encoding": "YmluYXJ5L2VuY3J5cHRlZA==", "key": ""}}, {}]`,
			[]*commonpb.Payload{{Data: []byte{0, 1, 255},
				Metadata: map[string][]byte{"encoding": []byte("binary/encrypted"), "key": {}}}, {}}},
	}, func(t *testing.T, c given) {
		got := started(t, c.input, c.params).GetInput().GetPayloads()
		require.Len(t, got, len(c.want))
		for n := range got {
			require.Equal(t, c.want[n].GetData(), got[n].GetData())
			require.Equal(t, c.want[n].GetMetadata(), got[n].GetMetadata())
		}
	})
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
	half := `"` + strings.Repeat("x", maxInputBytes/2) + `"`
	type given struct {
		input        Input
		params, want string
	}
	must.Each(t, map[string]given{
		"no array":   {Args, `{}`, "read params as args"},
		"no base64":  {Payloads, `[{"data": "?"}]`, "read params as payloads"},
		"unknown":    {"soap", `{}`, `the definition's input is "soap", which this replica does not know`},
		"many bytes": {Args, "[" + half + "," + half + "]", "make params smaller"},
	}, func(t *testing.T, c given) {
		service, item := &startService{}, anItem()
		item.Input, item.Params = c.input, []byte(c.params)
		_, err := starterOn(service).Start(t.Context(), item)
		require.ErrorContains(t, err, c.want)
		require.Equal(t, engine.Permanent, Classify(err))
		require.Empty(t, service.started)
	})
}

func TestTextBecomesTheJSONThatEncodingJSONMakesOfIt(t *testing.T) {
	t.Parallel()
	texts := []string{"", "8f6f3c1e-6d0c-4a55-9c6e-0d5a3f0f6d11", "naïve 日本語 🙂", "not UTF-8: \xff",
		"line separator \u2028"}
	for c := range 256 {
		texts = append(texts, "a"+string([]byte{byte(c)})+"b")
	}
	for _, text := range texts {
		want := must.Get(json.Marshal(text)).In(t)
		require.Equal(t, string(want), string(jsonString(text)))
	}
}

// failure is an application failure with a type.
func failure(message, kind string, cause *failurepb.Failure) *failurepb.Failure {
	return &failurepb.Failure{Message: message, Cause: cause, FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: kind}}}
}

func TestFailureIsBoundedHoweverLongItIs(t *testing.T) {
	t.Parallel()
	long := failure(strings.Repeat("é", 1<<20), strings.Repeat("é", 1<<20), nil)
	text := Failure(failure("a", "", long))
	require.Less(t, len(text), 10000)
	require.True(t, utf8.ValidString(text))
	var deep *failurepb.Failure
	for range 1000 {
		deep = failure("x", "", deep)
	}
	require.Equal(t, "x"+strings.Repeat(": x", 10), Failure(deep))
}

func TestResultIsKeptWhereItIsJSON(t *testing.T) {
	t.Parallel()
	payload := func(encoding, data string) *commonpb.Payload {
		return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: []byte(data)}
	}
	for name, c := range map[string]struct {
		payloads     []*commonpb.Payload
		result, note string
	}{
		"nothing":   {},
		"null":      {payloads: []*commonpb.Payload{payload("binary/null", "")}},
		"JSON":      {payloads: []*commonpb.Payload{payload("json/plain", `{"total": 3}`)}, result: `{"total": 3}`},
		"the first": {payloads: []*commonpb.Payload{payload("json/plain", "1"), payload("json/plain", "2")}, result: "1"},
		"encrypted": {payloads: []*commonpb.Payload{payload("binary/encrypted", "secret")},
			note: `encoding "binary/encrypted", 6 bytes: not stored`},
		"no encoding": {payloads: []*commonpb.Payload{{Data: []byte("1")}}, note: `encoding "", 1 bytes: not stored`},
		"bad encoding": {payloads: []*commonpb.Payload{payload("a\x00\n"+strings.Repeat("b", 500), "x")},
			note: `encoding "a\x00\n` + strings.Repeat("b", 97) + `", 1 bytes: not stored`},
		"too large": {payloads: []*commonpb.Payload{payload("json/plain", strings.Repeat(" ", MaxResult+1))},
			note: "65537 bytes: too large to store"},
		"not JSON": {payloads: []*commonpb.Payload{payload("json/plain", `{"total"`)},
			note: "8 bytes that are not JSON: not stored"},
		"invalid UTF-8": {payloads: []*commonpb.Payload{payload("json/plain", "\"\xff\"")},
			note: "3 bytes that are not JSON: not stored"},
	} {
		result, note := Result(&commonpb.Payloads{Payloads: c.payloads})
		require.Equal(t, c.result, result, name)
		require.Equal(t, c.note, note, name)
	}
	result, note := Result(nil)
	require.Empty(t, result+note)
}

// anItemOf returns an item whose workflow input has n bytes.
func anItemOf(bytes int) Start {
	item := anItem()
	item.Params = []byte(`""`)
	item.Params = []byte(`"` + strings.Repeat("x", bytes-len(envelope(item))) + `"`)
	return item
}

// A proxy may not support compression. One large item must not stop all others.
func TestOnlyALargeStartIsCompressedUnlessTheServerRefusesThat(t *testing.T) {
	t.Parallel()
	service := &startService{}
	large := anItemOf(compressAbove + 1)
	for _, item := range []Start{anItem(), anItemOf(compressAbove), large, anItem()} {
		must.Get(starterOn(service).Start(t.Context(), item)).In(t)
	}
	require.Equal(t, []string{"", "", "gzip", ""}, service.encodings)

	refuses := func(service *startService, all bool) {
		service.start = func(r *startRequest) (*startResponse, error) {
			if all || service.encodings[len(service.encodings)-1] == "gzip" {
				return nil, serviceerror.NewUnimplemented("not here")
			}
			return &startResponse{RunId: "run"}, nil
		}
	}
	service = &startService{}
	refuses(service, false)
	starter := starterOn(service)
	for range 2 {
		require.Equal(t, "run", must.Get(starter.Start(t.Context(), large)).In(t))
	}
	require.Equal(t, []string{"gzip", "", ""}, service.encodings, "compression is not tried again")

	service = &startService{}
	refuses(service, true)
	starter = starterOn(service)
	_, err := starter.Start(t.Context(), large)
	require.Equal(t, engine.Blocked.String(), Classify(err).String())
	refuses(service, false)
	must.Get(starter.Start(t.Context(), large)).In(t)
	require.Equal(t, []string{"gzip", "", "gzip", ""}, service.encodings,
		"a refusal either way says nothing about compression")
}
