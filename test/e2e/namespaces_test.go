package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"
)

// register creates a namespace with a worker for the stack's workflows.
func (s *stack) register(namespace string) client.Client {
	s.t.Helper()
	_, err := s.client.WorkflowService().RegisterNamespace(s.t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: namespace, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(s.t, err)
	there, err := client.NewClientFromExisting(s.client, client.Options{Namespace: namespace})
	require.NoError(s.t, err)
	w := worker.New(there, s.queue, worker.Options{})
	for name, function := range workflows {
		w.RegisterWorkflowWithOptions(function, workflow.RegisterOptions{Name: name})
	}
	// The server's caches learn of a new namespace within seconds; until then a worker cannot start.
	await(s.t, time.Minute, func() bool { return w.Start() == nil }, "a worker starts in the new namespace")
	s.t.Cleanup(w.Stop)
	return there
}

func TestAMissingNamespaceHoldsUpItsOwnItemsOnlyUntilItIsRegistered(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	missing := "shop-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	s.define(s.workspace["PRO"], "Elsewhere", "Echo", s.queue)
	s.exec("update pgdispatch.workflow_definitions set namespace = $1 where name = 'Elsewhere'", missing)
	elsewhere := s.enqueue("PRO", "Elsewhere", 10)
	p := s.replica(anyPort).ready()
	here := append(s.enqueue("PRO", "Echo", 10), s.enqueue("ENTERPRISE", "Echo", 10)...)

	s.eventually(func() bool {
		return s.count("status = 'COMPLETED'") == 20
	}, "items of the other namespace complete, even in the same workspace")
	s.eventually(func() bool {
		return s.count("status = 'PENDING' and not outcome_unknown and attempt_count = 0 and failure_count = 0") == 10
	}, "no failures are counted; one item may be leased for a probe")
	said := p.Log()
	require.Equal(t, 1, strings.Count(said, "Temporal does not accept workflows"), "one outage is logged once")
	require.Contains(t, said, `temporal operator namespace create --namespace \"`+missing+`\"`)
	_, ready := p.get("/readyz")
	require.Equal(t, "ready\n", ready, "the replica starts workflows")
	require.InDelta(t, 1, sample(p.scrape(), "pgdispatch_namespaces_paused", ""), 0)

	there := s.register(missing)
	s.eventually(func() bool {
		return s.count("status = 'COMPLETED'") == 30
	}, "the waiting items start, and their ends are recorded")
	s.requireOneRunEach(here)
	for _, execution := range elsewhere {
		require.Equal(t, missing,
			one[string](s, "select namespace from pgdispatch.workflow_executions where id = $1", execution))
		_, err := there.WorkflowService().DescribeWorkflowExecution(t.Context(),
			&workflowservice.DescribeWorkflowExecutionRequest{
				Namespace: missing, Execution: &commonpb.WorkflowExecution{WorkflowId: "execution-" + execution},
			})
		require.NoError(t, err)
	}
	require.InDelta(t, 0, sample(p.scrape(), "pgdispatch_namespaces_paused", ""), 0)
}

func TestAReplicaIsReadyOnlyOnceItsOwnNamespaceExists(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	missing := "shop-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	s.define(s.workspace["PRO"], "Elsewhere", "Echo", s.queue)
	s.exec("update pgdispatch.workflow_definitions set namespace = 'default' where name = 'Elsewhere'")
	p := s.replica(anyPort, "TEMPORAL_NAMESPACE="+missing).ready()
	remedy := `register it (temporal operator namespace create --namespace "` + missing + `")`
	readyz := func(want string) {
		t.Helper()
		s.eventually(func() bool { _, text := p.get("/readyz"); return strings.Contains(text, want) }, want)
	}
	readyz("not ready\ntemporal: Temporal has no namespace \"" + missing + "\": " + remedy)
	s.eventually(func() bool { return sample(p.scrape(), "pgdispatch_namespaces_paused", "") == 1 }, "the metric shows it")

	s.enqueue("PRO", "Elsewhere", 3)
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == 3 }, "items of another namespace complete")
	status, _ := p.get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.InDelta(t, 0, sample(p.scrape(), "pgdispatch_breaker_open", ""), 0, "it starts workflows elsewhere")
	require.Equal(t, 1, strings.Count(p.Log(), "Temporal refuses this replica's namespace"), "logged once")

	s.register(missing)
	readyz("ready\n")
	s.eventually(func() bool { return sample(p.scrape(), "pgdispatch_namespaces_paused", "") == 0 }, "nothing is paused")
	s.enqueue("PRO", "Echo", 1)
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == 4 }, "items of the new namespace start")
	require.Equal(t, 1, strings.Count(p.Log(), "Temporal refuses this replica's namespace"))
	require.Equal(t, 1, strings.Count(p.Log(), "Temporal accepts this replica's namespace"))
}

func TestADefinitionsMissingNamespaceDoesNotMakeAReplicaUnready(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.exec("update pgdispatch.workflow_definitions set namespace = $1",
		"shop-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	p := s.replica(anyPort).ready()
	s.enqueue("PRO", "Echo", 1)
	s.eventually(func() bool {
		return p.has("Temporal does not accept workflows; pausing starts and probing. " +
			"Items stay queued and no attempt is counted")
	}, "the definition's namespace is reported")
	s.eventually(func() bool { return sample(p.scrape(), "pgdispatch_namespaces_paused", "") == 1 }, "it is paused")
	_, ready := p.get("/readyz")
	require.Equal(t, "ready\n", ready, "the replica's own namespace accepts workflows")
	require.InDelta(t, 0, sample(p.scrape(), "pgdispatch_breaker_open", ""), 0)
}

// Ends that are not long-polled are found by listing closed workflows in each namespace.
func TestEndsInEveryNamespaceAreFoundWithoutLongPolls(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	other := "other-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	s.register(other)
	s.define(s.workspace["PRO"], "Elsewhere", "Echo", s.queue)
	s.exec("update pgdispatch.workflow_definitions set namespace = $1 where name = 'Elsewhere'", other)
	s.enqueue("PRO", "Elsewhere", 3)
	s.enqueue("PRO", "Echo", 2)
	s.replica("PGDISPATCH_MAX_WATCHES=0").ready()
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == 5 }, "all ends are recorded")
	s.eventually(func() bool {
		return one[int](s, "select count(*) from pgdispatch.close_lists") == 2
	}, "each namespace has a list position")
}
