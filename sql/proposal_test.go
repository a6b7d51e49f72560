package sql_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"
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
func (f fixture) ask(p proposal) standing { return f.askBy(p, sql.Text("claim")) }

// askBy claims with the claim statement of some version.
func (f fixture) askBy(p proposal, statement string) (s standing) {
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
	if !strings.Contains(statement, "$23)") {
		args = args[:21]
	}
	rows, err := f.db.Query(f.t.Context(), "select nullif(c.id, 0), c.standing from ("+statement+") c", args...)
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
		return f.askBy(p, statement)
	}
	require.NoError(f.t, err)
	return s
}

// During a rolling upgrade, replicas of the previous version claim through the functions of this one.
func TestTheClaimOfTheVersionBeforeClaims(t *testing.T) {
	t.Parallel()
	f := open(t)
	w := f.tenant("PRO")
	id := f.item(w)
	before := strings.NewReplacer("pgdispatch.claim_items(", "pgdispatch.claim(", "c.start_options, ",
		"", "coalesce(c.limit_key, '') as limit_key, ", "", ", $22, $23)", ")").Replace(sql.Text("claim"))
	require.NotContains(t, before, "start_options")
	got := f.askBy(proposal{entries: []entry{{workspace: w.workspace, items: 5}}}, before)
	require.Equal(t, []int64{id}, got.ids)
}

func TestTheVersionBeforeReadsTheStandingOfAClaim(t *testing.T) {
	t.Parallel()
	f := open(t)
	var got string
	row := f.db.QueryRow(t.Context(), `select pgdispatch.standing_before('{
		"at_time":"2026-01-01T00:00:00Z","took":7,"epoch":null,"paused":false,"room":9,"last_token":30,"tokens":[29],
		"grants":[1,0,2],"rates":[null,2.5,null],"allows":[null,0.5,null],
		"facts":[[5,0,11,8],[1,null,null,1],[20,1,13,20]],"counts":[[null,null],[4,21],[null,null]],
		"next_place":[3],"next_due":["2026-01-01T00:00:00Z"],"next_id":[6],"own":null,"shared":null}',
		array[2, 0, 3], array[28, 0, 30])`)
	require.NoError(t, row.Scan(&got))
	require.JSONEq(t, `{"at_time":"2026-01-01T00:00:00Z","took":7,"epoch":null,"paused":false,"room":9,"last_token":30,
		"tokens":[29],"grants":[1,0,2],"limits":[5,1,20],"numbers":[11,null,13],"pauses":[false,false,true],
		"counted":[null,4,null],"lowest":[null,21,null],"holders":[4,4,3],"rates":[null,2.5,null],"allows":[null,0.5,null],
		"next_place":[3],"next_due":["2026-01-01T00:00:00Z"],"next_id":[6]}`, got)
}
