package claim

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/stretchr/testify/require"
)

// withSettings returns the bench with a store that has its own connections.
func (b *bench) withSettings(connections int32, settings map[string]string) *bench {
	config := b.Conns.Config()
	config.MaxConns, config.MinConns = connections, 0
	for name, value := range settings {
		config.ConnConfig.RuntimeParams[name] = value
	}
	pool := must.Get(pgxpool.NewWithConfig(b.t.Context(), config)).In(b.t)
	b.t.Cleanup(pool.Close)
	return b.with(&Store{Pool: pool, Owner: b.Store.Owner, Lease: b.Lease})
}

func TestARowThatSomebodyKeepsLockedCostsNoOtherItsLease(t *testing.T) {
	t.Parallel()
	for _, verb := range verbs {
		t.Run(string(verb), func(t *testing.T) {
			b := newBench(t)
			items := b.claimed(4)
			b.lock(items[1].ID)
			b = b.withSettings(2, map[string]string{"lock_timeout": "50ms"})
			others := []int64{items[0].ID, items[2].ID, items[3].ID}

			batch := settlementsOf(items, verb)
			require.ElementsMatch(t, others, b.renew(items...))
			require.ElementsMatch(t, others, b.settle(verb, batch...))
			require.Equal(t, "CLAIMED", b.Status(items[1].ID), "its lease expires instead")

			_, err := b.Settle(t.Context(), verb, batch[1:2])
			require.ErrorContains(t, err, "55P03", "the row may be unlocked at the next try")
			b.claimed(2)
		})
	}
}

// All replicas wait behind one claim.
func TestAClaimThatSettlesALockedItemSaysSoAndTheNextGoesOn(t *testing.T) {
	b := newBench(t)
	items := b.claimed(2)
	b.lock(items[0].ID)
	b.Insert(b.Shop.Shop, 2)
	b = b.withSettings(2, map[string]string{"lock_timeout": "50ms"})

	batch, settled, err := b.SettleAndClaim(t.Context(), settlementsOf(items, Dispatched), Wanted{AtMost: 2})
	require.ErrorIs(t, err, ErrApart)
	require.Empty(t, settled)
	require.Empty(t, batch.Items)
	require.Equal(t, "CLAIMED", b.Status(items[1].ID), "nothing was settled")

	require.Len(t, b.claim(2).Items, 2)
}

func TestAClaimThatPassesOverLockedRowsSettlesAllTheSame(t *testing.T) {
	b := newBench(t)
	started := b.claimed(1)[0]
	b.Insert(b.Shop.Shop, 2)
	b.lock(started.ID + 1)
	require.Len(t, b.settleAndClaim(started, 2).Items, 1)
}

func TestAClaimThatTheDatabaseRefusesCountsNothingAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for code, remedy := range map[string]string{
		"25006": "DATABASE_URL must lead to the primary", "53100": "free some space", "53200": "out of memory",
		"53300": "raise max_connections",
		"40P01": "as raised", "57014": "remove any statement_timeout", "42501": "pgdispatch_dispatcher to run",
		"57P01": "as raised",
	} {
		t.Run(code, func(t *testing.T) {
			b := newBench(t)
			b.Insert(b.Shop.Shop, 3)
			b.Execute(`create function pgdispatch.refuse() returns trigger language plpgsql as
				$$ begin raise exception 'as raised: out of memory' using errcode = '` + code + `'; end $$`)
			b.Execute("create trigger refuse before update on pgdispatch.workflow_execution_queue for each row execute " +
				"function pgdispatch.refuse()")
			_, err := b.Claim(t.Context(), 3)
			require.ErrorContains(t, err, "claim items: ")
			require.ErrorContains(t, err, code)
			require.ErrorContains(t, err, remedy)
			b.Execute("drop trigger refuse on pgdispatch.workflow_execution_queue")
			batch := b.claim(3)
			require.Len(t, batch.Items, 3)
			require.Equal(t, 1, batch.Items[0].AttemptCount)
			require.False(t, batch.Items[0].Unanswered)
		})
	}
}

// A user-defined trigger casts a value to the wrong type, and Postgres' message contains the value.
func TestAnErrorThatWouldSayAValueOfARowDoesNot(t *testing.T) {
	b := newBench(t)
	items := b.claimed(1)
	b.Insert(b.Shop.Shop, 1)
	for _, expression := range []string{
		"perform 'SECRET'::integer", "perform '{SECRET'::jsonb", "perform 'SECRET'::timestamptz",
		"perform ('{\"a\": SECRET}')::jsonb", "perform 'SECRET'::uuid",
		"perform 1 / 0", "perform repeat('SECRET', 9)::name, 'SECRET'::numeric(2)",
	} {
		b.Execute("create or replace function public.derive() returns trigger language plpgsql as $$ begin " + expression +
			"; return new; end $$")
		b.Execute("create or replace trigger derive before update on pgdispatch.workflow_execution_queue for each row " +
			"execute function public.derive()")
		b.Execute("delete from pgdispatch.parked_items")
		claimErr := b.with(b.replica("c")).claim(3).Parked[0].Err
		require.NotContains(t, sqltest.Scalar[string](b.Shop, "select error from pgdispatch.parked_items"), "SECRET")
		_, settleErr := b.Settle(t.Context(), Dispatched, []Settlement{settlementOf(items[0], Dispatched)})
		_, _, bothErr := b.SettleAndClaim(t.Context(), []Settlement{settlementOf(items[0], Dispatched)}, Wanted{AtMost: 1})
		_, heartbeatErr := b.Heartbeat(t.Context(), []Held{{items[0].ID, items[0].Token}})
		for _, err := range []error{claimErr, settleErr, bothErr, heartbeatErr} {
			var postgres *pgconn.PgError
			require.ErrorAs(t, err, &postgres, expression)
			require.Equal(t, "22", postgres.Code[:2])
			require.Contains(t, err.Error(), "SQLSTATE "+postgres.Code)
			require.NotContains(t, err.Error(), "SECRET")
		}
	}
}

func TestAnErrorOfAConnectionSaysWhichSettingIsWrong(t *testing.T) {
	_, err := newBench(t).withSettings(1, map[string]string{"statement_timeout": "soon"}).Claim(t.Context(), 1)
	require.ErrorContains(t, err, `invalid value for parameter "statement_timeout": "soon" (SQLSTATE 22023)`)
}

// A demoted primary rejects every write on existing connections, permanently.
func TestConnectionsThatRefuseWritesAreGivenUp(t *testing.T) {
	b := newBench(t)
	b.Insert(b.Shop.Shop, 1)
	b = b.withSettings(2, nil)
	var conns []*pgxpool.Conn
	for range 2 {
		conn, err := b.Pool.(*pgxpool.Pool).Acquire(t.Context())
		require.NoError(t, err)
		must.Get(conn.Exec(t.Context(), "set session characteristics as transaction read only")).In(t)
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Release()
	}
	_, err := b.Claim(t.Context(), 1)
	require.ErrorContains(t, err, "25006")
	items := b.claim(1).Items
	require.Len(t, items, 1, "one rejected statement replaces all connections")
	b.renew(items...)
}

func TestAStatementTimeoutOfTheRoleCorruptsNothing(t *testing.T) {
	b := newBench(t)
	b.Insert(b.Shop.Shop, 2)
	short := b.withSettings(1, map[string]string{"statement_timeout": "20ms"})
	tx := b.open(lockClaims)
	_, err := short.Claim(t.Context(), 2)
	require.ErrorContains(t, err, "statement_timeout")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Len(t, b.claim(2).Items, 2)
}

// Such a claim succeeds while Postgres is away, and must not end an outage.
func TestClaim_SaysThatItHasSentNothing(t *testing.T) {
	b := newBench(t)
	require.False(t, b.want(Wanted{AtMost: 1}).Unsent, "the first one looks")
	require.True(t, b.want(Wanted{AtMost: 1}).Unsent)
	require.False(t, b.want(Wanted{AtMost: 1, Look: true}).Unsent)

	b.Insert(b.Shop.Shop, 2)
	items := b.want(Wanted{AtMost: 1, Look: true}).Items
	require.Len(t, items, 1)
	require.False(t, b.want(Wanted{AtMost: 1}).Unsent, "it knows of the other item")
	batch, _, err := b.SettleAndClaim(t.Context(), settlementsOf(items, Dispatched), Wanted{})
	require.NoError(t, err)
	require.False(t, batch.Unsent, "it settles")

	b.Conns.Close()
	require.True(t, b.want(Wanted{}).Unsent)
}
