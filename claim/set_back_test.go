package claim

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// underAnotherClock is a store's bench whose clock can be set: its claims and looks find another clock_timestamp.
type underAnotherClock struct {
	*bench
	setBacks int
}

func newUnderAnotherClock(t *testing.T) *underAnotherClock {
	b := &underAnotherClock{bench: newBench(t)}
	b.Execute("create schema other")
	b.Execute("create table other.clock as select interval '1 hour' as ahead")
	b.Execute(`create function other.clock_timestamp() returns timestamptz language sql volatile
		return pg_catalog.clock_timestamp() + (select c.ahead from other.clock c)`)
	config := b.Conns.Config()
	config.ConnConfig.RuntimeParams["search_path"] = "other, pg_catalog"
	pool := must.Get(pgxpool.NewWithConfig(t.Context(), config)).In(t)
	t.Cleanup(pool.Close)
	b.Store.Pool = pool
	b.Store.SetBack = func() { b.setBacks++ }
	return b
}

// setBack sets the clock back by an hour, and a sweeper brings back the rates.
func (b *underAnotherClock) setBack() {
	b.Execute("update other.clock set ahead = '0'")
	require.Equal(b.t, int64(1), sqltest.Scalar[int64](b.Shop,
		"with r as (update pgdispatch.rates set at = now() - interval '1 minute' returning 1) select count(*) from r"))
}

// rated claims the first of two items of a workspace that may start one in ten seconds.
func (b *underAnotherClock) rated() {
	b.Execute("update pgdispatch.workspaces set max_starts_per_second = 0.1 where id = $1", b.Shop.Shop)
	b.Insert(b.Shop.Shop, 2)
	first := b.claim(10)
	require.Len(b.t, first.Items, 1)
	require.Greater(b.t, first.LookAgainIn, 5*time.Second)
}

func TestALookThatFindsTheClockSetBackForgetsWhatLiesAhead(t *testing.T) {
	b := newUnderAnotherClock(t)
	b.rated()
	require.Empty(t, b.claim(10).Items)
	b.setBack()
	require.Len(t, b.claim(10).Items, 1)
	require.Equal(t, 1, b.setBacks)
	b.claim(10)
	require.Equal(t, 1, b.setBacks, "once")
}

func TestAClaimThatFindsTheClockSetBackIsFollowedByALoad(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		t.Run(fmt.Sprintf("quiet %t", quiet), func(t *testing.T) { // otherwise a look comes with the claim
			b := newUnderAnotherClock(t)
			other := b.NewWorkspace("other", 5)
			b.rated()
			b.Insert(other, 2)
			require.Len(t, b.claim(1).Items, 1)
			b.setBack()
			batch := b.want(Wanted{AtMost: 1, Quiet: quiet})
			require.Len(t, batch.Items, 1)
			require.Equal(t, 1, b.setBacks)
			require.Zero(t, batch.LookAgainIn)
			require.Len(t, b.want(Wanted{AtMost: 10, Quiet: true}).Items, 1, "the rate allows it by the new time")
			require.Equal(t, 1, b.setBacks)
		})
	}
}

// A jump forward needs no load: whatever was waited for is due.
func TestAClockThatIsSetForwardIsNotReportedAsSetBack(t *testing.T) {
	b := newUnderAnotherClock(t)
	b.rated()
	b.Execute("update other.clock set ahead = '2 hours'")
	require.Len(t, b.claim(10).Items, 1, "its ten seconds have passed")
	require.Zero(t, b.setBacks)
}

// Between the set-back and the sweep that brings times back, a claim may learn that a rate allows nothing for an hour.
func TestARateThatIsBroughtBackIsAskedForAgain(t *testing.T) {
	b := newUnderAnotherClock(t)
	b.Execute("insert into pgdispatch.limits (key, max_starts, per) values ('k', '{1}', '{1 min}')")
	b.enqueue("limit_key", "'k'")
	b.enqueue("limit_key", "'k'")
	require.Len(t, b.claim(10).Items, 1)
	b.Execute("update other.clock set ahead = '0'")
	early := b.claim(10)
	require.Empty(t, early.Items)
	require.Greater(t, early.LookAgainIn, time.Hour)
	brought := must.Get(b.BringBack(t.Context(), 500)).In(t)
	require.Positive(t, brought.Times)
	require.LessOrEqual(t, b.claim(10).LookAgainIn, 63*time.Second, "a period and its twentieth")
}
