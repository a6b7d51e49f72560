package claim

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestTheStatementOfALineIsSentOnlyForWhatItServes(t *testing.T) {
	t.Parallel()
	usual := func() (Wanted, schedule.Proposal) {
		return Wanted{AtMost: 5}, schedule.Proposal{AtMost: 5, Epoch: schedule.Epoch(uuid.New()),
			Entries: []schedule.Entry{{Workspace: schedule.WorkspaceID(uuid.New()), Items: 1}}}
	}
	wanted, p := usual()
	m := &memory{}
	require.True(t, m.isSingle(wanted, p))
	for name, change := range map[string]func(*memory, *Wanted, *schedule.Proposal){
		"several entries": func(_ *memory, _ *Wanted, p *schedule.Proposal) {
			p.Entries = append(p.Entries, p.Entries[0])
		},
		"an unanswered start":  func(_ *memory, _ *Wanted, p *schedule.Proposal) { p.Unanswered = 1 },
		"only unanswered ones": func(_ *memory, _ *Wanted, p *schedule.Proposal) { p.Entries, p.Unanswered = nil, 1 },
		"a limit key":          func(_ *memory, _ *Wanted, p *schedule.Proposal) { p.Entries[0].Key = "k" },
		"a burst":              func(_ *memory, _ *Wanted, p *schedule.Proposal) { p.Entries[0].Burst = true },
		"a rate":               func(_ *memory, _ *Wanted, p *schedule.Proposal) { p.Entries[0].Rated = true },
		"no epoch":             func(_ *memory, _ *Wanted, p *schedule.Proposal) { p.Epoch = schedule.Epoch{} },
		"a limited namespace":  func(_ *memory, w *Wanted, _ *schedule.Proposal) { w.Namespaces = map[string]int{"a": 1} },
		"a locked row":         func(m *memory, _ *Wanted, _ *schedule.Proposal) { m.carefulTo = time.Now().Add(time.Hour) },
	} {
		wanted, p := usual()
		m := &memory{}
		change(m, &wanted, &p)
		require.False(t, m.isSingle(wanted, p), name)
	}
}

func TestAClaimThatIsDeclinedIsMadeByTheProcedure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	claims := func() Statements {
		t.Helper()
		b.Insert(b.Shop.Shop, 1)
		batch, err := b.Claim(t.Context(), 1)
		require.NoError(t, err)
		require.Len(t, batch.Items, 1)
		return batch.Statements
	}
	single, procedure := Statements{Single: 1}, Statements{Procedure: 1}
	require.Equal(t, procedure, claims(), "no epoch has begun")
	require.Equal(t, single, claims())
	b.Execute("update pgdispatch.workspaces set max_starts_per_second = 1000")
	require.Equal(t, Statements{Declined: 1, Procedure: 1}, claims(), "its first claim finds the rate")
	require.Equal(t, procedure, claims(), "it knows the rate")
	b.Execute("update pgdispatch.workspaces set max_starts_per_second = null")
	require.Equal(t, procedure, claims(), "its next claim finds no rate")
	require.Equal(t, single, claims())
}

func TestADeclinedClaimIsProposedAnewWithWhatItsLookFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claimed(b.Store, 1)
	b.Insert(b.Shop.Shop, 3)
	_, err := b.Claim(t.Context(), 1)
	require.NoError(t, err)
	first := sqltest.Scalar[int64](b.Shop, `insert into pgdispatch.workflow_execution_queue
			(workspace_id, workflow_definition_id, run_at)
		select w.id, d.id, now() - interval '1 hour'
		from pgdispatch.workspaces w join pgdispatch.workflow_definitions d on d.workspace_id = w.id returning id`)
	b.Execute("update pgdispatch.workspaces set max_starts_per_second = 1000")
	batch, _, err := b.SettleAndClaim(t.Context(), nil, Wanted{AtMost: 1})
	require.NoError(t, err)
	require.Equal(t, 1, batch.Statements.Declined)
	require.Equal(t, first, batch.Items[0].ID)
	batch, _, err = b.SettleAndClaim(t.Context(), nil, Wanted{AtMost: 9, Quiet: true})
	require.NoError(t, err)
	require.Len(t, batch.Items, 2)
}

func TestASettleIsKeptIfTheClaimWithItIsDeclined(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := b.claimed(b.Store, 2)
	b.expire(held[1])
	b.Insert(b.Shop.Shop, 1)
	batch, settled, err := b.SettleAndClaim(t.Context(), []Settlement{settlementOf(held[0], Dispatched)},
		Wanted{AtMost: 3, Look: true})
	require.NoError(t, err)
	require.Equal(t, []int64{held[0].ID}, settled)
	require.Equal(t, Statements{Declined: 1, Procedure: 1}, batch.Statements)
	require.Len(t, batch.Items, 1)
	require.Equal(t, "DISPATCHED", b.Status(held[0].ID))
	require.Equal(t, "PENDING", b.Status(held[1].ID), "the procedure requeues what has expired")
}

func TestASettleIsKeptIfTheClaimAfterADeclinedOneFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	held := b.claimed(b.Store, 2)
	b.expire(held[1])
	b.poison("new.status = 'CLAIMED'")
	refused := b.marked(b.Shop.Shop, "poison")
	batch, settled, err := b.SettleAndClaim(t.Context(), []Settlement{settlementOf(held[0], Dispatched)},
		Wanted{AtMost: 3, Look: true})
	require.NoError(t, err)
	require.Equal(t, []int64{held[0].ID}, settled)
	require.Empty(t, batch.Items)
	require.True(t, batch.More)
	batch, err = b.Claim(t.Context(), 3)
	require.NoError(t, err)
	require.Len(t, batch.Parked, 1)
	require.Equal(t, refused, batch.Parked[0].ID)
}

func TestAClaimOfOneLineWaitsForOtherClaims(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.claimed(b.Store, 1)
	b.Insert(b.Shop.Shop, 1)
	other, err := b.Conns.Begin(t.Context())
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), "select pgdispatch.lock_claims()")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = b.Claim(ctx, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, other.Rollback(t.Context()))
	batch, err := b.Claim(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, Statements{Single: 1}, batch.Statements)
}
