package sql_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/request"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// crashing is a fixture on a server of its own.
type crashing struct {
	fixture
	cluster *sqltest.Cluster
}

func openCrashing(t *testing.T) crashing {
	cluster, f := ownCluster(t)
	return crashing{f, cluster}
}

// quietly runs what a replica does on a connection whose commits are asynchronous, while nothing else commits, and then
// crashes the server. more are further settings of the connection.
func (c crashing) quietly(act func(replica fixture), more ...string) {
	config := must.Get(pgxpool.ParseConfig(c.cluster.URL("postgres"))).In(c.t)
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	for n := 0; n < len(more); n += 2 {
		config.ConnConfig.RuntimeParams[more[n]] = more[n+1]
	}
	pool := must.Get(pgxpool.NewWithConfig(context.Background(), config)).In(c.t)
	defer pool.Close()
	require.NoError(c.t, c.cluster.HoldWAL(c.t.Context()))
	c.exec("select pg_current_xact_id()") // makes durable what came before
	act(c.on(pool))
	pool.Reset()
	c.pool.Reset()
	require.NoError(c.t, c.cluster.Crash(c.t.Context()))
}

// Nobody can be asked again for what these statements decide, or a request to Temporal rests on them.
func TestWhatOthersActUponSurvivesACrashOfPostgres(t *testing.T) {
	t.Parallel()
	c := openCrashing(t)
	w := c.tenant("ENTERPRISE")
	running := c.items(w, 3)
	c.dispatched(c.claim(3))
	taken := func(id int64) request.Signal {
		c.signal(id, "a")
		return c.takeSignals().Now[0]
	}
	const signal = `select state || ' ' || tries || ' ' || coalesce(run_id, '')
		from pgdispatch.signals order by id desc limit 1`

	c.signal(running[0], "a")
	c.quietly(func(replica fixture) { require.Len(t, replica.takeSignals().Now, 1) })
	require.Equal(t, "OPEN 1 run", one[string](c.fixture, signal), "the run that a signal is sent to")

	refused := taken(running[1])
	c.quietly(func(replica fixture) { replica.takeSignals(settle(refused, "GIVEN_UP", "too large", "")) })
	require.Equal(t, "GIVEN_UP 1 run", one[string](c.fixture, signal), "a signal that was given up")

	c.signal(running[2], "a")
	c.finish(running[2], "COMPLETED")
	c.quietly(func(replica fixture) { require.Len(t, replica.takeSignals().GivenUp, 1) })
	require.Equal(t, "GIVEN_UP 0 ", one[string](c.fixture, signal), "a signal whose workflow had ended")

	failing := c.item(w)
	claimed := c.claim(1)
	c.quietly(func(replica fixture) { require.Equal(t, claimed.ids(), replica.fail(claimed, "no")) })
	require.Equal(t, "FAILED", c.status(failing), "an item that failed")

	stopped := c.item(w)
	claimed = c.claim(1)
	require.Equal(t, "REQUESTED", c.stop(stopped, "CANCEL"))
	c.release(claimed, false)
	c.quietly(func(replica fixture) { replica.stops() })
	require.Equal(t, "CANCELLED WITHDRAWN", c.status(stopped)+" "+c.stopState(stopped), "an item that was withdrawn")

	c.exec("update pgdispatch.close_sweep set looked_at = now() + interval '1 hour'")
	c.quietly(func(replica fixture) { require.Positive(t, replica.bringBack()) })
	require.Zero(t, c.bringBack(), "a stored time that was brought back")

	delivered := taken(running[1])
	c.quietly(func(replica fixture) { replica.takeSignals(settle(delivered, "DELIVERED", "", "")) })
	require.Equal(t, "OPEN 1 run", one[string](c.fixture, signal), "Temporal drops the repeat: nobody waits for the disk")
}

func TestPgdispatchDurableCommitsNoneWaitsForNoDisk(t *testing.T) {
	t.Parallel()
	c := openCrashing(t)
	c.signal(c.oneRunning(), "a")
	c.quietly(func(replica fixture) { require.Len(t, replica.takeSignals().Now, 1) }, "pgdispatch.durable_commits", "none")
	require.Equal(t, 0, one[int](c.fixture, "select tries from pgdispatch.signals"))
}
