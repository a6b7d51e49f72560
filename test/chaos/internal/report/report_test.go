package report

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/fault"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/run"
)

// shard is an outcome with two of the faults.
func shard(n int) *run.Outcome {
	all := fault.All()
	o := &run.Outcome{Seed: 7, Random: 3, Results: []fault.Result{
		{Fault: all[2*n], Value: 0.5, Measured: true}, {Fault: all[2*n+1], Err: errors.New("it could not be made")},
	}}
	o.Check.Acknowledged = 100
	o.Check.Running = map[string][2]int{"pro-1": {n + 1, 5}}
	o.Check.Violations = []audit.Violation{{Rule: audit.RuleOneRun, Detail: "two"}}
	return o
}

func TestShardsBecomeOneReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, Save(dir, 1, 2, shard(0)))
	_, complete, err := Merge(dir, 2)
	require.NoError(t, err)
	require.False(t, complete)
	require.NoError(t, Save(dir, 2, 2, shard(1)))
	whole, complete, err := Merge(dir, 2)
	require.NoError(t, err)
	require.True(t, complete)
	require.Len(t, whole.Results, 4)
	require.Equal(t, 200, whole.Check.Acknowledged)
	require.Equal(t, [2]int{2, 5}, whole.Check.Running["pro-1"])

	text := Markdown(whole)
	for _, f := range fault.All()[:4] {
		require.Contains(t, text, "| `"+f.Name+"` |")
	}
	require.Contains(t, text, "**2 violations.**")
	require.Contains(t, text, "- **violation**: "+audit.RuleOneRun+": two")
	require.Contains(t, text, "NOT OK")
	require.False(t, whole.OK())
}
