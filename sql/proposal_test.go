package sql_test

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// proposal is a claim's arguments, which a wrong memory may set to anything.
type proposal struct {
	owner      string // "": replica-1
	epoch      string // "": unknown
	atMost     int    // 0: 100
	doubts     int
	alone      bool
	leased     int
	leasedTo   int64
	entries    []entry
	careful    bool
	namespaces map[string]int
}

type entry struct {
	workspace       string
	key             string
	priority, items int
	floor           int64
	held            int
	heldTo          int64
	burst           bool
	from            time.Time // due at the position to begin at
}

// json returns the proposal as the statements take it: see tables/003_claim_types.sql.
func (p proposal) json() string {
	entries := []any{}
	for _, e := range p.entries {
		asked := map[string]any{"workspace_id": e.workspace, "priority": e.priority, "items": e.items, "burst": e.burst,
			"run_at": e.from, "id": 0, "floor": e.floor, "held": e.held, "held_to": e.heldTo}
		if e.key != "" {
			asked["limit_key"] = e.key
		}
		entries = append(entries, asked)
	}
	asked := map[string]any{"at_most": cmp.Or(p.atMost, 100), "leased": p.leased, "leased_to": p.leasedTo,
		"entries": entries, "unanswered": p.doubts, "alone": p.alone, "careful": p.careful}
	if p.epoch != "" {
		asked["epoch"] = p.epoch
	}
	if len(p.namespaces) > 0 {
		asked["namespaces"] = p.namespaces
	}
	text, err := json.Marshal(asked)
	if err != nil {
		panic(err) // unreachable: no value is one that JSON lacks
	}
	return string(text)
}

// standing is an answer and the IDs in it.
type standing struct {
	ids       []int64
	Epoch     *string `json:"epoch"`
	Paused    bool    `json:"paused"`
	Room      int     `json:"room"`
	LastToken int64   `json:"last_token"`
	Tokens    []int64 `json:"tokens"`
	Declined  bool    `json:"declined"`
	// Entries are how the entries stand, and Next what is left of them: see tables/003_claim_types.sql.
	Entries []entryStanding `json:"entries"`
	Next    []left          `json:"next"`
}

type entryStanding struct {
	Granted     int         `json:"granted"`
	Slots       int         `json:"slots"`
	BurstSlots  int         `json:"burst_slots"`
	Paused      bool        `json:"paused"`
	WakeNumber  *int64      `json:"wake_number"`
	Rate        *float64    `json:"rate"`
	Holders     *int64      `json:"holders"`
	LowestToken *int64      `json:"lowest_token"`
	Own         keyStanding `json:"own"`
	Shared      keyStanding `json:"shared"`
}

type keyStanding struct {
	Room   *int `json:"room"`
	Starts *int `json:"starts"`
}

type left struct {
	Entry int    `json:"entry"`
	RunAt string `json:"run_at"`
	ID    int64  `json:"id"`
}

// counted returns how many holders of the nth entry's workspace were counted, or nil.
func (s standing) counted(n int) *int64 { return s.Entries[n].Holders }

// granted returns how many items of each entry could be claimed.
func (s standing) granted() (all []int) {
	for _, e := range s.Entries {
		all = append(all, e.Granted)
	}
	return all
}

// single reports whether claim_single serves the proposal: see claim.memory.
func (p proposal) single() bool {
	return len(p.entries) == 1 && p.doubts == 0 && !p.alone && !p.careful && len(p.namespaces) == 0 &&
		p.entries[0].key == "" && !p.entries[0].burst
}

// ask claims without a memory, by the procedure. If claim_single serves the proposal too, it claims first, in a
// transaction that is rolled back, and must answer the same unless it declines.
func (f fixture) ask(p proposal) standing {
	single := standing{Declined: true}
	if p.single() && f.db == database(f.pool) {
		single = f.askSingle(p)
	}
	s := f.askProcedure(p)
	if single.Declined {
		require.Empty(f.t, single.ids)
		return s
	}
	require.ElementsMatch(f.t, s.ids, single.ids)
	single.ids = s.ids
	same := s
	if len(s.Next) > 1 { // the procedure also returns what is not due, in order
		same.Next = s.Next[:1]
	}
	if p.epoch == "" { // claim_single need not count: it knew the epoch
		single.Entries[0].Holders, single.Entries[0].LowestToken = s.Entries[0].Holders, s.Entries[0].LowestToken
	}
	require.Equal(f.t, same, single)
	return s
}

// askSingle claims with claim_single and undoes it. If a row is locked, it returns what an answer that declines does.
func (f fixture) askSingle(p proposal) (s standing) {
	last := one[*int64](f, "select pg_sequence_last_value('pgdispatch.lease_tokens')")
	epoch, e := p.epoch, p.entries[0]
	if p.epoch == "" { // without one, the procedure uses no receipt
		p.leased, p.leasedTo, e.floor, e.held, e.heldTo = 0, 0, 0, 0, 0
		epoch = one[string](f, "select coalesce(min(e.id::text), $1) from pgdispatch.epoch e", nobody)
	}
	in, tx := f.begin()
	in.exec(sql.Text("lock_claims"))
	rows, err := tx.Query(f.t.Context(), sql.Text("claim_single"),
		cmp.Or(p.owner, "replica-1"), lease, nil, epoch, cmp.Or(p.atMost, 100), p.leased, p.leasedTo, e.workspace,
		e.priority, e.items, e.from, 0, e.floor, e.held, e.heldTo, "default")
	require.NoError(f.t, err)
	s, err = readStanding(rows)
	if postgres.HasCode(err, postgres.LockNotAvailable) {
		s, err = standing{Declined: true}, nil
	}
	require.NoError(f.t, err)
	require.NoError(f.t, tx.Rollback(f.t.Context()))
	if last != nil {
		f.exec("select setval('pgdispatch.lease_tokens', $1)", *last) // for the same answer
	}
	return s
}

// readStanding reads the rows of a claim: the ID of each item, and how the entries stand.
func readStanding(rows pgx.Rows) (s standing, err error) {
	var id int64
	var said []byte
	columns := make([]any, len(rows.FieldDescriptions()))
	for n, column := range rows.FieldDescriptions() {
		switch column.Name {
		case "id":
			columns[n] = &id
		case "standing":
			columns[n] = &said
		}
	}
	s.ids = []int64{}
	_, err = pgx.ForEachRow(rows, columns, func() error {
		if id != 0 {
			s.ids = append(s.ids, id)
		}
		if said == nil {
			return nil
		}
		return json.Unmarshal(said, &s)
	})
	return s, err
}

// askProcedure claims without a memory, by the procedure.
func (f fixture) askProcedure(p proposal) standing {
	rows := must.Get(f.db.Query(f.t.Context(), sql.Text("claim"), cmp.Or(p.owner, "replica-1"), lease, nil, "default",
		p.json())).In(f.t)
	s, err := readStanding(rows)
	if postgres.HasCode(err, postgres.LockNotAvailable) && !p.careful {
		p.careful = true // as a replica does
		return f.askProcedure(p)
	}
	require.NoError(f.t, err)
	return s
}

// ask compares the two statements.
func TestALineIsClaimedAsTheProcedureClaimsIt(t *testing.T) {
	f := open(t)
	f.exec("update pgdispatch.settings set max_claims = 40")
	w, other := f.tenant("PRO"), f.tenant("ENTERPRISE")
	for _, x := range []tenant{w, other} {
		f.insert(x, 150, "priority, limit_key, run_at",
			"n % 3, (array['key'])[n % 5], now() + (n % 9 - 7) * interval '1 hour'")
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

func TestALineThatNeedsMoreIsDeclined(t *testing.T) {
	must.Each(t, map[string]string{
		"with a rate of starts": "update pgdispatch.workspaces set max_starts_per_second = 5",
		"with an expired lease": `update pgdispatch.workflow_execution_queue set lease_expires_at = now()
			where stage = 'HOLDS'`,
		"in another epoch":         "delete from pgdispatch.epoch",
		"of a workspace that went": "delete from pgdispatch.workspaces",
	}, func(t *testing.T, c string) {
		f, w := openFor(t, "PRO")
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

func TestALineReadsOnlyTheHoldersOfItsWorkspace(t *testing.T) {
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
	f := open(t)
	first, tx := f.begin()
	first.exec(sql.Text("lock_claims"))
	second, _ := f.begin()
	second.exec("set local lock_timeout = '1ms'") // which it raises for the lock
	second.exec("set local statement_timeout = '50ms'")
	second.refusedAs("57014", "", sql.Text("lock_claims"))
	require.NoError(t, tx.Rollback(t.Context()))
	in, _ := f.begin()
	in.exec("set transaction isolation level repeatable read")
	in.refusedAs("PGD30", "", sql.Text("lock_claims"))
}
