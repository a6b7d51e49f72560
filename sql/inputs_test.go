package sql_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const insertParams = `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params)
	values ($1, $2, $3) returning id`

// like makes the tenant's definition one without a version, with these columns.
func (f fixture) like(w tenant, columns string) {
	f.t.Helper()
	f.exec("delete from pgdispatch.workflow_definition_versions where workflow_definition_id = $1", w.definition)
	f.exec("update pgdispatch.workflow_definitions set "+columns+" where id = $1", w.definition)
}

func TestParamsMustHaveTheFormThatTheInputNeeds(t *testing.T) {
	t.Parallel()
	const object, array = "params must be a JSON object", "params must be a JSON array of at most 100 elements"
	for _, c := range []struct{ input, params, problem string }{
		{"envelope", `[]`, object}, {"envelope", `{"a": 1}`, ""}, {"params", `"a"`, object}, {"params", `{"a": 1}`, ""},
		{"args", `{}`, array + ", because the input of the definition is args, not object"},
		{"args", "[0" + strings.Repeat(", 1", 100) + "]",
			array + ", because the input of the definition is args, not 101 elements"},
		{"args", `[]`, ""}, {"args", `[1, "two", {"three": null}, null]`, ""},
		{"payloads", `{"data": ""}`, array}, {"payloads", `[]`, ""},
		{"payloads", `[{}, 1]`, "params[1] is not a payload"},
		{"payloads", `[{"data": 1}]`, "params[0] is not a payload"},
		{"payloads", `[{"data": "a"}]`, "params[0] is not a payload"},
		{"payloads", `[{"data": "YQ=="}, {}, {"data": "YQ==", "more": ""}]`, "params[2] is not a payload"},
		{"payloads", `[{"metadata": "YQ=="}]`, "params[0] is not a payload"},
		{"payloads", `[{"metadata": {"encoding": "json/plain"}}]`, "params[0] is not a payload"},
		{"payloads", `[{"metadata": {"encoding": {}}}]`, "params[0] is not a payload"},
		{"payloads", `[{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": "MQ=="}]`, ""},
	} {
		t.Run(c.input+" "+c.params[:min(len(c.params), 40)], func(t *testing.T) {
			t.Parallel()
			f := open(t)
			w := f.tenant("ENTERPRISE")
			f.like(w, "input = '"+c.input+"'")
			if c.input == "envelope" {
				f.version(w.definition, 1, `{"nodes": []}`)
			}
			enqueue := "select id from pgdispatch.enqueue($1, $2, $3, 'key')"
			if c.problem != "" {
				for _, insert := range []string{insertParams, enqueue} {
					refused := f.refused(insert, w.workspace, w.definition, c.params)
					require.Equal(t, "PGD04", refused.Code)
					require.Contains(t, refused.Message, c.problem)
					require.NotEmpty(t, refused.Hint)
				}
				return
			}
			f.exec(insertParams, w.workspace, w.definition, c.params)
			f.exec(enqueue, w.workspace, w.definition, c.params)
			for _, item := range f.claim(10).items {
				require.JSONEq(t, c.params, *item.Params)
				require.Equal(t, c.input, item.Input)
				require.Nil(t, item.Problem)
				require.Equal(t, 1, one[int](f, "select count(*) from pgdispatch.workflow_executions where id = $1::text::uuid",
					*item.ExecutionID), "a start may be sent")
			}
		})
	}
}

func TestStartOptionsAreCheckedWhateverTheInput(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.like(w, "input = 'args'")
	refused := f.refused(`insert into pgdispatch.workflow_execution_queue
		(workspace_id, workflow_definition_id, params, start_options) values ($1, $2, '[]', '{"no": 1}')`,
		w.workspace, w.definition)
	require.Equal(t, "PGD11", refused.Code)
}

func TestParamsOfAWaitingItemKeepTheFormOfItsInput(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.like(w, "input = 'args'")
	id := one[int64](f, insertParams, w.workspace, w.definition, "[1]")
	f.exec("update pgdispatch.workflow_execution_queue set params = '[2]' where id = $1", id)
	refused := f.refused("update pgdispatch.workflow_execution_queue set params = '{}' where id = $1", id)
	require.Equal(t, "PGD04", refused.Code)
}

func TestItemsHaveTheLimitKeyOfTheirDefinition(t *testing.T) {
	t.Parallel()
	const given, none = "given", ""
	for name, c := range map[string]struct{ columns, params, limitKey, want string }{
		"constant":           {"limit_key = 'smtp'", `{}`, none, "smtp"},
		"constant and args":  {"limit_key = 'smtp', input = 'args'", `[]`, none, "smtp"},
		"own key":            {"limit_key = 'smtp'", `{}`, given, given},
		"param":              {"limit_key_param = 'customer'", `{"customer": "acme"}`, none, "acme"},
		"number":             {"limit_key_param = 'customer'", `{"customer": 12.50}`, none, "12.50"},
		"boolean":            {"limit_key_param = 'customer'", `{"customer": false}`, none, "false"},
		"null":               {"limit_key_param = 'customer'", `{"customer": null}`, none, none},
		"no such param":      {"limit_key_param = 'customer'", `{"Customer": "acme"}`, none, none},
		"own key, not param": {"limit_key_param = 'customer'", `{"customer": {}}`, given, given},
		"param of an array":  {"limit_key_param = 'customer', input = 'args'", `["customer"]`, none, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			w := f.tenant("FREE")
			f.exec("update pgdispatch.workflow_definitions set "+c.columns+" where id = $1", w.definition)
			f.exec(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, limit_key)
				values ($1, $2, $3, nullif($4, ''))`, w.workspace, w.definition, c.params, c.limitKey)
			require.Equal(t, c.want,
				one[string](f, "select coalesce(limit_key, '') from pgdispatch.workflow_execution_queue"))
			require.Len(t, f.claim(10).items, 1, "the replica's memory finds it under its key")
		})
	}
}

func TestALimitOfADefinitionsKeyHoldsForItsItems(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("ENTERPRISE")
	f.exec("update pgdispatch.workflow_definitions set limit_key = 'smtp' where id = $1", w.definition)
	f.exec("insert into pgdispatch.limits (key, max_concurrent) values ('smtp', 3)")
	f.items(w, 10)
	require.Len(t, f.claimAll(10).items, 3)
}

func TestALimitKeyOfParamsThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	f.exec("update pgdispatch.workflow_definitions set limit_key_param = 'customer' where id = $1", w.definition)
	long := strings.Repeat("x", 201)
	for params, problem := range map[string]string{
		`{"customer": ["acme"]}`:       "params.customer is the limit key of workflow definition",
		`{"customer": ""}`:             "params.customer has 0 characters: a limit key must have 1 to 200",
		`{"customer": "` + long + `"}`: "params.customer has 201 characters",
	} {
		refused := f.refused(insertParams, w.workspace, w.definition, params)
		require.Equal(t, "PGD12", refused.Code)
		require.Contains(t, refused.Message, problem)
	}
	require.Zero(t, f.left())
}

func TestADefinitionWithTwoLimitKeysOrAnUnknownInputIsRefused(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	for columns, problem := range map[string]string{
		"limit_key = 'a', limit_key_param = 'b'": "a definition has limit_key or limit_key_param",
		"limit_key = ''":                         "limit_key of workflow_definitions is",
		"input = 'soap'":                         "it must be envelope, params, args or payloads",
	} {
		refused := f.refused("update pgdispatch.workflow_definitions set "+columns+" where id = $1", w.definition)
		require.Equal(t, "23514", refused.Code)
		require.Contains(t, refused.Message, problem)
	}
}

func TestEnqueueNamedTakesTheNamesOfWorkspaceAndDefinition(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("FREE")
	const named = "select execution_id::text from pgdispatch.enqueue_named('tenant on FREE', 'report', '{\"a\": 1}')"
	execution := one[string](f, named)
	item := f.claim(1).items[0]
	require.Equal(t, execution, *item.ExecutionID)
	require.Equal(t, w.workspace, *item.WorkspaceID)
	require.JSONEq(t, `{"a": 1}`, *item.Params)

	const all = `select action from pgdispatch.enqueue_named('tenant on FREE', 'report', '{}', key => 'k',
		on_conflict => 'debounce', quiet => '1 min', at_most => '2 min', priority => 7, start_options => '{"memo": {}}',
		traceparent => '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', limit_key => 'l')`
	require.Equal(t, "inserted", one[string](f, all))
	require.Equal(t, "debounced", one[string](f, all))

	f.tenant("FREE")
	for statement, code := range map[string]string{
		"select pgdispatch.enqueue_named('tenant on FREE', 'report')": "PGD01", // there are two
		"select pgdispatch.enqueue_named('Tenant on FREE', 'report')": "PGD01",
		"select pgdispatch.enqueue_named(null, 'report')":             "PGD01",
	} {
		require.Equal(t, code, f.refused(statement).Code, statement)
	}
	f.tenant("PRO")
	for _, definition := range []string{"'Report'", "null"} {
		refused := f.refused("select pgdispatch.enqueue_named('tenant on PRO', " + definition + ")")
		require.Equal(t, "PGD02", refused.Code)
		require.Contains(t, refused.Message, "workspace 'tenant on PRO' has no workflow definition")
	}
}
