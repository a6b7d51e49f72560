package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// Only the failover manager of the former primary was killed: it accepts writes beside the promoted standby.
func TestPrimary_LeavesAFormerPrimaryForThePromotedOne(t *testing.T) {
	t.Parallel()
	former := must.Get(sqltest.StartCluster(t.Context(), sqltest.Options{})).In(t)
	t.Cleanup(func() { require.NoError(t, former.Stop()) })
	standby := must.Get(former.Standby(t.Context())).In(t)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })

	one := &postgres.Primary{}
	before := postgres.Target{URL: former.URL("postgres"), Primary: one}
	after := postgres.Target{URL: standby.URL("postgres"), Primary: one}
	settings := map[string]string{}
	pool := must.Get(before.OpenPool(t.Context(), 1, settings)).In(t)
	t.Cleanup(pool.Close)
	require.NoError(t, pool.Ping(t.Context()))
	session := must.Get(before.Connect(t.Context(), settings, nil)).In(t)
	_, err := after.Connect(t.Context(), settings, nil)
	require.Error(t, err, "a standby")

	must.Get(sqltest.Pool(t, standby.URL("postgres")).Exec(t.Context(), "select pg_promote()")).In(t)
	promoted := must.Get(after.OpenPool(t.Context(), 1, settings)).In(t)
	t.Cleanup(promoted.Close)
	require.NoError(t, promoted.Ping(t.Context()))

	within, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = session.WaitForNotification(within)
	require.Error(t, err)
	require.NoError(t, within.Err(), "a session on the former primary is closed at once")
	for _, use := range []func() error{
		func() error { return pool.Ping(t.Context()) },
		func() error { _, err := before.Connect(t.Context(), settings, nil); return err },
	} {
		var refused *postgres.FormerPrimaryError
		require.True(t, errors.As(use(), &refused), "its connections are not used any more, nor replaced")
		require.Less(t, refused.Timeline, refused.Newest)
	}
	independent := must.Get(postgres.Target{URL: before.URL}.Connect(t.Context(), settings, nil)).In(t)
	require.NoError(t, independent.Close(t.Context()))
}

func TestTarget_NamesTheHostsThatAcceptWrites(t *testing.T) {
	t.Parallel()
	one := must.Get(sqltest.StartCluster(t.Context(), sqltest.Options{})).In(t)
	t.Cleanup(func() { require.NoError(t, one.Stop()) })
	standby := must.Get(one.Standby(t.Context())).In(t)
	t.Cleanup(func() { require.NoError(t, standby.Stop()) })
	address := func(c *sqltest.Cluster) string { return fmt.Sprintf("127.0.0.1:%d", c.Port) }
	both := postgres.Target{URL: fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable", address(one),
		address(standby))}

	require.Equal(t, []string{address(one)}, must.Get(both.Primaries(t.Context())).In(t))
	must.Get(sqltest.Pool(t, standby.URL("postgres")).Exec(t.Context(), "select pg_promote()")).In(t)
	require.Equal(t, []string{address(one), address(standby)}, must.Get(both.Primaries(t.Context())).In(t))
}
