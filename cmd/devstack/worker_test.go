package main

import (
	"bytes"
	"log"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
)

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
