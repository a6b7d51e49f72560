package temporal

import (
	"bytes"
	"context"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/codectest"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

// codecServer returns a codec server, and the codec that uses it, and lets the test run beside others.
func codecServer(t *testing.T) (*codectest.Server, *Codec, *bytes.Buffer) {
	t.Helper()
	t.Parallel()
	server := codectest.NewServer(false)
	t.Cleanup(server.Close)
	var log bytes.Buffer
	codec := must.Get(CodecTarget{Endpoint: server.URL + "/"}.Open(slog.New(slog.NewTextHandler(&log, nil)))).In(t)
	return server, codec, &log
}

// coded is a client with the codec.
func coded(service Service, codec *Codec) *Client {
	return &Client{Service: service, Namespace: "shop", Identity: "replica_1", Codec: codec}
}

// aSecretItem is an item with words that nobody but the workers may read.
func aSecretItem() Start {
	item := anItem()
	item.Params = []byte(`{"card": "4111-secret"}`)
	item.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	item.Options = []byte(`{"memo": {"note": "memo-secret"}, "search_attributes": {"Customer": "acme"},
		"static_summary": "summary-secret", "static_details": "details-secret"}`)
	return item
}

func TestAStartIsEncodedExceptWhatTemporalMustRead(t *testing.T) {
	server, codec, _ := codecServer(t)
	service := &startService{}
	must.Get(coded(service, codec).Start(t.Context(), aSecretItem())).In(t)
	require.Len(t, server.Calls(), 1, "one call for all payloads")
	require.Equal(t, codectest.Call{Operation: "encode", Namespace: "shop", Bytes: server.Calls()[0].Bytes},
		server.Calls()[0])

	sent := service.started[0]
	wire := must.Get(proto.Marshal(sent)).In(t)
	require.NotContains(t, string(wire), "secret")
	require.NotContains(t, string(wire), "queueItemId")
	require.Contains(t, string(wire), `"acme"`, "search attributes stay readable")
	require.Contains(t, string(sent.GetHeader().GetFields()[traceHeader].GetData()), "traceparent")
	require.JSONEq(t, `"`+anItem().ID+`"`, string(sent.GetMemo().GetFields()[memoKey].GetData()))
	decoded := must.Get(server.Codec.Decode([]*commonpb.Payload{sent.GetInput().GetPayloads()[0],
		sent.GetMemo().GetFields()["note"], sent.GetUserMetadata().GetSummary(), sent.GetUserMetadata().GetDetails()})).In(t)
	for n, says := range []string{"4111-secret", "memo-secret", "summary-secret", "details-secret"} {
		require.Contains(t, string(decoded[n].GetData()), says)
		require.Equal(t, "json/plain", string(decoded[n].GetMetadata()["encoding"]))
	}
}

func TestEachArgumentIsEncodedAndTheItemsIDsStayReadable(t *testing.T) {
	server, codec, _ := codecServer(t)
	service := &startService{}
	item := aSecretItem()
	item.Input, item.Params = Args, []byte(`["one-secret", "two-secret"]`)
	must.Get(coded(service, codec).Start(t.Context(), item)).In(t)
	sent := service.started[0]
	decoded := must.Get(server.Codec.Decode(sent.GetInput().GetPayloads())).In(t)
	require.Len(t, decoded, 2)
	require.Equal(t, `"two-secret"`, string(decoded[1].GetData()))
	for name, field := range sent.GetMemo().GetFields() {
		require.Equal(t, name != "note", isPlain(field), name)
	}
	for name, field := range sent.GetHeader().GetFields() {
		require.True(t, isPlain(field), name)
	}
}

func TestWhatTheApplicationHasEncodedIsNotEncodedAgain(t *testing.T) {
	server, codec, _ := codecServer(t)
	own := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/mine")}, Data: []byte("sealed")}
	plain := jsonPayload([]byte(`1`))
	client := coded(nil, codec)
	require.NoError(t, client.encode(t.Context(), "shop", []*commonpb.Payload{own, nil, plain}))
	require.Equal(t, "sealed", string(own.GetData()))
	require.Equal(t, codectest.Encoding, string(plain.GetMetadata()["encoding"]))
	require.Equal(t, "json/plain", string(jsonPlain["encoding"]), "shared by all payloads")
	require.NoError(t, client.encode(t.Context(), "shop", []*commonpb.Payload{own}))
	require.Len(t, server.Calls(), 1)
}

func TestSignalsAreEncoded(t *testing.T) {
	server, codec, _ := codecServer(t)
	service := &fakeService{}
	signal := aSignal
	signal.Payload = []byte(`"secret"`)
	client := coded(service, codec)
	_, err := client.Signal(t.Context(), signal)
	require.NoError(t, err)
	decoded := must.Get(server.Codec.Decode(service.signals[0].GetInput().GetPayloads())).In(t)
	require.Equal(t, `"secret"`, string(decoded[0].GetData()))

	server.Fail(func(codectest.Call) int { return http.StatusServiceUnavailable })
	_, err = client.Signal(t.Context(), signal)
	require.ErrorIs(t, err, ErrAway, "the signaler waits as for Temporal")
	require.NotEqual(t, engine.Permanent, Classify(err))
	require.Len(t, service.signals, 1)
	signal.Payload = nil
	_, err = client.Signal(t.Context(), signal)
	require.NoError(t, err, "there is nothing to encode")
}

// answering makes the server answer with a status when all conditions hold.
func answering(answer int, when ...func(codectest.Call) bool) func(codectest.Call) int {
	return func(call codectest.Call) int {
		for _, holds := range when {
			if !holds(call) {
				return 0
			}
		}
		return answer
	}
}

func isLarge(call codectest.Call) bool  { return call.Bytes > 150 }
func isDecode(call codectest.Call) bool { return call.Operation == "decode" }

func TestNothingIsSentThatTheCodecServerDoesNotEncode(t *testing.T) {
	type given struct {
		fails   func(codectest.Call) int
		outcome engine.Outcome
		says    string
		remedy  string
	}
	must.Each(t, map[string]given{
		"overload":   {answering(http.StatusServiceUnavailable), engine.Unreached, "503 Service Unavailable", "check that"},
		"rate limit": {answering(http.StatusTooManyRequests), engine.Unreached, "429 Too Many Requests", "check that"},
		"no token":   {answering(http.StatusUnauthorized), engine.Blocked, "401 Unauthorized", "CODEC_TOKEN_FILE"},
		"forbidden":  {answering(http.StatusForbidden), engine.Blocked, "403 Forbidden", "CODEC_TOKEN_FILE"},
		"no such path": {answering(http.StatusNotFound), engine.Blocked, "404 Not Found",
			"correct PGDISPATCH_CODEC_ENDPOINT"},
		"redirection": {answering(http.StatusFound), engine.Blocked, "302 Found", "PGDISPATCH_CODEC_ENDPOINT"},
		"no codec":    {answering(http.StatusNoContent), engine.Unreached, "204 No Content", "check that"},
		"another server that refuses everything": {answering(http.StatusBadRequest), engine.Blocked, "400 Bad Request",
			"correct PGDISPATCH_CODEC_ENDPOINT"},
		"bad payload": {answering(http.StatusBadRequest, isLarge), engine.Permanent, "does not encode this", ""},
		"too large":   {answering(http.StatusRequestEntityTooLarge, isLarge), engine.Permanent, "413", ""},
		"invalid":     {answering(http.StatusUnprocessableEntity, isLarge), engine.Permanent, "422", ""},
		"a fault of this one": {answering(http.StatusInternalServerError, isLarge), engine.Retryable,
			"encodes other payloads", ""},
		"no codec of this one": {answering(http.StatusNoContent, isLarge), engine.Retryable, "encodes other payloads", ""},
	}, func(t *testing.T, c given) {
		server, codec, log := codecServer(t)
		server.Fail(c.fails)
		service := &startService{}
		client := coded(service, codec)
		_, err := client.Start(t.Context(), aSecretItem())
		require.ErrorContains(t, err, "encode payloads: codec server "+server.URL)
		require.ErrorContains(t, err, c.says)
		require.Equal(t, c.outcome.String(), Classify(err).String())
		require.Contains(t, Remedy(err, "shop"), c.remedy)
		require.Empty(t, service.started)
		ofServer := c.outcome == engine.Blocked || c.outcome == engine.Unreached
		require.Equal(t, ofServer, codec.Failure() != nil)

		server.Fail(nil)
		must.Get(client.Start(t.Context(), aSecretItem())).In(t)
		require.Nil(t, codec.Failure())
		if ofServer {
			require.Equal(t, 1, strings.Count(log.String(),
				`msg="The codec server does not encode; nothing is sent to Temporal until it does"`), log.String())
			require.Contains(t, log.String(), `msg="The codec server encodes again"`)
		}
		require.NotContains(t, log.String(), "secret")
	})
}

func TestACodecServerThatDoesNotAnswerIsUnreached(t *testing.T) {
	t.Parallel()
	arrived, done := make(chan struct{}, 9), make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-done
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(done) })
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("<html>"))
	}))
	t.Cleanup(other.Close)
	for endpoint, says := range map[string]string{
		silent.URL: "encode timed out after 3s", gone.URL: "connection refused", other.URL: "unable to unmarshal payloads",
	} {
		codec, err := CodecTarget{Endpoint: endpoint}.Open(slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		var results []string
		codec.Saw = func(result string, took time.Duration) {
			require.Positive(t, took)
			results = append(results, result)
		}
		service := &startService{}
		_, err = coded(service, codec).Start(t.Context(), aSecretItem())
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, endpoint)
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, engine.Unreached, Classify(err))
		require.ErrorIs(t, err, ErrAway)
		require.Empty(t, service.started)
		require.Equal(t, []string{CodecUnavailable, CodecUnavailable}, results, "the item's, and the probe's")
	}
}

// endOf reads the end of a workflow from its close event.
func endOf(t *testing.T, codec *Codec, event *historypb.HistoryEvent) (End, error) {
	t.Helper()
	end, _, err := coded(&fakeService{answers: history{closed(event)}}, codec).
		Ended(t.Context(), Execution{ID: "e1", RunID: "r"})
	return end, err
}

func TestResultsAreDecoded(t *testing.T) {
	server, codec, log := codecServer(t)
	seal := func(text string) *commonpb.Payload {
		return must.Get(server.Codec.Encode([]*commonpb.Payload{jsonPayload([]byte(text))})).In(t)[0]
	}
	look := func(payload *commonpb.Payload) (End, error) {
		event := completed("")
		event.GetWorkflowExecutionCompletedEventAttributes().Result = &commonpb.Payloads{
			Payloads: []*commonpb.Payload{payload}}
		return endOf(t, codec, event)
	}
	end := must.Get(look(seal(`{"total": 3}`))).In(t)
	require.Equal(t, End{Outcome: "COMPLETED", Result: `{"total": 3}`}, end)
	end = must.Get(look(jsonPayload([]byte(`1`)))).In(t)
	require.Equal(t, "1", end.Result, "of a worker without the codec")

	server.Fail(answering(http.StatusBadGateway))
	_, err := look(seal(`1`))
	require.ErrorIs(t, err, ErrAway, "the end is recorded when the codec server answers")
	var away *CodecError
	require.ErrorAs(t, err, &away)

	for _, answer := range []int{http.StatusInternalServerError, http.StatusForbidden, http.StatusBadRequest} {
		server.Fail(answering(answer, isDecode))
		end, err = look(seal(`1`))
		require.NoError(t, err, "it encodes, so another try would not help")
		require.Equal(t, "COMPLETED", end.Outcome)
		require.Empty(t, end.Result)
		require.Contains(t, end.Reason, `encoding "binary/encrypted"`)
	}
	require.Contains(t, log.String(),
		`msg="The codec server does not decode how an execution ended; it is recorded without" execution_id=e1`)
}

func TestFailuresWithEncodedAttributesAreDecoded(t *testing.T) {
	server, codec, _ := codecServer(t)
	cause := &failurepb.Failure{Message: "no gas", StackTrace: "oven.go:3"}
	cold := failure("the oven is cold", "Oven", cause)
	encrypting := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), server.Codec)
	for _, f := range []*failurepb.Failure{cold, cause} {
		require.NoError(t, converter.EncodeCommonFailureAttributes(encrypting, f))
	}
	event := failed(cold, "")
	kept := proto.CloneOf(event)
	end := must.Get(endOf(t, codec, event)).In(t)
	require.Equal(t, End{Outcome: "FAILED", Reason: "the oven is cold (Oven): no gas"}, end)
	require.Len(t, server.Calls(), 1, "one call for all causes")

	server.Fail(answering(http.StatusForbidden, isDecode))
	end = must.Get(endOf(t, codec, kept)).In(t)
	require.Equal(t, "Encoded failure (Oven): Encoded failure", end.Reason)
}

func TestATokenAndAnAuthorityAreReadAnew(t *testing.T) {
	t.Parallel()
	server, other := codectest.NewServer(true), codectest.NewServer(true)
	t.Cleanup(server.Close)
	t.Cleanup(other.Close)
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		return filepath.Join(dir, name)
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	target := CodecTarget{Endpoint: server.URL, TokenFile: write("token", []byte("first\n"))}
	log := slog.New(slog.DiscardHandler)
	untrusting := must.Get(target.Open(log)).In(t)
	untrusted := untrusting.Probe(t.Context(), "shop")
	require.ErrorContains(t, untrusted, "certificate signed by unknown authority")
	require.Contains(t, Remedy(untrusted, ""), "PGDISPATCH_CODEC_CA_FILE")
	require.Empty(t, server.Calls(), "not even the token is sent")

	target.CAFile = write("ca.pem", authority)
	codec := must.Get(target.Open(log)).In(t)
	require.NoError(t, codec.Probe(t.Context(), "shop"))
	require.Equal(t, codectest.Call{Operation: "encode", Namespace: "shop", Authorization: "Bearer first",
		Bytes: server.Calls()[0].Bytes}, server.Calls()[0])

	for _, bad := range []CodecTarget{{TokenFile: "x"}, {CAFile: "x"}, {Endpoint: "https://a", TokenFile: "/nowhere"},
		{Endpoint: "https://a", CAFile: target.TokenFile}, {Endpoint: "https://a", CAFile: "/nowhere"},
		{Endpoint: "https://a", TokenFile: write("empty", []byte("\n"))}} {
		require.ErrorContains(t, bad.Verify(), "PGDISPATCH_CODEC_", "%+v", bad)
	}
	require.NoError(t, CodecTarget{}.Verify())
	none := must.Get(CodecTarget{}.Open(log)).In(t)
	require.Nil(t, none.Failure())

	write("ca.pem", []byte("torn"))
	codec.transport.(*http.Transport).CloseIdleConnections()
	require.NoError(t, codec.Probe(t.Context(), "shop"), "the last good file counts")
	write("token", []byte("second"))
	codec.token.readAt = time.Time{} // its two seconds are over
	require.NoError(t, codec.Probe(t.Context(), "shop"))
	require.Equal(t, "Bearer second", server.Calls()[2].Authorization)
}

func TestAStartThatIsCancelledWhileItIsEncodedWasNotSent(t *testing.T) {
	server, codec, log := codecServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	var cancelled atomic.Bool
	server.Fail(func(codectest.Call) int {
		cancelled.Store(true)
		cancel()
		<-ctx.Done()
		return http.StatusServiceUnavailable
	})
	service := &startService{}
	_, err := coded(service, codec).Start(ctx, aSecretItem())
	require.True(t, cancelled.Load())
	require.Equal(t, engine.NotSent.String(), Classify(err).String())
	require.Empty(t, service.started)
	require.Nil(t, codec.Failure(), "it says nothing about the codec server: %s", log)
}

func TestTheProbeAsksTheCodecServerToo(t *testing.T) {
	server, codec, _ := codecServer(t)
	client := coded(&fakeService{}, codec)
	require.NoError(t, client.Probe(t.Context()))
	require.True(t, slices.ContainsFunc(server.Calls(), func(c codectest.Call) bool { return c.Operation == "encode" }))
	server.Fail(answering(http.StatusBadGateway))
	var failure *CodecError
	require.ErrorAs(t, client.Probe(t.Context()), &failure)
}
