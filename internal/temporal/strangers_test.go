package temporal

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// Whoever reaches the port can send a token. It is valid only for the execution for which it was made.
func FuzzCallbackToken(f *testing.F) {
	key := []byte("0123456789abcdef")
	of := Execution{ID: "5d0cdb0b-3e0f-4c25-8a3e-7f6d1c7a0001", WorkflowID: "order-17", Namespace: "default"}
	good := CallbackHeader(key, of)["authorization"]
	for n := range good {
		f.Add(good[:n])
		f.Add(good[:n] + "x" + good[n+1:])
	}
	f.Add(good)
	f.Add(strings.Replace(good, "5d0cdb0b", "5d0cdb0c", 1))
	f.Add(CallbackHeader([]byte("another key"), of)["authorization"])
	f.Fuzz(func(t *testing.T, token string) {
		named, valid := CheckCallback(key, http.Header{"Authorization": {token}})
		if token == good {
			require.True(t, valid)
		}
		if valid {
			require.Equal(t, of, named)
			require.Equal(t, good, token)
		}
	})
}

// Start options are checked by SQL. What a table without its triggers has let in is an error, or a request that can be
// sent; never a panic.
func FuzzStartOptions(f *testing.F) {
	for _, text := range []string{"", "null", "{}", "[]", `{"memo": {"a": 1}}`, `{"memo": {"pgdispatch_execution_id": 1}}`,
		`{"retry_policy": {"initial_interval": "1s", "maximum_interval": null}}`, `{"workflow_run_timeout": "-1s"}`,
		`{"workflow_run_timeout": 1}`, `{"search_attributes": {"A": null}}`, `{"versioning_override": {"pinned": {}}}`,
		`{"versioning_override": {"auto_upgrade": true, "pinned": null}}`, `{"priority": {"fairness_weight": 1e39}}`,
		`{"static_summary": {"a": []}}`, `{"memo": {"a": 1}} {`, `{"unknown": 1}`, `{"start_to_close_timeout": "9h"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		service, start := &startService{}, anItem()
		start.Options = []byte(text)
		_, err := starterOn(service).Start(t.Context(), start)
		if err != nil {
			require.Empty(t, service.started, "nothing is sent")
			return
		}
		sent, err := proto.Marshal(service.started[0])
		require.NoError(t, err)
		require.NotEmpty(t, sent)
		require.Equal(t, "pgdispatch-"+start.ID, service.started[0].RequestId, "no option changes the request ID")
	})
}
