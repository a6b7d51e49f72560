package demo

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

var diamond = graph{
	Nodes: []graphNode{{"d"}, {"a"}, {"b"}, {"c"}},
	Edges: []graphEdge{{"a", "b"}, {"a", "c"}, {"b", "d"}, {"c", "d"}},
}

// newEnvironment runs the workflow against activities that know one graph and record the nodes that ran.
func newEnvironment(g graph) (*testsuite.TestWorkflowEnvironment, *[]string) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	var activities *graphActivities
	env.RegisterActivity(activities)
	var ran []string
	env.OnActivity(activities.LoadGraph, mock.Anything, "version-1").Return(g, nil)
	env.OnActivity(activities.RunNode, mock.Anything, mock.Anything).Return(func(_ context.Context, task nodeTask) error {
		ran = append(ran, task.ID)
		if task.Fail {
			return temporal.NewNonRetryableApplicationError("failed on purpose", "Deliberate", nil)
		}
		return nil
	})
	return env, &ran
}

func TestWorkflowRunsEveryNodeInOrder(t *testing.T) {
	t.Parallel()
	env, ran := newEnvironment(diamond)

	env.ExecuteWorkflow(runGraph, workflowInput{WorkflowDefinitionVersionID: "version-1", NodeIDs: diamond.nodeIDs()})

	require.NoError(t, env.GetWorkflowError())
	var result []string
	require.NoError(t, env.GetWorkflowResult(&result))
	require.Equal(t, []string{"a", "b", "c", "d"}, result)
	require.Equal(t, result, *ran)
}

func TestWorkflowFailsAtTheNodeThatIsAskedTo(t *testing.T) {
	t.Parallel()
	env, ran := newEnvironment(diamond)

	env.ExecuteWorkflow(runGraph, workflowInput{
		WorkflowDefinitionVersionID: "version-1", NodeIDs: diamond.nodeIDs(), Params: map[string]any{"fail_at": "b"},
	})

	requireApplicationError(t, env.GetWorkflowError(), "node b failed on purpose")
	require.Equal(t, []string{"a", "b"}, *ran)
}

func TestWorkflowRefusesWhatCannotGetBetter(t *testing.T) {
	cycle := graph{Nodes: []graphNode{{"a"}, {"b"}}, Edges: []graphEdge{{"a", "b"}, {"b", "a"}}}
	type given struct {
		graph   graph
		nodeIDs []string
		want    string
	}
	must.Each(t, map[string]given{
		"cycle":       {cycle, []string{"a", "b"}, "wait for one another"},
		"other nodes": {diamond, []string{"a"}, "are not the graph's"},
	}, func(t *testing.T, test given) {
		env, ran := newEnvironment(test.graph)
		env.ExecuteWorkflow(runGraph, workflowInput{WorkflowDefinitionVersionID: "version-1", NodeIDs: test.nodeIDs})
		requireApplicationError(t, env.GetWorkflowError(), test.want)
		require.Empty(t, *ran)
	})
}

// requireApplicationError requires an error that Temporal does not retry.
func requireApplicationError(t *testing.T, err error, text string) {
	t.Helper()
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	require.True(t, application.NonRetryable())
	require.Contains(t, application.Message(), text)
}

// rowFunc is a database that answers every query the same way.
type rowFunc func(dest ...any) error

func (f rowFunc) QueryRow(context.Context, string, ...any) pgx.Row { return f }
func (f rowFunc) Scan(dest ...any) error                           { return f(dest...) }

func TestLoadGraphRetriesAnOutageButNotAMissingVersion(t *testing.T) {
	t.Parallel()
	missing := &graphActivities{db: rowFunc(func(...any) error { return pgx.ErrNoRows })}
	_, err := missing.LoadGraph(t.Context(), "v")
	requireApplicationError(t, err, "no version v")

	down := &graphActivities{db: rowFunc(func(...any) error { return errors.New("connection refused") })}
	_, err = down.LoadGraph(t.Context(), "v")
	var application *temporal.ApplicationError
	require.NotErrorAs(t, err, &application)
	require.EqualError(t, err, "read graph of version v: connection refused")
}

func TestWorkTimeIsTheSameForTheSameNode(t *testing.T) {
	t.Parallel()
	for _, node := range []string{"", "bake", "assess_risk"} {
		require.Equal(t, workTime(node), workTime(node))
		require.GreaterOrEqual(t, workTime(node), shortestWork)
		require.Less(t, workTime(node), shortestWork+workSpread)
	}
	require.NotEqual(t, workTime("bake"), workTime("pack"))
	require.Equal(t, time.Duration(0), workTime("bake")%time.Millisecond)
}
