package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRetentionIsSetReadAndSwitchedOff(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const rest, last = "max-claims 100\npaused false\n", "result-bytes 4096\nworkflow-id-bytes 255\nnotify-ended false\n"
	require.Equal(t, rest+"retention off\ndead-letter-retention off\n"+last, d.types("settings", "get"))
	require.Equal(t, "retention was off and is 30d\n\n"+rest+
		"retention 30d\ndead-letter-retention off\n"+last,
		d.types("settings", "set", "retention", "30d"))
	require.Equal(t, "dead-letter-retention was off and is 36h0m0s\n\n"+rest+
		"retention 30d\ndead-letter-retention 36h0m0s\n"+last,
		d.types("settings", "set", "dead-letter-retention", "36h"))
	require.Equal(t, "retention was 30d and is off\n\n"+rest+
		"retention off\ndead-letter-retention 36h0m0s\n"+last,
		d.types("settings", "set", "retention", "off"))
	require.Contains(t, d.types("settings", "set", "max-claims", "7"), "dead-letter-retention 36h0m0s")
	d.exec("update pgdispatch.settings set retention = '1 month'")
	require.Contains(t, d.types("settings", "get"), "\nretention 30d\n", "Postgres counts a month as 30 days")
	for _, value := range []string{"0", "0d", "59s", "-1d", "30", "1.5d", "36501d", "9999999h", "forever", "", "1d\n"} {
		_, errs, code := d.tries("settings", "set", "retention", "--", value)
		require.Equal(t, 1, code, "%q", value)
		require.Equal(t,
			fmt.Sprintf("pgdispatch: retention is %q: it must be off, or from 1m to 36500d, such as 12h or 30d\n", value), errs)
	}
}

func TestResultBytesAreSetWithinBounds(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	require.Contains(t, d.types("settings", "set", "result-bytes", "0"), "result-bytes 0\n")
	require.Equal(t, `{"result_bytes": [4096, 0]}`, d.value("select details::text from pgdispatch.admin_log"))
	_, errs, _ := d.tries("settings", "set", "result-bytes", "65537")
	require.Equal(t, "pgdispatch: result-bytes is \"65537\": it must be a whole number from 0 to 65536\n", errs)
}

func TestAReplicaDeletesWhatIsOverAndSaysSo(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.exec("update pgdispatch.settings set retention = '1 minute'")
	s.exec(
		"insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id) select workspace_id, id " +
			"from pgdispatch.workflow_definitions where name = 'Echo'")
	s.exec("select pgdispatch.cancel(execution_id) from pgdispatch.workflow_execution_queue")
	s.exec("set session_replication_role = replica; update pgdispatch.workflow_execution_queue " +
		"set created_at = now() - interval '1 hour', finished_at = now() - interval '1 hour'")
	p := s.replica()
	s.eventually(func() bool { return p.has("Deleted finished items") }, "the items are deleted")
	require.Zero(t, one[int](s, "select count(*)::int from pgdispatch.workflow_execution_queue"))
}
