package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

func TestRunWithoutSenseExplainsItself(t *testing.T) {
	type given struct {
		args   []string
		code   int
		output string
	}
	must.Each(t, map[string]given{
		"nothing":          {nil, 2, "devstack temporal"},
		"help":             {[]string{"--help"}, 0, "devstack demo"},
		"unknown command":  {[]string{"kafka"}, 2, `unknown command "kafka"`},
		"unknown flag":     {[]string{"temporal", "--speed"}, 2, "-speed"},
		"help of command":  {[]string{"temporal", "--help"}, 0, "-exit-with-parent"},
		"extra argument":   {[]string{"temporal", "now"}, 2, `unexpected argument "now"`},
		"up without end":   {[]string{"up", "for ever"}, 2, `unexpected argument "for ever"`},
		"help of worker":   {[]string{"worker", "--help"}, 0, "-task-queue"},
		"public address":   {[]string{"temporal", "--addr", "0.0.0.0:0"}, 2, "must be a loopback address"},
		"no port":          {[]string{"temporal", "--addr", "127.0.0.1"}, 2, "missing port"},
		"log level":        {[]string{"temporal", "--log-level", "loud"}, 2, `unknown log level "loud"`},
		"demo, no binary":  {[]string{"demo", "--pgdispatch", "/no/such/file"}, 1, "find pgdispatch"},
		"empty namespace":  {[]string{"temporal", "--namespace", ""}, 2, "empty name"},
		"unknown UI place": {[]string{"temporal", "--ui-addr", "ui"}, 2, "read address"},
	}, func(t *testing.T, test given) {
		var out bytes.Buffer
		code := run(t.Context(), test.args, streams{in: bytes.NewReader(nil), out: &out, err: &out})
		require.Equal(t, test.code, code, out.String())
		require.Contains(t, out.String(), test.output)
	})
}

// temporalCommand runs devstack temporal until its standard input is closed. It returns the output at readiness, and a
// function that closes standard input and waits for the end.
func temporalCommand(t *testing.T, args ...string) (readyLine, func()) {
	t.Helper()
	in, closeIn := io.Pipe()
	outReader, out := io.Pipe()
	var logs bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(context.Background(), append([]string{"temporal", "--exit-with-parent"}, args...),
			streams{in: in, out: out, err: &logs})
		_ = out.Close()
	}()
	var ready readyLine
	require.NoError(t, json.NewDecoder(outReader).Decode(&ready))
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		_ = closeIn.Close()
		require.Zero(t, <-code, logs.String())
	}
	t.Cleanup(stop)
	return ready, stop
}

func dial(t *testing.T, address, namespace string) client.Client {
	t.Helper()
	c := must.Get(client.DialContext(t.Context(),
		client.Options{HostPort: address, Namespace: namespace, Logger: quietLogger()})).In(t)
	t.Cleanup(c.Close)
	return c
}

func TestTemporalTakesWorkflowsInEveryNamespaceUntilItsInputEnds(t *testing.T) {
	t.Parallel()
	ready, stop := temporalCommand(t, "--namespace", "first", "--namespace", "second", "--namespace", "first")
	require.Equal(t, "first", ready.Namespace)
	require.Empty(t, ready.UI)

	for _, namespace := range []string{"first", "second"} {
		_, err := dial(t, ready.Address, namespace).ExecuteWorkflow(t.Context(),
			client.StartWorkflowOptions{ID: "id", TaskQueue: "queue"}, "Anything")
		require.NoError(t, err, namespace)
	}
	answer := must.Get(dial(t, ready.Address, "first").WorkflowService().DescribeNamespace(t.Context(),
		&workflowservice.DescribeNamespaceRequest{Namespace: "second"})).In(t)
	require.Equal(t, 24*time.Hour, answer.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration())

	stop()
	_, err := net.Dial("tcp", ready.Address)
	require.Error(t, err, "the port is closed")
}

func TestTemporalKeepsWorkflowsInItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "temporal.db")
	ready, stop := temporalCommand(t, "--db", file)
	run := must.Get(dial(t, ready.Address, "default").ExecuteWorkflow(t.Context(),
		client.StartWorkflowOptions{ID: "id", TaskQueue: "queue"}, "Anything")).In(t)
	stop()

	ready, _ = temporalCommand(t, "--db", file)
	answer := must.Get(dial(t, ready.Address, "default").DescribeWorkflowExecution(t.Context(), "id", "")).In(t)
	require.Equal(t, run.GetRunID(), answer.GetWorkflowExecutionInfo().GetExecution().GetRunId())
}

func TestTemporalReportsATakenPort(t *testing.T) {
	t.Parallel()
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	defer taken.Close()
	var logs bytes.Buffer

	code := run(t.Context(), []string{"temporal", "--addr", taken.Addr().String()}, streams{out: io.Discard, err: &logs})

	require.Equal(t, 1, code)
	require.Contains(t, logs.String(), "address already in use")
}

func TestWebInterfaceServesItsPagesAndTheAPI(t *testing.T) {
	t.Parallel()
	ready, _ := temporalCommand(t, "--ui-addr", "127.0.0.1:0")

	page := get(t, ready.UI+"/")
	script := regexp.MustCompile(`/_app/[^"']+\.js`).FindString(page)
	require.NotEmpty(t, script, page)
	require.NotEmpty(t, get(t, ready.UI+script), "the binary contains the scripts")
	require.Contains(t, get(t, ready.UI+"/api/v1/namespaces"), `"default"`)
}

func get(t *testing.T, url string) string {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)).In(t)
	response := must.Get(http.DefaultClient.Do(request)).In(t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body)).In(t)
	require.Equal(t, http.StatusOK, response.StatusCode, url)
	return string(body)
}

func TestTheWorkerExecutesWorkflowsAndStandaloneActivitiesOfAnyType(t *testing.T) {
	t.Parallel()
	ready, _ := temporalCommand(t)
	c := dial(t, ready.Address, "default")
	var printed bytes.Buffer
	w := worker.New(c, "orders", worker.Options{})
	(&echo{log.New(&printed, "", 0)}).register(w)
	require.NoError(t, w.Start())
	run := must.Get(c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "execution-1", TaskQueue: "orders"},
		"Order", map[string]any{"nodeIds": []string{"charge"}, "params": map[string]int{"orderId": 42}})).In(t)
	require.NoError(t, run.Get(t.Context(), nil))
	standalone, err := c.ExecuteActivity(t.Context(), client.StartActivityOptions{ID: "execution-2", TaskQueue: "orders",
		ScheduleToCloseTimeout: time.Minute}, "SendMail", "ann@example.com")
	require.NoError(t, err)
	require.NoError(t, standalone.Get(t.Context(), nil))
	w.Stop()
	require.Equal(t, "execution-1 starts Order {\"orderId\":42}\nexecution-1 executes charge\n"+
		"execution-1 completes Order\nexecution-2 executes SendMail\n", printed.String())
}
