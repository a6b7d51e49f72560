package complete

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/stretchr/testify/require"
)

var callbackKey = []byte("a key of thirty-two bytes or more")

// switchboard receives callbacks. By default all executions have completed and can be recorded.
type switchboard struct {
	*Callbacks
	log      logBook
	asked    []temporal.Execution
	finished []string
	answers  []string
	freed    int
	open     bool
	away     error // Temporal
	lost     error // the database
}

func newSwitchboard() *switchboard {
	b := &switchboard{}
	b.Callbacks = &Callbacks{
		Key: callbackKey, Store: b, Temporal: b, Freed: func() { b.freed++ },
		Answered: func(result string) { b.answers = append(b.answers, result) }, Log: slog.New(&b.log),
	}
	return b
}

func (b *switchboard) Ended(_ context.Context, execution temporal.Execution) (temporal.End, bool, error) {
	b.asked = append(b.asked, execution)
	return temporal.End{Outcome: "COMPLETED"}, !b.open && b.away == nil, b.away
}

func (b *switchboard) Finish(_ context.Context, executionID, outcome, _, _ string) (bool, error) {
	b.finished = append(b.finished, executionID+"="+outcome)
	return len(b.finished) == 1, b.lost
}

// header returns the header for an execution in namespace shop.
func header(key []byte, executionID string) map[string]string {
	return temporal.CallbackHeader(key, temporal.Execution{ID: executionID, Namespace: "shop"})
}

// proof returns the last part of an execution's token.
func proof(executionID, namespace string) string {
	header := temporal.CallbackHeader(callbackKey, temporal.Execution{ID: executionID, Namespace: namespace})
	parts := strings.Split(header["authorization"], ".")
	return parts[len(parts)-1]
}

// call sends a callback as Temporal does.
func call(executionID string) *nethttp.Request {
	request := httptest.NewRequest(nethttp.MethodPost, "/any/path", strings.NewReader(`"result"`))
	for name, value := range header(callbackKey, executionID) {
		request.Header.Set(name, value)
	}
	request.Header.Set("Nexus-Operation-State", "succeeded")
	request.Header.Set("Nexus-Link", "<temporal:///namespaces/default/workflows/execution-"+executionID+
		"/run-1/history?eventID=1&eventType=WorkflowExecutionStarted&referenceType=EventReference>; "+
		"type=\"temporal.api.common.v1.Link.WorkflowEvent\"")
	return request
}

func (b *switchboard) answer(request *nethttp.Request) int {
	recorder := httptest.NewRecorder()
	b.Handler().ServeHTTP(recorder, request)
	return recorder.Code
}

func TestACallbackRecordsTheEndThatTemporalTells(t *testing.T) {
	t.Parallel()
	b := newSwitchboard()
	id := uuid.NewString()
	require.Equal(t, nethttp.StatusOK, b.answer(call(id)))
	require.Equal(t, []temporal.Execution{{ID: id, RunID: "run-1", Namespace: "shop"}}, b.asked,
		"the run that closed")
	require.Equal(t, []string{id + "=COMPLETED"}, b.finished)
	require.Equal(t, 1, b.freed)

	require.Equal(t, nethttp.StatusOK, b.answer(call(id)), "sent again because the answer was lost")
	require.Equal(t, 1, b.freed, "counted once")
	require.Equal(t, []string{CallbackEnded, CallbackEnded}, b.answers)
}

func TestACallbackWithoutItsLinkMeansTheNewestRun(t *testing.T) {
	t.Parallel()
	b := newSwitchboard()
	id := uuid.NewString()
	for _, link := range []string{"", "nonsense", "<temporal:///namespaces/default/workflows/execution-" +
		uuid.NewString() + "/run-9/history?a=b>"} {
		request := call(id)
		request.Header.Set("Nexus-Link", link)
		require.Equal(t, nethttp.StatusOK, b.answer(request))
		require.Equal(t, temporal.Execution{ID: id, Namespace: "shop"}, b.asked[len(b.asked)-1], link)
	}
}

// The token of one execution is not valid for another, and without a token Temporal is not asked.
func TestACallbackNeedsItsExecutionsOwnToken(t *testing.T) {
	t.Parallel()
	b := newSwitchboard()
	id, other := uuid.NewString(), uuid.NewString()
	_, others, _ := strings.Cut(header(callbackKey, other)["authorization"], ".")
	for name, token := range map[string]string{
		"none": "", "no scheme": id, "another scheme": "Basic " + id, "no proof": "Bearer " + id, "empty proof": "Bearer " +
			id + ".",
		"another's": "Bearer " + id + "." + others, "no execution": "Bearer .." + proof("", ""),
		"another namespace's": "Bearer " + id + ".b3RoZXI." + proof(id, "shop"), "no namespace": "Bearer " + id + "." +
			proof(id, ""),
		"not an execution":       header(callbackKey, "select 1")["authorization"],
		"another key":            header([]byte(rand.Text()+rand.Text()), id)["authorization"],
		"longer than the proof":  header(callbackKey, id)["authorization"] + "A",
		"shorter than the proof": strings.TrimSuffix(header(callbackKey, id)["authorization"], "A")[:60],
		"empty key and proof":    header(nil, id)["authorization"],
	} {
		request := call(id)
		request.Header.Set("Authorization", token)
		require.Equal(t, nethttp.StatusUnauthorized, b.answer(request), name)
	}
	require.Empty(t, b.asked)
	require.Empty(t, b.finished)
	require.Len(t, b.log.records, 1, "rejections are logged at a limited rate")
	for _, record := range b.log.records {
		record.Attrs(func(attr slog.Attr) bool {
			require.NotContains(t, attr.Value.String(), "Bearer", "tokens are not logged")
			return true
		})
	}
}

func TestOnlyAPostIsACallback(t *testing.T) {
	t.Parallel()
	b := newSwitchboard()
	request := call(uuid.NewString())
	request.Method = nethttp.MethodGet
	require.Equal(t, nethttp.StatusNotFound, b.answer(request), "Temporal does not retry this status")
	require.Equal(t, []string{CallbackRefused}, b.answers)
}

// Temporal retries it. A request that waits for the end of an outage times out here before it times out in Temporal.
func TestACallbackThatCannotBeRecordedComesAgain(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*switchboard){
		"Temporal": func(b *switchboard) { b.away = temporal.ErrAway },
		"database": func(b *switchboard) { b.lost = errors.New("connection refused") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newSwitchboard()
				away(b)
				began := time.Now()
				require.Equal(t, nethttp.StatusServiceUnavailable, b.answer(call(uuid.NewString())))
				require.Less(t, time.Since(began), 10*time.Second, "Temporal's timeout")
				require.Equal(t, []string{CallbackUnavailable}, b.answers)
				require.Zero(t, b.freed)
			})
		})
	}
}

// A reset run closes, and the execution continues.
func TestACallbackOfARunThatIsContinuedEndsNothing(t *testing.T) {
	t.Parallel()
	b := newSwitchboard()
	b.open = true
	require.Equal(t, nethttp.StatusOK, b.answer(call(uuid.NewString())))
	require.Empty(t, b.finished)
	require.Equal(t, []string{CallbackOpen}, b.answers)
}

func TestCallbacksAreServedOverTheNetworkUntilTheEnd(t *testing.T) {
	t.Parallel()
	b := newSwitchboard()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b.Listener = listener
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()

	// A result of Temporal's maximum size arrives on a reused connection.
	id := uuid.NewString()
	for range 2 {
		request, err := nethttp.NewRequestWithContext(t.Context(), nethttp.MethodPost, "http://"+listener.Addr().String()+
			"/x", strings.NewReader(strings.Repeat("x", 2<<20)))
		require.NoError(t, err)
		request.Header = call(id).Header
		response, err := nethttp.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, nethttp.StatusOK, response.StatusCode)
	}
	cancel()
	require.NoError(t, <-ended)
}
