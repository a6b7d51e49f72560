package replica

import (
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// dispatcher returns pools on a database for its administrator and for a role that runs replicas.
func dispatcher(t *testing.T) (admin, role *pgxpool.Pool) {
	t.Helper()
	address := sqltest.URL(t)
	login := sqltest.Login(t, address, "in role pgdispatch_dispatcher")
	role = must.Get(postgres.Target{URL: login}.OpenPool(t.Context(), 1, nil)).In(t)
	t.Cleanup(role.Close)
	return sqltest.Pool(t, address), role
}

func TestFitness_RequiresThatTheRoleSeesEveryRow(t *testing.T) {
	const (
		table  = "pgdispatch.workflow_definitions"
		enable = "alter table " + table + " enable row level security;"
		policy = enable + "create policy p on " + table
		limit  = policy + " using (true); create policy q on " + table + " as restrictive"
	)
	must.Each(t, map[string]struct {
		statements, hidden string
	}{
		"without row security": {"select 1", ""},
		"workspace isolation":  {"select pgdispatch.isolate_workspaces(true)", ""},
		"without a policy":     {enable, "workflow_definitions"},
		"forced on the queue": {"alter table pgdispatch.workflow_execution_queue enable row level security, " +
			"force row level security", "workflow_execution_queue"},
		"a policy of others":    {policy + " to pgdispatch_enqueuer using (true)", "workflow_definitions"},
		"a policy for all rows": {policy + " to pgdispatch_dispatcher using (true)", ""},
		"of everybody":          {policy + " using (true)", ""},
		"to read all rows":      {policy + " for select using (true)", ""},
		"a condition":           {policy + " using (name <> 'secret')", "workflow_definitions"},
		"a restrictive policy":  {limit + " using (name <> 'secret')", "workflow_definitions"},
		"that others have":      {limit + " to pgdispatch_enqueuer using (name <> 'secret')", ""},
		"no changes": {"alter table pgdispatch.marks enable row level security;" +
			"create policy p on pgdispatch.marks for select using (true)", "marks"},
	}, func(t *testing.T, c struct{ statements, hidden string }) {
		t.Parallel()
		admin, role := dispatcher(t)
		must.Get(admin.Exec(t.Context(), c.statements)).In(t)
		found := must.Get(readFitness(t.Context(), role)).In(t)
		require.Equal(t, c.hidden, strings.Join(found.Hidden, " "))
		if c.hidden == "" {
			require.NoError(t, found.err())
			return
		}
		require.ErrorContains(t, found.err(), "row level security may hide rows of "+c.hidden+" from role ")
		found = must.Get(readFitness(t.Context(), admin)).In(t)
		require.Empty(t, found.Hidden, "a superuser sees all")
	})
}

func TestFitness_RequiresThatTriggersFire(t *testing.T) {
	t.Parallel()
	address := must.Get(url.Parse(sqltest.URL(t))).In(t)
	query := address.Query()
	query.Set("session_replication_role", "replica")
	address.RawQuery = query.Encode()
	pool := sqltest.Pool(t, address.String())
	err := awaitFitness(t.Context(), pool, func(string) {}, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "session_replication_role is replica")
}

func TestFitness_WaitsInACopyOfADatabaseUntilItIsAdopted(t *testing.T) {
	must.Each(t, map[string]string{
		"another database":     "update pgdispatch.installation set database_oid = 1, database_name = 'production'",
		"another installation": "update pgdispatch.installation set system_identifier = 1, database_name = 'production'",
	}, func(t *testing.T, move string) {
		t.Parallel()
		admin, role := dispatcher(t)
		quiet := slog.New(slog.DiscardHandler)
		waits := func(why string) { require.Fail(t, "it does not wait", why) }
		require.NoError(t, awaitFitness(t.Context(), role, waits, quiet), "the first replica binds it")
		require.NoError(t, awaitFitness(t.Context(), role, waits, quiet), "it is the same")

		must.Get(admin.Exec(t.Context(), move)).In(t)
		logs, ready, why := &process.Buffer{}, make(chan error, 1), make(chan string, 1)
		go func() {
			log := slog.New(slog.NewJSONHandler(logs, nil))
			ready <- awaitFitness(t.Context(), role, func(w string) { why <- w }, log)
		}()
		require.Contains(t, <-why, `database: this database is a copy of "production", or was moved`)
		require.Empty(t, ready, "it waits")
		store := &operate.Store{DB: admin}
		require.Equal(t, "production", must.Get(store.AdoptDatabase(t.Context(), "me")).In(t))
		require.NoError(t, <-ready)
		require.Contains(t, logs.String(), "`pgdispatch migrate adopt`")
		require.Contains(t, logs.String(), "The database was adopted")
		var logged string
		require.NoError(t, admin.QueryRow(t.Context(), "select details->'database_name'->>0 from pgdispatch.admin_log "+
			"where action = 'migrate adopt' and who = 'me'").Scan(&logged))
		require.Equal(t, "production", logged)
	})
}

func TestFitness_TakesAServerThatDoesNotTellItsIdentifier(t *testing.T) {
	t.Parallel()
	admin, role := dispatcher(t)
	must.Get(admin.Exec(t.Context(), "revoke execute on function pg_control_system() from public")).In(t)
	fails := func(why string) { require.Fail(t, "it does not wait", why) }
	require.NoError(t, awaitFitness(t.Context(), role, fails, slog.New(slog.DiscardHandler)))
	var unknown bool
	require.NoError(t, admin.QueryRow(t.Context(), "select system_identifier is null from pgdispatch.installation").
		Scan(&unknown))
	require.True(t, unknown)
	must.Get(admin.Exec(t.Context(), "grant execute on function pg_control_system() to public")).In(t)
	require.NoError(t, awaitFitness(t.Context(), role, fails, slog.New(slog.DiscardHandler)),
		"an unknown one is not another")
}

func TestFitness_StopsARunningReplicaThatSeesRowsNoMore(t *testing.T) {
	t.Parallel()
	admin, role := dispatcher(t)
	logs, stopped := &process.Buffer{}, make(chan error, 1)
	go func() {
		stopped <- stayFit(t.Context(), role, time.Millisecond, slog.New(slog.NewJSONHandler(logs, nil)))
	}()
	must.Get(admin.Exec(t.Context(), "alter table pgdispatch.limits enable row level security")).In(t)
	require.ErrorContains(t, <-stopped, "row level security may hide rows of limits")
	require.Contains(t, logs.String(), "Stopping: this replica must not work with the database any more")
}
