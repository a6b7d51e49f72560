package claim

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/stretchr/testify/require"
)

// withSettings returns the bench's store with its own connections.
func (b *bench) withSettings(connections int32, settings map[string]string) *Store {
	b.t.Helper()
	config := b.Conns.Config()
	config.MaxConns, config.MinConns = connections, 0
	for name, value := range settings {
		config.ConnConfig.RuntimeParams[name] = value
	}
	pool, err := pgxpool.NewWithConfig(b.t.Context(), config)
	require.NoError(b.t, err)
	b.t.Cleanup(pool.Close)
	return &Store{Pool: pool, Owner: b.Store.Owner, Lease: b.Lease}
}

// locked locks an item's row in a transaction that stays idle until the test ends.
func (b *bench) locked(items ...Item) {
	b.t.Helper()
	tx, err := b.Conns.Begin(b.t.Context())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	for _, item := range items {
		_, err = tx.Exec(b.t.Context(), "select from pgdispatch.workflow_execution_queue where id = $1 for update", item.ID)
		require.NoError(b.t, err)
	}
}

func TestARowThatSomebodyKeepsLockedCostsNoOtherItsLease(t *testing.T) {
	t.Parallel()
	for _, verb := range verbs {
		t.Run(string(verb), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			items := b.claimed(b.Store, 4)
			b.locked(items[1])
			store := b.withSettings(2, map[string]string{"lock_timeout": "50ms"})
			others := []int64{items[0].ID, items[2].ID, items[3].ID}

			var held []Held
			var batch []Settlement
			for _, item := range items {
				held = append(held, Held{item.ID, item.Token})
				batch = append(batch, settlementOf(item, verb))
			}
			renewed, err := store.Heartbeat(t.Context(), held)
			require.NoError(t, err)
			require.ElementsMatch(t, others, renewed)
			settled, err := store.Settle(t.Context(), verb, batch)
			require.NoError(t, err)
			require.ElementsMatch(t, others, settled)
			require.Equal(t, "CLAIMED", b.Status(items[1].ID), "its lease expires instead")

			_, err = store.Settle(t.Context(), verb, batch[1:2])
			require.ErrorContains(t, err, "55P03", "the row may be unlocked at the next try")
			b.Insert(b.Shop.Shop, 2)
			more, err := store.Claim(t.Context(), 2)
			require.NoError(t, err)
			require.Len(t, more.Items, 2, "claims continue")
		})
	}
}

// All replicas wait behind one claim.
func TestAClaimThatSettlesALockedItemSaysSoAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	items := b.claimed(b.Store, 2)
	b.locked(items[0])
	b.Insert(b.Shop.Shop, 2)
	store := b.withSettings(2, map[string]string{"lock_timeout": "50ms"})

	both := []Settlement{settlementOf(items[0], Dispatched), settlementOf(items[1], Dispatched)}
	batch, settled, err := store.SettleAndClaim(t.Context(), both, Wanted{AtMost: 2})
	require.ErrorIs(t, err, ErrApart)
	require.Empty(t, settled)
	require.Empty(t, batch.Items)
	require.Equal(t, "CLAIMED", b.Status(items[1].ID), "nothing was settled")

	batch, err = store.Claim(t.Context(), 2)
	require.NoError(t, err)
	require.Len(t, batch.Items, 2)
}

func TestAClaimThatPassesOverLockedRowsSettlesAllTheSame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	started := b.claimed(b.Store, 1)[0]
	b.Insert(b.Shop.Shop, 2)
	tx, err := b.Conns.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(t.Context(), "select from pgdispatch.workflow_execution_queue where id = $1 for update", started.ID+1)
	require.NoError(t, err)
	batch, settled, err := b.SettleAndClaim(t.Context(), []Settlement{settlementOf(started, Dispatched)},
		Wanted{AtMost: 2, Look: true})
	require.NoError(t, err)
	require.Len(t, batch.Items, 1)
	require.Equal(t, []int64{started.ID}, settled)
}

// If the database rejects a claim, nothing is counted, and the next claim is unaffected.
func TestAClaimThatTheDatabaseRefusesCountsNothingAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for code, remedy := range map[string]string{
		"25006": "DATABASE_URL must lead to the primary", "53100": "free some space", "53200": "out of memory",
		"53300": "raise max_connections",
		"40P01": "as raised", "57014": "remove any statement_timeout", "42501": "pgdispatch_dispatcher to run",
		"57P01": "as raised",
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
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
			batch, err := b.Claim(t.Context(), 3)
			require.NoError(t, err)
			require.Len(t, batch.Items, 3)
			require.Equal(t, 1, batch.Items[0].AttemptCount)
			require.False(t, batch.Items[0].Unanswered)
		})
	}
}

// A user-defined trigger casts a value to the wrong type, and Postgres' message contains the value.
func TestAnErrorThatWouldSayAValueOfARowDoesNot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Insert(b.Shop.Shop, 1)
	items := b.claimed(b.Store, 1)
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
		batch, err := b.replica("c").Claim(t.Context(), 3)
		require.NoError(t, err)
		claimErr := batch.Parked[0].Err
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
	t.Parallel()
	_, err := newBench(t).withSettings(1, map[string]string{"statement_timeout": "soon"}).Claim(t.Context(), 1)
	require.ErrorContains(t, err, `invalid value for parameter "statement_timeout": "soon" (SQLSTATE 22023)`)
}

// A demoted primary rejects every write on existing connections, permanently.
func TestConnectionsThatRefuseWritesAreGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Insert(b.Shop.Shop, 1)
	store := b.withSettings(2, nil)
	var conns []*pgxpool.Conn
	for range 2 {
		conn, err := store.Pool.(*pgxpool.Pool).Acquire(t.Context())
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "set session characteristics as transaction read only")
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Release()
	}
	_, err := store.Claim(t.Context(), 1)
	require.ErrorContains(t, err, "25006")
	batch, err := store.Claim(t.Context(), 1)
	require.NoError(t, err, "one rejected statement replaces all connections")
	require.Len(t, batch.Items, 1)
	_, err = store.Heartbeat(t.Context(), []Held{{batch.Items[0].ID, batch.Items[0].Token}})
	require.NoError(t, err)
}

// A statement_timeout that aborts every claim causes a named error and leaves no partial changes.
func TestAStatementTimeoutOfTheRoleCorruptsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Insert(b.Shop.Shop, 2)
	short := b.withSettings(1, map[string]string{"statement_timeout": "20ms"})
	tx, err := b.Conns.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(t.Context(), "lock table pgdispatch.claim_lock in share row exclusive mode")
	require.NoError(t, err)
	_, err = short.Claim(t.Context(), 2)
	require.ErrorContains(t, err, "statement_timeout")
	require.NoError(t, tx.Rollback(t.Context()))
	batch, err := b.Claim(t.Context(), 2)
	require.NoError(t, err)
	require.Len(t, batch.Items, 2)
}
