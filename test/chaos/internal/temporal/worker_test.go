package temporal

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
)

// A signal that is delivered twice is in what the workflow returns, as Temporal stores it.
func TestAPlantedSignalIsFoundInWhatTheWorkflowReturns(t *testing.T) {
	t.Parallel()
	sent := []audit.Signal{{Payload: 1, Acknowledged: true}, {Payload: 2, Acknowledged: true}}
	for _, c := range []struct {
		name     string
		received []int
		broken   bool
	}{
		{"both", []int{2}, false}, {"the last one twice", []int{2, 2}, true}, {"only the first", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.RegisterWorkflowWithOptions(notes, workflow.RegisterOptions{Name: Notes})
			env.RegisterDelayedCallback(func() {
				for _, n := range c.received {
					env.SignalWorkflow(Note, n)
				}
				env.SignalWorkflow(Release, 0)
			}, 0)
			env.ExecuteWorkflow(Notes, Input{Received: []int{1}})
			var received []int
			require.NoError(t, env.GetWorkflowResult(&received))
			require.Equal(t, c.broken, len(audit.Signals("e", sent, received)) > 0, "%v", received)
		})
	}
}
