package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

func TestAReceiptAfterACount(t *testing.T) {
	type given struct {
		receipt Receipt
		tokens  []int64
		last    int64
		after   Receipt
	}
	must.Each(t, map[string]given{
		"no holder ever": {Receipt{}, nil, 0, Receipt{Floor: 1}},
		"no holder left": {Receipt{Floor: 3, To: 9}, nil, 20, Receipt{Floor: 21, To: 20}},
		"no holder beyond the known ones": {Receipt{Floor: 3, Held: 2, To: 9}, nil, 20,
			Receipt{Floor: 3, Held: 2, To: 20}},
		"recent tokens are counted again": {Receipt{}, []int64{12, 11}, 20, Receipt{Floor: 11, To: 10}},
		"recent tokens beside known holders": {Receipt{Floor: 3, Held: 2, To: 9}, []int64{12, 15}, 20,
			Receipt{Floor: 3, Held: 2, To: 11}},
		"an old token becomes a number":  {Receipt{}, []int64{5, 9000}, 9010, Receipt{Floor: 5, Held: 1, To: 8999}},
		"all old tokens become a number": {Receipt{}, []int64{7, 5, 6}, 9000, Receipt{Floor: 5, Held: 3, To: 9000}},
		"old tokens are added to the known holders": {Receipt{Floor: 2, Held: 4, To: 6}, []int64{9, 8000, 8001}, 9000,
			Receipt{Floor: 2, Held: 5, To: 7999}},
		"the receipt ends at the widest gap": {Receipt{}, []int64{10, 2000, 5000, 6000}, 6500,
			Receipt{Floor: 10, Held: 2, To: 4999}},
		"the last of equal gaps wins": {Receipt{}, []int64{1000, 3000, 5000}, 7000,
			Receipt{Floor: 1000, Held: 3, To: 7000}},
		"tokens of a sequence that was not copied": {Receipt{}, []int64{50, 70}, 4, Receipt{Floor: 5, To: 4}},
		"and old ones":                  {Receipt{}, []int64{5, 9000}, 8000, Receipt{Floor: 5, Held: 1, To: 8000}},
		"of which some were not copied": {Receipt{}, []int64{3, 70}, 4, Receipt{Floor: 3, To: 2}},
	}, func(t *testing.T, c given) {
		require.Equal(t, c.after, c.receipt.After(slices.Clone(c.tokens), c.last))
	})
}

func TestAReceiptAnewCountsAllHolders(t *testing.T) {
	t.Parallel()
	require.Equal(t, Receipt{Floor: 7, To: 6}, Receipt{Floor: 7, Held: 5, To: 90}.Recount())
	require.Equal(t, Receipt{}, Receipt{}.Recount())
}

// Holders come and go at random. The number held never exceeds what a receipt allows, and a new count is exact.
func TestAReceiptIsNeverLessThanWhatIsHeld(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var (
			receipt Receipt
			held    []int64
			last    int64
		)
		for range 30 {
			if r.IntN(5) == 0 {
				receipt = receipt.Recount()
			}
			var beyond []int64
			for _, token := range held {
				if token > receipt.To {
					beyond = append(beyond, token)
				}
			}
			require.GreaterOrEqual(t, receipt.Held+len(beyond), len(held), "%+v, last %d: %v", receipt, last, held)
			if receipt.Held == 0 {
				require.Len(t, beyond, len(held))
			}
			require.False(t, slices.ContainsFunc(held, func(token int64) bool { return token < receipt.Floor }))
			receipt = receipt.After(beyond, last)
			for range r.IntN(4) {
				last += 1 + int64(r.IntN(1+r.IntN(3000)))
				held = append(held, last)
			}
			for len(held) > 0 && r.IntN(3) > 0 {
				at := r.IntN(len(held))
				held = slices.Delete(held, at, at+1)
			}
		}
	}
}

func TestAnotherEpochForgetsAllReceipts(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.tenant("b", 9)
	d.waits("a", 0, 2, 0)
	d.waits("b", 0, 2, 0)
	receipt := Receipt{Floor: 7, Held: 1, To: 8}
	next := Position{Due: d.now}
	claim := func(epoch Epoch, leased ...int64) {
		p := d.s.Propose(d.now, Want{Free: 4})
		a := Answer{Epoch: epoch, Leased: leased, Last: 9000, Room: 9}
		for range p.Entries {
			a.Standings = append(a.Standings, Standing{Granted: 1, Limit: 9, Receipt: receipt, Next: &next})
		}
		d.s.Apply(d.now, p, a.at(d.now))
		d.now = d.now.Add(lockedFor)
	}
	claim(Epoch{1}, 20, 8990)
	p := d.s.Propose(d.now, Want{Free: 4})
	require.Equal(t, Epoch{1}, p.Epoch)
	require.Equal(t, Receipt{Floor: 20, Held: 1, To: 8989}, p.Leased)
	require.Equal(t, receipt, p.Entries[0].Receipt)

	claim(Epoch{2}, 10, 8990) // a crash has lost the start of the item with token 10
	p = d.s.Propose(d.now.Add(countAgain), Want{Free: 4})
	require.Equal(t, Epoch{2}, p.Epoch)
	require.Equal(t, Receipt{Floor: 10, To: 9}, p.Leased, "it begins below the holders of the earlier epoch")
	require.Equal(t, receipt, p.Entries[0].Receipt, "the receipt comes from the new answer")

	d.s.forget(Epoch{3})
	p = d.s.Propose(d.now, Want{Free: 4})
	require.Zero(t, p.Leased)
	require.Zero(t, p.Entries[0].Receipt)
	require.Zero(t, p.Entries[1].Receipt)

	claim(Epoch{}, 10)
	p = d.s.Propose(d.now, Want{Free: 4})
	require.Zero(t, p.Leased, "a crash may lose the commit that created the epoch")
	require.Zero(t, p.Entries[0].Receipt)
}

func TestOldLeasesAreCountedAgain(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.waits("a", 0, 1, 0)
	next := Position{Due: d.now}
	claim := func(p Proposal, room, taken int) {
		d.s.Apply(d.now, p, Answer{Epoch: Epoch{1}, Leased: []int64{5, 8990}, Last: 9000, Room: room,
			Standings: []Standing{{Granted: 2, Taken: taken, Limit: 9, Next: &next}}}.at(d.now))
	}
	claim(d.s.Propose(d.now, Want{Free: 1}), 9, 1)
	old := Receipt{Floor: 5, Held: 1, To: 8989}
	p := d.s.Propose(d.now.Add(countAgain-1), Want{Free: 2})
	require.Equal(t, old, p.Leased)
	require.Equal(t, Receipt{Floor: 5, To: 4}, d.s.Propose(d.now.Add(countAgain), Want{Free: 1}).Leased,
		"some holders may have ended")
	claim(p, 1, 1)
	require.True(t, d.s.Capped())
	require.Equal(t, Receipt{Floor: 5, To: 4}, d.s.Propose(d.now, Want{Free: 1}).Leased, "W may only appear to be reached")
}

func TestAWorkspaceWithVeryManyHoldersIsNotCountedAtOnceAgain(t *testing.T) {
	d := newDesk(t)
	d.tenant("a", 9)
	d.waits("a", 0, 1, 0)
	next := Position{Due: d.now}
	d.s.Apply(d.now, d.s.Propose(d.now, Want{Free: 1}), Answer{Epoch: Epoch{1}, Room: 9,
		Standings: []Standing{{Held: 5000, Limit: 5000, Counted: 5000, Next: &next}}}.at(d.now))
	require.Empty(t, d.propose(1))
	d.s.Learn(Change{Workspace: workspaceOf("a"), Items: 1})
	require.Empty(t, d.propose(1))
	require.Equal(t, d.now.Add(10*time.Millisecond), d.s.Next(d.now))
	d.now = d.now.Add(10 * time.Millisecond)
	require.Equal(t, "a@0*1", d.propose(1))
}
