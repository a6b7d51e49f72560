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
	// Of each entry: see functions/claim_grants.sql and claim_keys.sql.
	Facts  [][4]*int64   `json:"facts"`
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

// ask claims without a memory.
func (f fixture) ask(p proposal) (s standing) {
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
	rows, err := f.db.Query(f.t.Context(), "select nullif(c.id, 0), c.standing from ("+sql.Text("claim")+") c", args...)
	require.NoError(f.t, err)
	var id *int64
	var said []byte
	s.ids = []int64{}
	_, err = pgx.ForEachRow(rows, []any{&id, &said}, func() error {
		if id == nil {
			return json.Unmarshal(said, &s)
		}
		s.ids = append(s.ids, *id)
		return nil
	})
	if postgres.HasCode(err, postgres.LockNotAvailable) && !p.careful {
		p.careful = true // as a replica does
		return f.ask(p)
	}
	require.NoError(f.t, err)
	return s
}
