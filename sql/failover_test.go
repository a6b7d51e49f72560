package sql_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// promotions is how many standbys are promoted, each of them once. PGDISPATCH_LONG=1 promotes 20.
func promotions() int {
	if os.Getenv("PGDISPATCH_LONG") != "" {
		return 20
	}
	return 2
}

// A standby has written out nothing of what it has just replayed, and a promotion copies the first pages of unlogged
// objects from its files.
func TestMigrateUp_WorksOnAStandbyPromotedAtOnce(t *testing.T) {
	t.Parallel()
	primary := must.Get(sqltest.StartCluster(t.Context(), sqltest.Options{})).In(t)
	t.Cleanup(func() { require.NoError(t, primary.Stop()) })

	for range promotions() {
		conn := connect(t, primary.URL("postgres"), nil)
		require.NoError(t, migrate.To(t.Context(), conn, 0, nil))
		standby := must.Get(primary.Standby(t.Context())).In(t)
		t.Cleanup(func() { require.NoError(t, standby.Stop()) })

		require.NoError(t, migrate.Up(t.Context(), conn, nil))
		requireWork(t, promote(t, conn, standby))
	}
}

// gateLogged is the migration since which a promotion does not break the gate.
const gateLogged = 18

func TestMigrateUp_RepairsAGateThatAPromotionHasBroken(t *testing.T) {
	t.Parallel()
	primary := must.Get(sqltest.StartCluster(t.Context(), sqltest.Options{})).In(t)
	t.Cleanup(func() { require.NoError(t, primary.Stop()) })
	standby := must.Get(primary.Standby(t.Context())).In(t)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })
	before := connect(t, primary.URL("postgres"), nil)
	require.NoError(t, migrate.To(t.Context(), before, gateLogged-1, nil))

	pool := promote(t, before, standby)
	conn := connect(t, standby.URL("postgres"), nil)
	require.Eventually(t, func() bool {
		_, err := conn.Exec(t.Context(), "select nextval('pgdispatch.gate')")
		return err != nil && !strings.Contains(err.Error(), "read-only")
	}, 30*time.Second, 10*time.Millisecond, "the promotion breaks it")

	require.NoError(t, migrate.Up(t.Context(), conn, nil))
	requireWork(t, pool)
}

// promote promotes a standby as soon as it has replayed what its primary has committed.
func promote(t *testing.T, primary *pgx.Conn, standby *sqltest.Cluster) *pgxpool.Pool {
	t.Helper()
	var written string
	require.NoError(t, primary.QueryRow(t.Context(), "select pg_current_wal_flush_lsn()::text").Scan(&written))
	pool := sqltest.Pool(t, standby.URL("postgres"))
	require.Eventually(t, func() bool {
		var replayed bool
		err := pool.QueryRow(context.Background(), "select pg_last_wal_replay_lsn() >= $1::text::pg_lsn", written).
			Scan(&replayed)
		return err == nil && replayed
	}, 30*time.Second, time.Millisecond)

	must.Get(pool.Exec(t.Context(), "select pg_promote()")).In(t)
	return pool
}

// requireWork enqueues an item, claims it, and ends it, with the gate open and shut.
func requireWork(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	f := fixture{t: t, pool: pool, db: pool, replicas: &sync.Map{}}
	session := notify.Session{Conn: connect(t, pool.Config().ConnString(), nil)}
	w := f.tenant("FREE")
	for range 2 {
		id := f.item(w)
		f.dispatched(f.claim(1))
		f.finish(id, "COMPLETED")
		require.Equal(t, "COMPLETED", f.status(id))
		require.True(t, must.Get(session.Shut(t.Context())).In(t))
	}
	require.NoError(t, session.Open(t.Context()))
}

// What is empty after a crash must not be read by an enqueue. Only the epoch is meant to be lost in one: its table has
// no first page that could be missing, and that of its index is written out when it is replayed.
func TestUnlogged_IsNothingButTheEpoch(t *testing.T) {
	f := open(t)
	require.Equal(t, []string{"epoch", "epoch_pkey"}, all[string](f, `select c.relname::text from pg_class c
		where c.relnamespace = 'pgdispatch'::regnamespace and c.relpersistence = 'u' order by 1`))
	for change, problem := range map[string]string{
		"alter sequence pgdispatch.gate set unlogged":                    "sequence gate unlogged",
		"drop sequence pgdispatch.lease_tokens":                          "sequence lease_tokens missing",
		"alter sequence pgdispatch.lease_tokens cache 100":               "sequence lease_tokens altered",
		"alter table pgdispatch.epoch set logged":                        "table epoch altered",
		"alter table pgdispatch.enqueue_keys set unlogged":               "table enqueue_keys altered",
		"alter table pgdispatch.admin_log alter column id drop identity": "sequence admin_log_id_seq missing",
	} {
		in, tx := f.begin()
		in.exec(change)
		found := sql.Defects(rowsOf[sql.Object](in, sql.CatalogueText()))
		require.Len(t, found, 1, change)
		require.Equal(t, problem, found[0].Kind+" "+found[0].Name+" "+found[0].Problem)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// An idle replica sets its gate again and again, and must not write.
func TestGate_WritesOnlyWhatChanges(t *testing.T) {
	f := open(t)
	writes := func(verb string) bool {
		in, tx := f.begin()
		in.exec(sql.Text(verb))
		wrote := one[bool](in, "select pg_current_xact_id_if_assigned() is not null")
		require.NoError(t, tx.Commit(t.Context()))
		return wrote
	}
	require.False(t, writes("gate_open"), "it is created open")
	for range 2 {
		require.True(t, writes("gate_shut"))
		require.False(t, writes("gate_shut"))
		require.True(t, writes("gate_open"))
		require.False(t, writes("gate_open"))
		require.False(t, writes("gate_leave"))
	}
}

// behind returns the sequences that are behind their tables.
func (f fixture) behind() []string {
	return all[string](f, "select b.name from ("+sql.Text("doctor_sequences")+") b")
}

func TestMigrateUp_SetsEachSequencePastItsTable(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	conn := connect(t, f.pool.Config().ConnString(), nil)
	items := f.items(w, 3)
	f.dispatched(f.claim(1))
	f.release(f.claim(2), false)
	f.signal(items[0], "a")
	f.exec("insert into pgdispatch.limits (key, max_concurrent) values ('a', 1), ('b', 1)")
	f.exec("insert into pgdispatch.admin_log (who, action, subject) values ('me', 'test', 'none')")
	require.Empty(t, f.behind())

	// As a logical copy has them.
	sequences := all[string](f, `select c.relname::text from pg_class c
		where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind = 'S' and c.relname <> 'gate' order by 1`)
	for _, name := range sequences {
		f.exec("alter sequence pgdispatch." + name + " restart")
	}
	require.Equal(t, sequences, f.behind(), "every sequence is known")
	f.refusedAs("23505", "", "insert into pgdispatch.limits (key, max_concurrent) values ('other', 1)")

	repaired := []string{}
	require.NoError(t, migrate.Up(t.Context(), conn, func(s migrate.Step) {
		require.Equal(t, "repair", s.Direction)
		repaired = append(repaired, s.Name)
	}))
	require.Equal(t, sequences, repaired)
	require.Empty(t, f.behind())
	require.Greater(t, f.item(w), items[2])
	f.exec("insert into pgdispatch.limits (key, max_concurrent) values ('other', 1)")
	highest := one[int64](f, "select max(lease_token) from pgdispatch.workflow_execution_queue")
	require.Len(t, f.claim(3).Items, 3)
	require.Greater(t, one[int64](f, "select max(lease_token) from pgdispatch.workflow_execution_queue"), highest)
}

func TestSequences_AreNotMovedWhereTheyAreAhead(t *testing.T) {
	f, w := openFor(t, "FREE")
	f.item(w)
	f.claim(1)
	ahead := one[int64](f, "select setval('pgdispatch.lease_tokens', 1000 + last_value) from pgdispatch.lease_tokens")
	require.NoError(t, migrate.Up(t.Context(), connect(t, f.pool.Config().ConnString(), nil), nil))
	require.Equal(t, ahead, one[int64](f, "select last_value from pgdispatch.lease_tokens"))
}

// To cut off the end of a table, vacuum locks it exclusively, and a standby that replays the lock cancels queries.
func TestVacuum_CutsNoTableThatIsEmptiedAllDay(t *testing.T) {
	f := open(t)
	const hot = `c.relnamespace = 'pgdispatch'::regnamespace
		and exists (select from unnest(c.reloptions) o where o like 'autovacuum%')`
	require.Len(t, all[string](f, "select c.relname::text from pg_class c where "+hot), 6)
	require.Empty(t, all[string](f, "select c.relname::text from pg_class c where "+hot+
		" and not 'vacuum_truncate=off' = any (c.reloptions)"))
	require.Equal(t, []string{"signals", "workflow_execution_queue", "workflow_executions"}, all[string](f,
		`select c.relname::text from pg_class c join pg_class o on o.oid = c.reltoastrelid
		where c.relnamespace = 'pgdispatch'::regnamespace and 'vacuum_truncate=off' = any (o.reloptions) order by 1`))
}
