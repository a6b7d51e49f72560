package claim

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

func TestMemory_SendsClaimPlainOnlyForWhatItServes(t *testing.T) {
	t.Parallel()
	usual := func() (Wanted, schedule.Proposal) {
		return Wanted{AtMost: 5}, schedule.Proposal{AtMost: 5, Epoch: schedule.Epoch(uuid.New()),
			Entries: []schedule.Entry{{Workspace: schedule.WorkspaceID(uuid.New()), Items: 1}}}
	}
	wanted, p := usual()
	m := &memory{}
	require.True(t, m.isPlain(wanted, p))
	p.Entries = append(p.Entries, schedule.Entry{Workspace: schedule.WorkspaceID(uuid.New()), Items: 1})
	require.True(t, m.isPlain(wanted, p), "of two workspaces")
	for name, change := range map[string]func(*memory, *Wanted, *schedule.Proposal){
		"no entries": func(_ *memory, _ *Wanted, p *schedule.Proposal) { p.Entries = nil },
		"two entries of a workspace": func(_ *memory, _ *Wanted, p *schedule.Proposal) {
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
		require.False(t, m.isPlain(wanted, p), name)
	}
}

func TestAClaimThatIsDeclinedIsMadeByTheProcedure(t *testing.T) {
	b := newBench(t)
	claims := func() Statements {
		b.Insert(b.Shop.Shop, 1)
		return b.claim(1).Statements
	}
	plain, procedure := Statements{Plain: 1}, Statements{Procedure: 1}
	require.Equal(t, procedure, claims(), "no epoch has begun")
	require.Equal(t, plain, claims())
	b.Execute("update pgdispatch.workspaces set max_starts_per_second = 1000")
	require.Equal(t, Statements{Declined: 1, Procedure: 1}, claims(), "its first claim finds the rate")
	require.Equal(t, procedure, claims(), "it knows the rate")
	b.Execute("update pgdispatch.workspaces set max_starts_per_second = null")
	require.Equal(t, procedure, claims(), "its next claim finds no rate")
	require.Equal(t, plain, claims())
}

func TestADeclinedClaimIsProposedAnewWithWhatItsLookFound(t *testing.T) {
	b := newBench(t)
	b.claimed(1)
	b.Insert(b.Shop.Shop, 3)
	b.claim(1)
	first := b.enqueue("run_at", "now() - interval '1 hour'")
	b.Execute("update pgdispatch.workspaces set max_starts_per_second = 1000")
	batch := b.want(Wanted{AtMost: 1})
	require.Equal(t, 1, batch.Statements.Declined)
	require.Equal(t, first, batch.Items[0].ID)
	require.Len(t, b.want(Wanted{AtMost: 9, Quiet: true}).Items, 2)
}

func TestASettleIsKeptIfTheClaimWithItIsDeclined(t *testing.T) {
	b := newBench(t)
	held := b.claimed(3)
	b.expire(held[1])
	b.Insert(b.Shop.Shop, 1)
	batch := b.settleAndClaim(held[0], 3)
	require.Equal(t, Statements{Declined: 1, Procedure: 1}, batch.Statements)
	require.Len(t, batch.Items, 1)
	require.Equal(t, "DISPATCHED", b.Status(held[0].ID))
	require.Equal(t, "PENDING", b.Status(held[1].ID), "the procedure requeues what has expired")
}

func TestASettleIsKeptIfTheClaimAfterADeclinedOneFails(t *testing.T) {
	b := newBench(t)
	held := b.claimed(2)
	b.expire(held[1])
	b.poison("new.status = 'CLAIMED'")
	refused := b.marked(b.Shop.Shop, "poison")
	batch := b.settleAndClaim(held[0], 3)
	require.Empty(t, batch.Items)
	require.True(t, batch.More)
	batch = b.claim(3)
	require.Len(t, batch.Parked, 1)
	require.Equal(t, refused, batch.Parked[0].ID)
}

func TestAPlainClaimWaitsForOtherClaims(t *testing.T) {
	b := newBench(t)
	b.claimed(1)
	b.Insert(b.Shop.Shop, 1)
	batch, _ := b.claimBehindAnother()
	require.Equal(t, Statements{Plain: 1}, batch.Statements)
}
