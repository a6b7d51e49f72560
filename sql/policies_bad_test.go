package sql_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

func TestEnqueueNamesTheArgumentThatIsWrong(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.enqueue(w, 1, "key => 'held'")
	for _, bad := range []struct{ arguments, code, says string }{
		{"key => ''", "PGD50", "key has 0 characters"},
		{"key => repeat('k', 201)", "PGD50", "key has 201 characters"},
		{"on_conflict => 'skip'", "PGD50", "on_conflict, quiet and at_most need a key"},
		{"quiet => '1 s'", "PGD50", "need a key"},
		{"key => 'a', on_conflict => 'SKIP'", "PGD51", "on_conflict is SKIP: it must be skip, replace or debounce"},
		{"key => 'a', quiet => '1 s'", "PGD51", "quiet and at_most are for debounce, and on_conflict is skip"},
		{"key => 'a', on_conflict => 'replace', at_most => '1 s'", "PGD51", "on_conflict is replace"},
		{"key => 'a', on_conflict => 'debounce'", "PGD52", "quiet is null"},
		{"key => 'a', on_conflict => 'debounce', quiet => '0'", "PGD52", "quiet is 00:00:00"},
		{"key => 'a', on_conflict => 'debounce', quiet => '-1 s'", "PGD52", "quiet is -00:00:01"},
		{"key => 'a', on_conflict => 'debounce', quiet => '2 years'", "PGD52", "quiet is 2 years"},
		{"key => 'a', on_conflict => 'debounce', quiet => '5 s', at_most => '4 s'", "PGD52", "at_most is 00:00:04"},
		{"key => 'a', on_conflict => 'debounce', quiet => '5 s', at_most => '2 years'", "PGD52", "at_most is 2 years"},
		{"key => 'a', on_conflict => 'debounce', quiet => '5 s', run_at => now()", "PGD53", "run_at must not be given"},
		{"priority => 101", "PGD06", "priority 101"},
		{"run_at => 'infinity'", "PGD08", "run_at infinity"},
		{"traceparent => 'x'", "PGD10", "traceparent"},
		{`start_options => '{"x": 1}'`, "PGD11", "start_options has no field x"},
		// Although nothing would be inserted.
		{"key => 'held', priority => 101", "PGD06", "priority 101"},
		{"key => 'held', traceparent => 'x'", "PGD10", "traceparent"},
		{`key => 'held', start_options => '{"x": 1}'`, "PGD11", "start_options has no field x"},
		{"key => 'held', on_conflict => 'replace', priority => 101", "PGD06", "priority 101"},
	} {
		_, err := f.tryEnqueue(w, "{}", bad.arguments)
		require.Error(t, err, bad.arguments)
		refusal := f.pgError(err)
		require.Equal(t, bad.code, refusal.Code, bad.arguments)
		require.Contains(t, refusal.Message, bad.says)
		require.NotEmpty(t, refusal.Hint, bad.arguments)
	}
	require.Equal(t, 1, one[int](f, "select count(*) from pgdispatch.workflow_execution_queue"))
}

func TestEnqueueRefusesParamsAndDefinitionsAsAnInsertDoes(t *testing.T) {
	t.Parallel()
	f := open(t)
	w, other := f.tenant("PRO"), f.tenant("PRO")
	second, _ := f.definition(w.workspace, "second")
	f.enqueue(w, 1, "key => 'held'")
	for _, key := range []string{"", "key => 'new'", "key => 'held'", "key => 'held', on_conflict => 'replace'"} {
		for _, bad := range []struct {
			w            tenant
			params, code string
		}{
			{w, "[1]", "PGD04"}, {w, `{"a": "` + strings.Repeat("x", 2<<20) + `"}`, "PGD05"},
			{tenant{workspace: nobody, definition: w.definition}, "{}", "PGD01"},
			{tenant{workspace: w.workspace, definition: nobody}, "{}", "PGD02"},
			{tenant{workspace: w.workspace, definition: other.definition}, "{}", "PGD03"},
		} {
			_, err := f.tryEnqueue(bad.w, bad.params, key)
			require.Error(t, err, "%s %s", key, bad.code)
			require.Equal(t, bad.code, f.pgError(err).Code, key)
		}
	}
	_, err := f.tryEnqueue(tenant{workspace: w.workspace, definition: second}, "{}", "key => 'held'")
	require.Equal(t, "PGD54", f.pgError(err).Code, "it would wait for work of another kind")
	require.Equal(t, "PGD01", f.refused("select pgdispatch.enqueue(null, null, key => 'a')").Code)
	require.Equal(t, "23502", f.refused("select pgdispatch.enqueue(null, $1)", w.definition).Code)
}

// A row that the application's own trigger suppresses must not make enqueue try forever.
func TestEnqueueEndsWhenATriggerSuppressesTheRow(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	f.exec(`create function suppress() returns trigger language plpgsql as 'begin return null; end'`)
	f.exec(`create trigger suppress before insert on pgdispatch.workflow_execution_queue for each row
		execute function suppress()`)
	var id pgtype.Int8
	var action pgtype.Text
	require.NoError(t, f.db.QueryRow(t.Context(), "select id, action from pgdispatch.enqueue($1, $2, key => 'a')",
		w.workspace, w.definition).Scan(&id, &action))
	require.False(t, id.Valid || action.Valid)
}
