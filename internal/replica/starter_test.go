package replica

import (
	"reflect"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/stretchr/testify/require"
)

func TestAStartCarriesEverythingThatTheItemHas(t *testing.T) {
	t.Parallel()
	item := claim.Item{
		ID: 1, ExecutionID: "e", WorkspaceID: "w", WorkflowDefinitionID: "d", WorkflowDefinitionVersionID: "v",
		Namespace: "n", Kind: "activity",
		WorkflowType: "Order", TaskQueue: "orders", ExecutionTimeout: time.Hour, Traceparent: "00-1-2-01",
		StartOptions: []byte("{}"), NodeIDs: []byte("[]"), Params: []byte("{}"), Input: "args",
		UnansweredFor: time.Second, Unanswered: true, NamedID: "order-1", Policy: "reuse",
	}
	require.Equal(t, temporal.Execution{ID: "e", WorkflowID: "order-1", Namespace: "n", Kind: "activity"},
		requestOf(item).Execution)
	start := reflect.ValueOf(requestOf(item))
	for n := range start.NumField() {
		require.False(t, start.Field(n).IsZero(), start.Type().Field(n).Name)
	}
}
