package temporal

import (
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/stretchr/testify/require"
)

// optioned returns the request of an item with these start options.
func optioned(t *testing.T, options string) (*startRequest, error) {
	t.Helper()
	service, start := &startService{}, anItem()
	start.Options = []byte(options)
	_, err := starterOn(service).Start(t.Context(), start)
	if err != nil {
		require.Empty(t, service.started)
		return nil, err
	}
	return service.started[0], nil
}

func TestStartOptionsAreSentAsTemporalTypesThem(t *testing.T) {
	t.Parallel()
	r, err := optioned(t, `{
		"retry_policy": {"initial_interval": "2s", "backoff_coefficient": 1.5, "maximum_interval": "1m",
			"maximum_attempts": 4,
			"non_retryable_error_types": ["Declined"]},
		"workflow_run_timeout": "90m", "workflow_task_timeout": "15s",
		"search_attributes": {"CustomerId": "c-1", "Total": 12.5, "Tags": ["a", "b"]}, "memo": {"source": {"page": 3}},
		"priority": {"priority_key": 2, "fairness_key": "acme", "fairness_weight": 2.5},
		"versioning_override": {"pinned": {"deployment_name": "orders", "build_id": "b7"}},
		"static_summary": "Order 17", "static_details": "*of* Acme",
		"workflow_type": "Other", "task_queue": "special", "allow_overrides": ["task_queue"]}`)
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, r.RetryPolicy.InitialInterval.AsDuration())
	require.InDelta(t, 1.5, r.RetryPolicy.BackoffCoefficient, 0)
	require.Equal(t, time.Minute, r.RetryPolicy.MaximumInterval.AsDuration())
	require.EqualValues(t, 4, r.RetryPolicy.MaximumAttempts)
	require.Equal(t, []string{"Declined"}, r.RetryPolicy.NonRetryableErrorTypes)
	require.Equal(t, 90*time.Minute, r.WorkflowRunTimeout.AsDuration())
	require.Equal(t, 15*time.Second, r.WorkflowTaskTimeout.AsDuration())
	require.JSONEq(t, `["a", "b"]`, string(r.SearchAttributes.IndexedFields["Tags"].Data))
	require.Equal(t, "12.5", string(r.SearchAttributes.IndexedFields["Total"].Data))
	require.JSONEq(t, `{"page": 3}`, string(r.Memo.Fields["source"].Data))
	require.Contains(t, r.Memo.Fields, memoKey, "pgdispatch's memo entry stays")
	require.EqualValues(t, 2, r.Priority.PriorityKey)
	require.Equal(t, "acme", r.Priority.FairnessKey)
	require.Equal(t, "b7", r.VersioningOverride.GetPinned().Version.BuildId)
	require.Equal(t, `"Order 17"`, string(r.UserMetadata.Summary.Data))
	require.Equal(t, `"*of* Acme"`, string(r.UserMetadata.Details.Data))
	require.Equal(t, "Other", r.WorkflowType.Name)
	require.Equal(t, "special", r.TaskQueue.Name)
	require.Equal(t, WorkflowID(anItem().ID), r.WorkflowId, "the identity stays")
}

func TestWithoutStartOptionsTemporalsDefaultsApply(t *testing.T) {
	t.Parallel()
	for _, options := range []string{"", "{}"} {
		r, err := optioned(t, options)
		require.NoError(t, err)
		require.Nil(t, r.RetryPolicy)
		require.Nil(t, r.WorkflowRunTimeout)
		require.Nil(t, r.SearchAttributes)
		require.Nil(t, r.Priority)
		require.Nil(t, r.VersioningOverride)
		require.Nil(t, r.UserMetadata)
		require.Len(t, r.Memo.Fields, 1)
	}
	r, err := optioned(t, `{"versioning_override": {"auto_upgrade": true}}`)
	require.NoError(t, err)
	require.True(t, r.VersioningOverride.GetAutoUpgrade())
}

// The database rejects these, but a row may be older than its checks.
func TestStartOptionsThatCannotBeReadFailTheItem(t *testing.T) {
	t.Parallel()
	for options, message := range map[string]string{
		`{"workflow_id": "mine"}`:                    "workflow_id",
		`{"workflow_run_timeout": "1 day"}`:          "1 day",
		`{"memo": {"pgdispatch_execution_id": "x"}}`: "memo.pgdispatch_execution_id is set by pgdispatch",
		`[`: "start_options",
	} {
		_, err := optioned(t, options)
		require.ErrorContains(t, err, message)
		require.Equal(t, engine.Permanent, Classify(err))
	}
}
