package sql_test

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
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

// plain reports whether claim_plain serves the proposal: see claim.memory.
func (p proposal) plain() bool {
	workspaces := map[string]bool{}
	for _, e := range p.entries {
		if e.key != "" || e.burst || workspaces[e.workspace] {
			return false
		}
		workspaces[e.workspace] = true
	}
	return len(p.entries) > 0 && p.doubts == 0 && !p.alone && !p.careful && len(p.namespaces) == 0
}

// ask claims without a memory, by the procedure. If claim_plain serves the proposal too, it claims first, in a
// transaction that is rolled back, and must answer the same unless it declines.
func (f fixture) ask(p proposal) standing {
	plain := standing{Declined: true}
	if p.plain() && f.db == database(f.pool) {
		plain = f.askPlain(p)
	}
	s := f.askProcedure(p)
	if plain.Declined {
		require.Empty(f.t, plain.ids)
		return s
	}
	require.ElementsMatch(f.t, s.ids, plain.ids)
	plain.ids = s.ids
	require.Equal(f.t, firstLeft(s.Next), firstLeft(plain.Next))
	plain.Next = s.Next
	if p.epoch == "" { // claim_plain need not count: it knew the epoch
		for n, e := range s.Entries {
			plain.Entries[n].Holders, plain.Entries[n].LowestToken = e.Holders, e.LowestToken
		}
	}
	require.Equal(f.t, s, plain)
	return s
}

// firstLeft returns the first position that is left of each entry. A statement may return later ones, too.
func firstLeft(all []left) map[int]left {
	first := map[int]left{}
	for _, l := range all {
		if was, found := first[l.Entry]; !found || l.RunAt < was.RunAt || l.RunAt == was.RunAt && l.ID < was.ID {
			first[l.Entry] = l
		}
	}
	return first
}

// plainArguments are those of claim_plain. leased is the receipt of the leased items.
func plainArguments(owner, epoch string, atMost int, leased entry, entries []entry) []any {
	var (
		workspaces               []string
		priorities, items, helds []int
		dues                     []time.Time
		ids, floors, heldTos     []int64
	)
	for _, e := range entries {
		workspaces, priorities = append(workspaces, e.workspace), append(priorities, e.priority)
		items = append(items, e.items)
		dues, ids = append(dues, e.from), append(ids, 0)
		floors, helds, heldTos = append(floors, e.floor), append(helds, e.held), append(heldTos, e.heldTo)
	}
	return []any{owner, lease, nil, epoch, atMost, leased.held, leased.heldTo, workspaces, priorities, items, dues, ids,
		floors, helds, heldTos, "default"}
}

// askPlain claims with claim_plain and undoes it. If a row is locked, it returns what an answer that declines does.
func (f fixture) askPlain(p proposal) (s standing) {
	last := one[*int64](f, "select pg_sequence_last_value('pgdispatch.lease_tokens')")
	epoch, leased, entries := p.epoch, entry{held: p.leased, heldTo: p.leasedTo}, slices.Clone(p.entries)
	if p.epoch == "" { // without one, the procedure uses no receipt
		leased = entry{}
		for n, e := range entries {
			entries[n] = entry{workspace: e.workspace, priority: e.priority, items: e.items, from: e.from}
		}
		epoch = one[string](f, "select coalesce(min(e.id::text), $1) from pgdispatch.epoch e", nobody)
	}
	in, tx := f.begin()
	in.exec(sql.Text("lock_claims"))
	rows, err := tx.Query(f.t.Context(), sql.Text("claim_plain"),
		plainArguments(cmp.Or(p.owner, "replica-1"), epoch, cmp.Or(p.atMost, 100), leased, entries)...)
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
func TestClaimPlain_ClaimsAsTheProcedureDoes(t *testing.T) {
	f := open(t)
	f.exec("update pgdispatch.settings set max_claims = 40")
	tenants := []tenant{f.tenant("PRO"), f.tenant("ENTERPRISE"), f.tenant("PRO")}
	for _, x := range tenants {
		f.insert(x, 150, "priority, limit_key, run_at",
			"n % 3, (array['key'])[n % 5], now() + (n % 9 - 7) * interval '1 hour'")
	}
	f.claim(1) // so that there is an epoch
	epoch, receipts := f.epoch(), map[string]entry{}
	var leased entry
	took, none, shared := 0, 0, 0
	for range 200 {
		x := tenants[rand.N(len(tenants))]
		switch rand.N(8) {
		case 0:
			f.exec(`update pgdispatch.workspaces set max_concurrent_workflows = nullif($2::integer, 0), paused = random() < 0.2
				where id = $1`, x.workspace, rand.N(30))
		case 1:
			f.exec("update pgdispatch.settings set max_claims = (20 + 30 * random())::integer, paused = random() < 0.4")
		case 2, 6:
			f.exec("delete from pgdispatch.parked_items where random() < 0.5")
			f.exec(`insert into pgdispatch.parked_items (item_id, try_at, error, attempts)
				select q.id, now() + sign(random() - 0.5) * interval '1 hour', 'no', 1
				from pgdispatch.workflow_execution_queue q where q.stage = 'WAITS' and q.run_at < now()
				order by row_number() over (partition by q.workspace_id, q.priority order by q.run_at, q.id), random() limit 9
				on conflict (item_id) do nothing`)
		case 3, 4, 5: // items end
			f.exec(`with gone as (
					select q.id from pgdispatch.workflow_execution_queue q where q.stage = 'HOLDS' order by random() limit 9
				)
				update pgdispatch.workflow_execution_queue q set status = 'PENDING', claimed_by = null, claimed_at = null,
					lease_expires_at = null where q.id in (select id from gone) and q.status = 'CLAIMED'`)
		}
		p := proposal{epoch: epoch, atMost: 1 + rand.N(15), leased: leased.held, leasedTo: leased.heldTo}
		for _, n := range rand.Perm(len(tenants))[:1+rand.N(len(tenants))] {
			e := receipts[tenants[n].workspace]
			e.workspace, e.priority, e.items = tenants[n].workspace, rand.N(3), rand.N(9)
			if rand.N(5) == 0 {
				e.from = time.Now().Add(-time.Duration(rand.N(9)) * time.Hour)
			}
			p.entries = append(p.entries, e)
		}
		s := f.ask(p)
		if took += len(s.ids); len(s.ids) == 0 {
			none++
		} else if len(p.entries) > 1 && len(s.ids) == p.atMost {
			shared++
		}

		for n, e := range p.entries {
			receipt := entry{floor: e.floor, held: e.held, heldTo: e.heldTo}
			if counted := s.counted(n); counted != nil {
				receipt = entry{floor: s.LastToken + 1, held: int(*counted), heldTo: s.LastToken}
				if lowest := s.Entries[n].LowestToken; lowest != nil {
					receipt.floor = min(*lowest, receipt.floor)
				}
			}
			receipts[e.workspace] = receipt
		}
		leased = entry{held: len(s.Tokens) + leased.held, heldTo: s.LastToken}
	}
	require.Positive(t, took)
	require.Positive(t, none)
	require.Positive(t, shared)
}

func TestClaimPlain_DeclinesWhatNeedsMore(t *testing.T) {
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
		p := proposal{epoch: f.epoch(), entries: []entry{{workspace: w.workspace, items: 2, held: 1, heldTo: f.lastToken()}}}
		require.False(t, f.askPlain(p).Declined)
		f.exec(c)
		s := f.askPlain(p)
		require.True(t, s.Declined)
		require.Empty(t, s.ids)
	})
}

func TestClaimPlain_ReadsOnlyTheHoldersOfItsWorkspace(t *testing.T) {
	f, quiet := crowded(t)
	c, epoch, last := f.replicaConn(), f.epoch(), f.lastToken()
	f.items(quiet, 1)
	for range 2 {
		read := c.scanned("workflow_execution_queue", func() {
			c.exec("begin")
			c.exec(sql.Text("lock_claims"))
			require.EqualValues(t, 1, c.exec(sql.Text("claim_plain"),
				plainArguments("replica-1", epoch, 10, entry{heldTo: last}, []entry{{workspace: quiet.workspace, items: 10}})...))
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
