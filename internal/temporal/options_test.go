package temporal

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
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
	r := must.Get(optioned(t, `{
		"retry_policy": {"initial_interval": "2s", "backoff_coefficient": 1.5, "maximum_interval": "1m",
			"maximum_attempts": 4,
			"non_retryable_error_types": ["Declined"]},
		"workflow_run_timeout": "90m", "workflow_task_timeout": "15s",
		"search_attributes": {"CustomerId": "c-1", "Total": 12.5, "Tags": ["a", "b"]}, "memo": {"source": {"page": 3}},
		"priority": {"priority_key": 2, "fairness_key": "acme", "fairness_weight": 2.5},
		"versioning_override": {"pinned": {"deployment_name": "orders", "build_id": "b7"}},
		"static_summary": "Order 17", "static_details": "*of* Acme",
		"workflow_type": "Other", "task_queue": "special", "allow_overrides": ["task_queue"]}`)).In(t)
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
		r := must.Get(optioned(t, options)).In(t)
		require.Nil(t, r.RetryPolicy)
		require.Nil(t, r.WorkflowRunTimeout)
		require.Nil(t, r.SearchAttributes)
		require.Nil(t, r.Priority)
		require.Nil(t, r.VersioningOverride)
		require.Nil(t, r.UserMetadata)
		require.Len(t, r.Memo.Fields, 1)
	}
	r := must.Get(optioned(t, `{"versioning_override": {"auto_upgrade": true}}`)).In(t)
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

func TestMain(m *testing.M) { sqltest.Main(m) }

// someOptions returns start options at random: mostly known fields, with values at and beyond their bounds.
func someOptions(r *rand.Rand) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	number := func() string {
		return pick("0", "1", "2", "1.5", "-1", "1e400", "1e-400", "-0", "2147483647", "2147483648", "0.001", "1000",
			"1000000", "0.0005",
			"1.0", "99999999999")
	}
	length := func() string {
		return `"` + pick("0", "1", "15", "999999999", "1000000000", "1.5", "0.000001", "0.0000001", "87600", "-1", "") +
			pick("s", "m", "h", "ms", "us", "", "d") + `"`
	}
	text := func() string {
		return pick(`""`, `"x"`, `"`+strings.Repeat("k", 64)+`"`, `"`+strings.Repeat("k", 65)+`"`, `"a\tb"`, `"/_sys/x"`,
			`"ö"`, `"\ud83d\ude00"`)
	}
	odd := func() string {
		return pick("null", "true", "false", "[]", "{}", `{"a": [1, {"b": null}]}`, `[1]`, `["x"]`, number(), text(),
			length())
	}
	object := func(fields map[string]func() string) string {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			value := fields[name]
			if r.IntN(3) > 0 {
				continue
			}
			if r.IntN(25) == 0 {
				value = odd
			}
			if r.IntN(60) == 0 {
				name = pick(strings.ToUpper(name), name+"x", "")
			}
			key, _ := json.Marshal(name)
			all = append(all, string(key)+": "+value())
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	nested := func(fields map[string]func() string) func() string { return func() string { return object(fields) } }
	return object(map[string]func() string{
		"workflow_run_timeout": length, "workflow_task_timeout": length, "static_summary": text, "static_details": text,
		"workflow_type": text, "task_queue": text,
		"allow_overrides": func() string {
			return pick(`["workflow_type"]`, `["task_queue", "workflow_type"]`, `["memo"]`, `[]`, `[1]`)
		},
		"retry_policy": nested(map[string]func() string{"initial_interval": length, "maximum_interval": length,
			"backoff_coefficient": number, "maximum_attempts": number,
			"non_retryable_error_types": func() string {
				return pick(`["Declined"]`, `[]`, `[1]`, `["TemporalTimeout:StartToClose"]`, `["TemporalTimeout:No"]`)
			}}),
		"priority": nested(map[string]func() string{"priority_key": number, "fairness_key": text, "fairness_weight": number}),
		"versioning_override": nested(map[string]func() string{"auto_upgrade": func() string { return pick("true", "false") },
			"pinned": nested(map[string]func() string{"deployment_name": text, "build_id": text})}),
		"memo":              nested(map[string]func() string{"a": odd, "b": odd, memoKey: odd}),
		"search_attributes": nested(map[string]func() string{"Total": number, "Customer": text, "Tags": odd}),
	})
}

// PGDISPATCH_OPTIONS sets how many are tried.
func TestTheReplicaReadsAllStartOptionsThatAnInsertAccepts(t *testing.T) {
	t.Parallel()
	tries := 20_000
	if more, err := strconv.Atoi(os.Getenv("PGDISPATCH_OPTIONS")); err == nil {
		tries = more
	}
	pool := sqltest.Pool(t, sqltest.URL(t))
	must.Get(pool.Exec(t.Context(), `create function public.accepts(options text) returns boolean language plpgsql as $$
		begin
			return pgdispatch.check_start_options(options::jsonb, '{"allow_overrides": ["workflow_type", "task_queue"]}', false);
		exception when sqlstate 'PGD11' or invalid_text_representation or numeric_value_out_of_range then
			return false;
		end $$`)).In(t)
	r, accepted := rand.New(rand.NewPCG(1, 2)), 0
	for tried := 0; tried < tries; tried += 1000 {
		all := make([]string, 1000)
		for n := range all {
			all[n] = someOptions(r)
		}
		rows := must.Get(pool.Query(t.Context(),
			"select o.text, (o.text::jsonb)::text from unnest($1::text[]) as o (text) where public.accepts(o.text)", all)).In(t)
		var given, stored string
		for rows.Next() {
			require.NoError(t, rows.Scan(&given, &stored))
			accepted++
			_, err := optioned(t, stored)
			require.NoError(t, err, given)
		}
		require.NoError(t, rows.Err())
	}
	t.Logf("%d of %d are accepted", accepted, tries)
	require.Greater(t, accepted, tries/20)
	require.Less(t, accepted, tries*9/10)
}
