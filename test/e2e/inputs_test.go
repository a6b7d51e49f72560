package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgdispatch/pgdispatch/internal/codectest"
)

// greet is somebody's workflow, which knows nothing of pgdispatch.
func greet(_ workflow.Context, name string, wish struct{ Times int }) (string, error) {
	return strings.Repeat("hello "+name+"; ", wish.Times), nil
}

// inputOf makes a definition of workflow type Greet with this input, for a worker with this data converter.
func (s *stack) inputOf(input string, converter converter.DataConverter) client.Client {
	s.t.Helper()
	c, err := client.NewClientFromExisting(s.client, client.Options{DataConverter: converter})
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	w := worker.New(c, s.queue+input, worker.Options{})
	w.RegisterWorkflowWithOptions(greet, workflow.RegisterOptions{Name: "Greet"})
	require.NoError(s.t, w.Start())
	s.t.Cleanup(w.Stop)
	s.exec("update pgdispatch.workspaces set name = 'acme' where id = $1", s.workspace["PRO"])
	s.exec(`insert into pgdispatch.workflow_definitions (workspace_id, name, workflow_type, task_queue, input)
		values ($1, 'greet', 'Greet', $2, $3)`, s.workspace["PRO"], s.queue+input, input)
	return c
}

func (s *stack) greeting(c client.Client, params string) (greeting string) {
	s.t.Helper()
	execution := one[string](s, "select execution_id::text from pgdispatch.enqueue_named('acme', 'greet', $1)", params)
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "greeting completes")
	require.NoError(s.t,
		c.GetWorkflow(context.Background(), "execution-"+execution, "").Get(context.Background(), &greeting))
	return greeting
}

func TestAnExistingWorkflowOfTwoArgumentsIsStartedByOneInsert(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()
	c := s.inputOf("args", nil)
	require.Equal(t, "hello Ann; hello Ann; ", s.greeting(c, `["Ann", {"Times": 2}]`))
}

// The workflow knows nothing of pgdispatch: neither of its IDs nor of its input.
func TestAnExistingWorkflowKeepsItsOwnID(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()
	c := s.inputOf("args", nil)
	id := "greeting-" + uuid.NewString()
	execution := one[string](s, `select execution_id::text
		from pgdispatch.enqueue_named('acme', 'greet', '["Ann", {"Times": 1}]', workflow_id => $1)`, id)
	s.eventually(func() bool { return s.statusOf(execution) == "COMPLETED" }, "greeting completes")
	var greeting string
	require.NoError(t, c.GetWorkflow(context.Background(), id, "").Get(context.Background(), &greeting))
	require.Equal(t, "hello Ann; ", greeting)
}

func TestAnExistingWorkflowWhoseInputIsEncryptedIsStartedByOneInsert(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()
	encrypting := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), codectest.NewCodec())
	c := s.inputOf("payloads", encrypting)
	encoded, err := encrypting.ToPayloads("Ann", struct{ Times int }{3})
	require.NoError(t, err)
	var params []json.RawMessage
	for _, payload := range encoded.GetPayloads() {
		printed, err := protojson.Marshal(payload)
		require.NoError(t, err)
		params = append(params, printed)
	}
	text, err := json.Marshal(params)
	require.NoError(t, err)
	require.NotContains(t, string(text), "Ann")
	require.Equal(t, "hello Ann; hello Ann; hello Ann; ", s.greeting(c, string(text)))
}
