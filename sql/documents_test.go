package sql_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// sqlBlock is a block of SQL on a page, with the roles that may run it behind the language.
var sqlBlock = regexp.MustCompile("(?ms)^```sql([^\n]*)\n(.*?)^```$")

// Every SQL block of every page is run, in order, on a database per page, by a login of each role and by one without a
// membership. A block names the roles that may run it, such as "```sql owner operator"; "anybody" are all of them, and
// "administrator" none. All others must be denied. One that begins with "-- refused" and a SQLSTATE must fail with it,
// and one with an ellipsis is a sketch and is skipped. A superuser runs what the blocks after it need.
func TestEveryRoleRunsTheSnippetsThatThePagesSay(t *testing.T) {
	t.Parallel()
	pages := must.Get(filepath.Glob("../docs/*.md")).In(t)
	inner := must.Get(filepath.Glob("../docs/*/*.md")).In(t)
	pages = append(pages, inner...)
	for _, page := range append(pages, "../README.md") {
		text := must.Get(os.ReadFile(page)).In(t)
		blocks := sqlBlock.FindAllStringSubmatch(string(text), -1)
		require.Len(t, blocks, strings.Count(string(text), "```sql"), page)
		if len(blocks) > 0 {
			t.Run(filepath.Base(page), func(t *testing.T) { runSnippets(t, blocks) })
		}
	}
}

// acme is what the pages take as given.
const acme = `
	insert into pgdispatch.workspaces (id, name, plan)
	values ('0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01', 'acme', 'PRO');
	insert into pgdispatch.workflow_definitions (id, workspace_id, name, workflow_type, task_queue)
	values ('5a3f8d0c-2d0e-4b59-8a0c-0f6d2d3f7e02', '0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01', 'report', 'Report', 'reports');
	insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, idempotency_key)
	values ('0b9c1d52-6a52-4f3e-9d5f-6a1f6f0e5b01', '5a3f8d0c-2d0e-4b59-8a0c-0f6d2d3f7e02', 'invoice-17')`

func runSnippets(t *testing.T, blocks [][]string) {
	f := open(t)
	f.exec(acme)
	logins := map[string]*pgxpool.Pool{}
	for _, role := range append(roles, "nobody") {
		membership := "in role pgdispatch_" + role
		if role == "nobody" {
			membership = ""
		}
		logins[role] = sqltest.Pool(t, sqltest.Login(t, f.pool.Config().ConnString(), membership))
	}
	for _, block := range blocks {
		if strings.Contains(block[2], "…") {
			continue
		}
		refusal := ""
		if code, refused := strings.CutPrefix(block[2], "-- refused: "); refused {
			refusal = code[:5]
		}
		may := strings.Fields(block[1])
		require.NotEmpty(t, may, "say behind ```sql which roles may run it:\n%s", block[2])
		for role, pool := range logins {
			want := denied
			if slices.Contains(may, role) || slices.Equal(may, []string{"anybody"}) {
				want = refusal
			}
			_, tx := f.on(pool).beginOn()
			require.Equal(t, want, f.snippet(tx, block[2]), "%s runs\n%s", role, block[2])
			require.NoError(t, tx.Rollback(t.Context()))
		}
		require.Subset(t, append(roles, "anybody", "administrator"), may)
		_, tx := f.begin()
		require.Equal(t, refusal, f.snippet(tx, block[2]), block[2])
		if refusal == "" {
			require.NoError(t, tx.Commit(t.Context()))
		}
		f.deadLetters()
	}
}

// snippet runs a block, and returns the SQLSTATE of its error, or "".
func (f fixture) snippet(tx pgx.Tx, block string) string {
	var err error
	if statement, rows, copies := strings.Cut(block, "from stdin;\n"); copies {
		_, err = tx.Conn().PgConn().CopyFrom(f.t.Context(), strings.NewReader(strings.TrimSuffix(rows, "\\.\n")),
			statement+"from stdin")
	} else {
		_, err = tx.Exec(f.t.Context(), block)
	}
	if err == nil {
		return ""
	}
	return f.pgError(err).Code
}

// deadLetters gives each definition a dead letter, for the blocks that concern them.
func (f fixture) deadLetters() {
	in, tx := f.begin()
	for _, w := range all[string](f, `select d.id::text from pgdispatch.workflow_definitions d
		where not exists (select from pgdispatch.dead_letters l where l.workflow_definition_id = d.id)`) {
		dead := tenant{definition: w}
		dead.workspace, dead.version = one[string](f, `select workspace_id::text from pgdispatch.workflow_definitions
			where id = $1`, w), one[string](f, `select coalesce(max(id::text), $1) from pgdispatch.workflow_definition_versions
			where workflow_definition_id = $1::text::uuid`, w)
		id := seed(in, dead, "FAILED", live)
		in.exec(`update pgdispatch.workflow_execution_queue set last_error = 'connection refused', finished_at = '2026-01-01'
			where id = $1`, id)
	}
	require.NoError(f.t, tx.Commit(f.t.Context()))
}
