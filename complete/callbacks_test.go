package complete

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/logtest"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

var callbackKey = []byte("a key of thirty-two bytes or more")

// switchboard receives callbacks. By default all executions have completed and can be recorded.
type switchboard struct {
	*Callbacks
	log      logtest.Book
	asked    []temporal.Execution
	finished []string
	answers  []string
	freed    int
	open     bool
	away     error // Temporal
	conns    *countingListener
	lost     error // the database
}

func newSwitchboard() *switchboard {
	b := &switchboard{}
	b.Callbacks = &Callbacks{
		Key: callbackKey, Ends: b, Temporal: b, Freed: func() { b.freed++ },
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
func call(executionID string) *http.Request {
	request := httptest.NewRequest(http.MethodPost, "/any/path", strings.NewReader(`"result"`))
	for name, value := range header(callbackKey, executionID) {
		request.Header.Set(name, value)
	}
	request.Header.Set("Nexus-Operation-State", "succeeded")
	request.Header.Set("Nexus-Link", "<temporal:///namespaces/default/workflows/execution-"+executionID+
		"/run-1/history?eventID=1&eventType=WorkflowExecutionStarted&referenceType=EventReference>; "+
		"type=\"temporal.api.common.v1.Link.WorkflowEvent\"")
	return request
}

func (b *switchboard) answer(request *http.Request) int {
	recorder := httptest.NewRecorder()
	b.Handler().ServeHTTP(recorder, request)
	return recorder.Code
}

func TestACallbackRecordsTheEndThatTemporalTells(t *testing.T) {
	t.Parallel()
	b := newSwitchboard()
	id := uuid.NewString()
	require.Equal(t, http.StatusOK, b.answer(call(id)))
	require.Equal(t, []temporal.Execution{{ID: id, RunID: "run-1", Namespace: "shop"}}, b.asked, "the run that closed")
	require.Equal(t, []string{id + "=COMPLETED"}, b.finished)
	require.Equal(t, 1, b.freed)

	require.Equal(t, http.StatusOK, b.answer(call(id)), "sent again because the answer was lost")
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
		require.Equal(t, http.StatusOK, b.answer(request))
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
		require.Equal(t, http.StatusUnauthorized, b.answer(request), name)
	}
	require.Empty(t, b.asked)
	require.Empty(t, b.finished)
	require.Len(t, b.log.Lines(), 1, "rejections are logged at a limited rate")
	require.NotContains(t, b.log.Lines()[0], "Bearer", "tokens are not logged")
}

// Temporal retries a callback that was not recorded. A request that waits for the end of an outage times out here
// before it times out in Temporal.
func TestACallbackThatIsNotTheEndRecordsNothing(t *testing.T) {
	type given struct {
		change func(*switchboard, *http.Request)
		status int // Temporal does not retry 404
		answer string
	}
	must.Each(t, map[string]given{
		"not a POST": {func(_ *switchboard, r *http.Request) { r.Method = http.MethodGet }, http.StatusNotFound,
			CallbackRefused},
		"of a run that was reset": {func(b *switchboard, _ *http.Request) { b.open = true }, http.StatusOK,
			CallbackOpen},
		"Temporal is away": {func(b *switchboard, _ *http.Request) { b.away = temporal.ErrAway },
			http.StatusServiceUnavailable, CallbackUnavailable},
		"the database is away": {func(b *switchboard, _ *http.Request) { b.lost = errors.New("refused") },
			http.StatusServiceUnavailable, CallbackUnavailable},
	}, func(t *testing.T, c given) {
		synctest.Test(t, func(t *testing.T) {
			b, request, began := newSwitchboard(), call(uuid.NewString()), time.Now()
			c.change(b, request)
			require.Equal(t, c.status, b.answer(request))
			require.Less(t, time.Since(began), 10*time.Second, "Temporal's timeout")
			require.Equal(t, []string{c.answer}, b.answers)
			require.Zero(t, b.freed)
			require.Equal(t, b.lost != nil, len(b.finished) > 0)
		})
	})
}

// serveOn serves callbacks on a free port until the test ends or stop is called.
func (b *switchboard) serveOn(t *testing.T) (address string, stop func()) {
	t.Helper()
	var config net.ListenConfig
	listener := must.Get(config.Listen(t.Context(), "tcp", "127.0.0.1:0")).In(t)
	b.conns = &countingListener{Listener: listener}
	b.Listener = b.conns
	return listener.Addr().String(), looptest.Run(t, b.Run)
}

// over sends a callback over the network, with a result of this size, and returns the status.
func over(t *testing.T, client *http.Client, address, executionID string, size int) int {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/x",
		strings.NewReader(strings.Repeat("x", size)))).In(t)
	request.Header = call(executionID).Header
	response := must.Get(client.Do(request)).In(t)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// countingListener counts the connections that are open at a time.
type countingListener struct {
	net.Listener
	accepted, now, most atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.accepted.Add(1)
	now := l.now.Add(1)
	for most := l.most.Load(); now > most && !l.most.CompareAndSwap(most, now); most = l.most.Load() {
	}
	return &countedConn{Conn: conn, listener: l}, nil
}

type countedConn struct {
	net.Conn
	listener *countingListener
	once     sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.listener.now.Add(-1) })
	return c.Conn.Close()
}

// hold opens connections that never complete a request, as a stranger or with a token that leaked.
func hold(t *testing.T, address string, connections int) {
	t.Helper()
	leaked := header(callbackKey, uuid.NewString())["authorization"]
	for n := range connections {
		conn := must.Get(new(net.Dialer).DialContext(t.Context(), "tcp", address)).In(t)
		t.Cleanup(func() { conn.Close() })
		// A write to a connection that was closed to make room fails, as it should.
		_, _ = io.WriteString(conn, []string{
			"", "POST / HTTP/1.1\r\nHost: x\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
			"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: " + leaked + "\r\nContent-Length: 9\r\n\r\nhalf",
		}[n%4])
	}
}

func TestConnectionsThatNeverCompleteARequestAreFewAndHoldUpNoCallback(t *testing.T) {
	t.Parallel()
	b := newSwitchboard()
	b.Freed, b.Answered, b.Temporal, b.Ends = nil, nil, ended{}, ended{}
	address, stop := b.serveOn(t)
	client := &http.Client{Timeout: headerTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	for range 3 {
		hold(t, address, 2*mostConnections)
		require.Equal(t, http.StatusOK, over(t, client, address, uuid.NewString(), 9))
	}
	require.LessOrEqual(t, b.conns.most.Load(), int64(mostConnections)+1, "besides the one that is being accepted")
	stop()
	require.Zero(t, b.conns.now.Load())
}

// ended says of every execution that it has ended, and records it.
type ended struct{ wait, asked chan struct{} }

func (e ended) Ended(ctx context.Context, _ temporal.Execution) (temporal.End, bool, error) {
	if e.wait != nil {
		e.asked <- struct{}{}
		<-e.wait
	}
	return temporal.End{Outcome: "COMPLETED"}, true, nil
}

func (ended) Finish(context.Context, string, string, string, string) (bool, error) { return true, nil }

func TestACallbackInProgressIsNotCutOffByOtherConnections(t *testing.T) {
	t.Parallel()
	b := newSwitchboard()
	slow := ended{wait: make(chan struct{}), asked: make(chan struct{})}
	b.Freed, b.Answered, b.Temporal, b.Ends = nil, nil, slow, ended{}
	address, _ := b.serveOn(t)
	status := make(chan int)
	go func() {
		defer close(status)
		status <- over(t, &http.Client{}, address, uuid.NewString(), 9)
	}()
	<-slow.asked
	hold(t, address, 2*mostConnections)
	require.Eventually(t, func() bool { return b.conns.accepted.Load() > 2*mostConnections }, 5*time.Second,
		time.Millisecond)
	close(slow.wait)
	require.Equal(t, http.StatusOK, <-status)
}

func TestCallbacksAreServedOverTheNetworkUntilTheEnd(t *testing.T) {
	t.Parallel()
	b := newSwitchboard()
	address, _ := b.serveOn(t)
	id := uuid.NewString()
	for range 2 {
		require.Equal(t, http.StatusOK, over(t, http.DefaultClient, address, id, 2<<20),
			"a result of Temporal's maximum size arrives on a reused connection")
	}
}
