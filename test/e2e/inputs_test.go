package e2e

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"
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

func TestAnExistingWorkflowWhoseInputIsEncryptedIsStartedByOneInsert(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.replica().ready()
	encrypting := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), newVault(t))
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

// vault encrypts payloads, as an application's codec does.
type vault struct{ cipher.AEAD }

func newVault(t *testing.T) vault {
	t.Helper()
	block, err := aes.NewCipher([]byte("an example of a 256 bit AES key."))
	require.NoError(t, err)
	aead, err := cipher.NewGCM(block)
	require.NoError(t, err)
	return vault{aead}
}

func (v vault) Encode(payloads []*commonpb.Payload) (encoded []*commonpb.Payload, err error) {
	for _, p := range payloads {
		plain, err := p.Marshal()
		if err != nil {
			return nil, err
		}
		nonce := make([]byte, v.NonceSize())
		_, _ = rand.Read(nonce)
		encoded = append(encoded, &commonpb.Payload{Data: v.Seal(nonce, nonce, plain, nil),
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte("binary/encrypted")}})
	}
	return encoded, nil
}

func (v vault) Decode(payloads []*commonpb.Payload) (decoded []*commonpb.Payload, err error) {
	for _, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != "binary/encrypted" {
			decoded = append(decoded, p)
			continue
		}
		plain, err := v.Open(nil, p.Data[:v.NonceSize()], p.Data[v.NonceSize():], nil)
		if err != nil {
			return nil, fmt.Errorf("decrypt payload: %w", err)
		}
		var inner commonpb.Payload
		if err := inner.Unmarshal(plain); err != nil {
			return nil, err
		}
		decoded = append(decoded, &inner)
	}
	return decoded, nil
}
