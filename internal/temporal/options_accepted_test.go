package temporal

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

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
		for name, value := range fields {
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
	_, err := pool.Exec(t.Context(), `create function public.accepts(options text) returns boolean language plpgsql as $$
		begin
			return pgdispatch.check_start_options(options::jsonb, '{"allow_overrides": ["workflow_type", "task_queue"]}', false);
		exception when sqlstate 'PGD11' or invalid_text_representation or numeric_value_out_of_range then
			return false;
		end $$`)
	require.NoError(t, err)
	r, accepted := rand.New(rand.NewPCG(1, 2)), 0
	for tried := 0; tried < tries; tried += 1000 {
		all := make([]string, 1000)
		for n := range all {
			all[n] = someOptions(r)
		}
		rows, err := pool.Query(t.Context(),
			"select o.text, (o.text::jsonb)::text from unnest($1::text[]) as o (text) where public.accepts(o.text)", all)
		require.NoError(t, err)
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
