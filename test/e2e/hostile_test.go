package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/stretchr/testify/require"
)

const (
	// escapes would clear a terminal, set its title and forge log lines.
	escapes = "\x1b[2J\x1b]0;owned\x07\r\n{\"level\":\"INFO\",\"msg\":\"forged\"}\x7f\u009b31m"
	// sneaky contains no control characters, but a reversed direction, a line separator and a zero-width character.
	sneaky = "\u202egnp.exe\u2028\u200b"
)

// hostileDesk has a failed item and a waiting item, with hostile text in every column that accepts text.
func hostileDesk(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t)
	d.dead(d.workspace, 1, "broken")
	d.enqueues()
	tx, err := d.db.Begin(t.Context())
	require.NoError(t, err)
	set := func(statement string, args ...any) {
		_, err := tx.Exec(t.Context(), statement, args...)
		require.NoError(t, err, statement)
	}
	set("set local session_replication_role = replica")
	set("update pgdispatch.workspaces set name = $1", sneaky)
	set("update pgdispatch.workflow_definitions set name = $1, workflow_type = $1, task_queue = $1", sneaky)
	set(`update pgdispatch.workflow_execution_queue set idempotency_key = id
		|| $1, traceparent = $1, params = jsonb_build_object($1::text, $1::text),
		last_error = $1, claimed_by = case status when 'CLAIMED' then $1 end`, escapes+sneaky)
	set("update pgdispatch.workflow_executions set run_id = $1, error = $1, watcher = $1", escapes+sneaky)
	set("update pgdispatch.item_failures set error = $1, replica = $1", escapes+sneaky)
	set("insert into pgdispatch.replicas (id, version, workers, expires_at) values ($1, $1, 1, now() + interval '1 hour')",
		escapes+sneaky)
	set("insert into pgdispatch.admin_log (who, action, subject, details) "+
		"values ($1, $2, $2, jsonb_build_object($2::text, $2::text))", sneaky, escapes+sneaky)
	require.NoError(t, tx.Commit(t.Context()))
	return d
}

// Whatever the rows contain, output has no terminal escapes and no forged lines.
func TestNoCommandShowsATerminalWhatItWouldObey(t *testing.T) {
	t.Parallel()
	d := hostileDesk(t)
	failed := d.value("select id::text from pgdispatch.workflow_execution_queue where status = 'FAILED'")
	for _, command := range []string{
		"status", "items list", "items show " + failed, "dead list", "dead show " + failed, "workspaces list",
		"workspaces show " + d.workspace,
		"executions show " + failed, "audit list", "doctor --temporal-address " + nowhere, "enqueue order --workspace " +
			d.workspace,
		"enqueue " + sneaky + " --workspace " + d.workspace, "items show \x1b[2J", "workspaces show \u009b31m",
		"dead list --workspace \x1b]0;x\x07", "items list --state \x1b[2J",
	} {
		for _, output := range []string{"table", "json"} {
			out, errs, _ := d.tries(append(strings.Split(command, " "), "--output", output)...)
			require.NotEmpty(t, out+errs, command)
			for _, r := range strings.ReplaceAll(out, "\n", "") + strings.NewReplacer("\n", "", "\t", "").Replace(errs) {
				require.True(t, unicode.IsPrint(r), "%s --output %s shows %U", command, output, r)
			}
			if output == "json" && out != "" {
				require.True(t, json.Valid([]byte(out)), out)
				continue
			}
			require.NotRegexp(t, `(?m)^{"level"`, out, command)
			if strings.HasSuffix(command, " show "+failed) {
				require.Contains(t, out, "\uFFFD[2J", "what is not shown is marked")
			}
		}
	}
	var list []struct {
		LastError string `json:"last_error"`
	}
	require.NoError(t, json.Unmarshal([]byte(d.types("items", "list", "--state", "failed", "-o", "json")), &list))
	require.Equal(t, escapes+sneaky, list[0].LastError, "JSON contains the original text")
}

func TestALogLineStaysOneLineWhateverIsInIt(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	log.Error("Cannot watch an execution", "error", errors.New(escapes+sneaky), "workspace_id", escapes)
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.NotContains(t, out.String(), "\x1b")
	var line map[string]string
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "Cannot watch an execution", line["msg"])
	for _, r := range postgres.Clean(escapes + sneaky) {
		require.False(t, unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r), "%U", r)
	}
}

// Postgres puts row values into an error's detail, hint or context. None of them gets into an error's text, a log or
// last_error.
func TestWhatAnErrorOfPostgresSaysOfARowIsNotLogged(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, statement := range []string{
		// a foreign key: Key (plan)=(SECRET)
		"insert into pgdispatch.workspaces (name, plan) values ('x', 'SECRET')",
		// a check: the failing row
		"insert into pgdispatch.workspaces (name, max_concurrent_workflows) values ('SECRET', -1)",
		"insert into pgdispatch.workspaces (id, name) select id, 'SECRET' from pgdispatch.workspaces", // a key
		// not null: the failing row
		"insert into pgdispatch.workspaces (name) values (null) returning 'SECRET'",
		// a user-defined trigger
		"do $$ begin raise exception 'broken' using detail = 'SECRET', hint = 'SECRET', column = 'SECRET'; end; $$",
		"do $$ begin execute 'select 1/0, ''SECRET'''; end; $$", // the context
	} {
		_, err := d.db.Exec(t.Context(), statement)
		require.Error(t, err)
		var out bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&out, nil))
		log.Error("Cannot sweep", "error", postgres.WithRemedy(err))
		log.Error("Cannot sweep", "error", err)
		require.Contains(t, out.String(), "SQLSTATE", statement)
		require.NotContains(t, out.String()+postgres.Clean(err.Error())+postgres.Redact(err).Error(), "SECRET", statement)
	}
}
