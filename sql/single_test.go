package sql_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// ask compares the two statements.
func TestALineIsClaimedAsTheProcedureClaimsIt(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.exec("update pgdispatch.settings set max_claims = 40")
	w, other := f.tenant("PRO"), f.tenant("ENTERPRISE")
	for _, x := range []tenant{w, other} {
		f.exec(`insert into pgdispatch.workflow_execution_queue
				(workspace_id, workflow_definition_id, priority, limit_key, run_at)
			select $1, $2, n % 3, (array['key'])[n % 5], now() + (n % 9 - 7) * interval '1 hour'
			from generate_series(1, 150) n`, x.workspace, x.definition)
	}
	f.claim(1) // so that there is an epoch
	epoch, receipts := f.epoch(), map[string]entry{}
	var leased entry
	took, none := 0, 0
	for range 200 {
		x := []tenant{w, other}[rand.N(2)]
		switch rand.N(8) {
		case 0:
			f.exec(`update pgdispatch.workspaces set max_concurrent_workflows = nullif($2::integer, 0), paused = random() < 0.2
				where id = $1`, x.workspace, rand.N(30))
		case 1:
			f.exec("update pgdispatch.settings set max_claims = (20 + 30 * random())::integer, paused = random() < 0.4")
		case 2:
			f.exec("delete from pgdispatch.parked_items where random() < 0.5")
			f.exec(`insert into pgdispatch.parked_items (item_id, try_at, error, attempts)
				select q.id, now() + sign(random() - 0.5) * interval '1 hour', 'no', 1
				from pgdispatch.workflow_execution_queue q where q.stage = 'WAITS' and q.run_at < now()
				order by q.run_at, random() limit 6
				on conflict (item_id) do nothing`)
		case 3, 4, 5: // items end
			f.exec(`with gone as (
					select q.id from pgdispatch.workflow_execution_queue q where q.stage = 'HOLDS' order by random() limit 9
				)
				update pgdispatch.workflow_execution_queue q set status = 'PENDING', claimed_by = null, claimed_at = null,
					lease_expires_at = null where q.id in (select id from gone) and q.status = 'CLAIMED'`)
		}
		e := receipts[x.workspace]
		e.workspace, e.priority, e.items = x.workspace, rand.N(3), rand.N(9)
		if rand.N(5) == 0 {
			e.from = time.Now().Add(-time.Duration(rand.N(9)) * time.Hour)
		}
		s := f.ask(proposal{epoch: epoch, atMost: 1 + rand.N(9), leased: leased.held, leasedTo: leased.heldTo,
			entries: []entry{e}})
		if took += len(s.ids); len(s.ids) == 0 {
			none++
		}
		receipt := entry{floor: e.floor, held: e.held, heldTo: e.heldTo}
		if n := s.counted(0); n != nil {
			receipt = entry{floor: s.LastToken + 1, held: int(*n), heldTo: s.LastToken}
			if lowest := s.Entries[0].LowestToken; lowest != nil {
				receipt.floor = min(*lowest, receipt.floor)
			}
		}
		receipts[x.workspace], leased = receipt, entry{held: len(s.Tokens) + leased.held, heldTo: s.LastToken}
	}
	require.Positive(t, took)
	require.Positive(t, none)
}

// What claim_single cannot do, it leaves to the procedure, untouched.
func TestALineThatNeedsMoreIsDeclined(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]string{
		"with a rate of starts": "update pgdispatch.workspaces set max_starts_per_second = 5",
		"with an expired lease": `update pgdispatch.workflow_execution_queue set lease_expires_at = now()
			where stage = 'HOLDS'`,
		"in another epoch":         "delete from pgdispatch.epoch",
		"of a workspace that went": "delete from pgdispatch.workspaces",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			w := f.tenant("PRO")
			f.items(w, 3)
			f.claim(1)
			p := proposal{epoch: f.epoch(), entries: []entry{{workspace: w.workspace, items: 2}}}
			require.False(t, f.askSingle(p).Declined)
			f.exec(c)
			s := f.askSingle(p)
			require.True(t, s.Declined)
			require.Empty(t, s.ids)
		})
	}
}

func TestALineReadsOnlyTheHoldersOfItsWorkspace(t *testing.T) {
	t.Parallel()
	f, quiet := crowded(t)
	c, epoch, last := f.replicaConn(), f.epoch(), f.lastToken()
	f.items(quiet, 1)
	for range 2 {
		read := c.scanned("workflow_execution_queue", func() {
			c.exec("begin")
			c.exec(sql.Text("lock_claims"))
			require.EqualValues(t, 1, c.exec(sql.Text("claim_single"), "replica-1", lease, nil, epoch, 10, 0, last,
				quiet.workspace, 0, 10, time.Time{}, 0, 0, 0, 0, "default"))
			c.exec("rollback")
		})
		require.Zero(t, read.Sequential)
		require.LessOrEqual(t, read.Index, int64(5))
	}
}

func TestLockClaimsKeepsOtherClaimsOut(t *testing.T) {
	t.Parallel()
	f := open(t)
	first, tx := f.begin()
	first.exec(sql.Text("lock_claims"))
	second, _ := f.begin()
	second.exec("set local lock_timeout = '1ms'") // which it raises for the lock
	require.Equal(t, "57014", func() string {
		second.exec("set local statement_timeout = '50ms'")
		return second.refused(sql.Text("lock_claims")).Code
	}())
	require.NoError(t, tx.Rollback(t.Context()))
	in, _ := f.begin()
	in.exec("set transaction isolation level repeatable read")
	require.Equal(t, "PGD30", in.refused(sql.Text("lock_claims")).Code)
}
