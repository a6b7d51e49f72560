package sql_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

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

// standing is an answer and the counts in it.
type standing struct {
	ids       []int64
	Epoch     *string `json:"epoch"`
	Paused    bool    `json:"paused"`
	Room      int     `json:"room"`
	LastToken int64   `json:"last_token"`
	Tokens    []int64 `json:"tokens"`
	Grants    []int   `json:"grants"`
	NextPlace []int   `json:"next_place"`
	NextDue   []any   `json:"next_due"`
	NextID    []int64 `json:"next_id"`
	Declined  bool    `json:"declined"`
	// Of each entry: see functions/claim_grants.sql and claim_keys.sql.
	Facts  [][4]*int64   `json:"facts"`
	Rates  []*float64    `json:"rates"`
	Counts [][2]*int64   `json:"counts"`
	Own    [][3]*float64 `json:"own"`
	Shared [][3]*float64 `json:"shared"`
}

// counted returns how many holders of the nth entry's workspace were counted, or nil.
func (s standing) counted(n int) *int64 {
	if s.Counts == nil {
		return nil
	}
	return s.Counts[n][0]
}

// line reports whether claim_line serves the proposal: see claim.memory.
func (p proposal) line() bool {
	return len(p.entries) == 1 && p.doubts == 0 && !p.alone && !p.careful && len(p.namespaces) == 0 &&
		p.entries[0].key == "" && !p.entries[0].burst
}

// ask claims without a memory, by the procedure. If claim_line serves the proposal too, it claims first, in a
// transaction that is rolled back, and must answer the same unless it declines.
func (f fixture) ask(p proposal) standing {
	f.t.Helper()
	line := standing{Declined: true}
	if p.line() && f.db == database(f.pool) {
		line = f.askLine(p)
	}
	s := f.askProcedure(p)
	if line.Declined {
		require.Empty(f.t, line.ids)
		return s
	}
	require.ElementsMatch(f.t, s.ids, line.ids)
	line.ids = s.ids
	same := s
	if len(s.NextPlace) > 1 { // the procedure also returns what is not due, in order
		same.NextPlace, same.NextDue, same.NextID = s.NextPlace[:1], s.NextDue[:1], s.NextID[:1]
	}
	if p.epoch == "" {
		line.Counts = s.Counts // which claim_line needed not do: it knew the epoch
	}
	if len(line.NextPlace) == 0 {
		line.NextDue, line.NextID = nil, nil
	}
	require.Equal(f.t, same, line)
	return s
}

// askLine claims with claim_line and undoes it. If a row is locked, it returns what an answer that declines does.
func (f fixture) askLine(p proposal) (s standing) {
	f.t.Helper()
	last := one[*int64](f, "select pg_sequence_last_value('pgdispatch.lease_tokens')")
	epoch, e := p.epoch, p.entries[0]
	if p.epoch == "" { // without one, the procedure uses no receipt
		p.leased, p.leasedTo, e.floor, e.held, e.heldTo = 0, 0, 0, 0, 0
		epoch = one[string](f, "select coalesce(min(e.id::text), $1) from pgdispatch.epoch e", nobody)
	}
	in, tx := f.begin()
	in.exec(sql.Text("lock_claims"))
	rows, err := tx.Query(f.t.Context(), sql.Text("claim_line"),
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
	f.t.Helper()
	var epoch *string
	if p.epoch != "" {
		epoch = &p.epoch
	}
	n := len(p.entries)
	workspaces, priorities, items, due := make([]string, n), make([]int, n), make([]int, n), make([]time.Time, n)
	ids, floors, held, heldTo := make([]int64, n), make([]int64, n), make([]int, n), make([]int64, n)
	for k, e := range p.entries {
		workspaces[k], priorities[k], items[k], floors[k], held[k], heldTo[k] = e.workspace, e.priority, e.items, e.floor,
			e.held, e.heldTo
		due[k] = e.from
	}
	var keys []*string
	for k, e := range p.entries {
		if e.key != "" {
			keys = append(keys, slices.Repeat([]*string{nil}, n-len(keys))...)
			keys[k] = &e.key
		}
	}
	var bursts []bool
	for k, e := range p.entries {
		if e.burst {
			bursts = append(bursts, make([]bool, n-len(bursts))...)
			bursts[k] = true
		}
	}
	namespaces, allowed := []string{}, []int{}
	for name, items := range p.namespaces {
		namespaces, allowed = append(namespaces, name), append(allowed, items)
	}
	args := []any{cmp.Or(p.owner, "replica-1"), lease, nil, epoch, cmp.Or(p.atMost, 100),
		p.doubts, p.alone, p.leased, p.leasedTo, workspaces, priorities, items, due, ids, floors, held, heldTo, p.careful,
		"default", namespaces, allowed, keys, bursts}
	rows, err := f.db.Query(f.t.Context(), sql.Text("claim"), args...)
	require.NoError(f.t, err)
	s, err := readStanding(rows)
	if postgres.HasCode(err, postgres.LockNotAvailable) && !p.careful {
		p.careful = true // as a replica does
		return f.askProcedure(p)
	}
	require.NoError(f.t, err)
	return s
}
