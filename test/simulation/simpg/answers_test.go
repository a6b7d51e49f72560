package simpg

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// encoded is the proposal as package claim sends it.
func (w *twins) encoded(p schedule.Proposal) string {
	entries := []map[string]any{}
	for _, e := range p.Entries {
		m := map[string]any{"workspace_id": uuid.UUID(e.Workspace), "priority": e.Priority, "items": e.Items,
			"burst": e.Burst, "run_at": e.From.Due, "id": e.From.ID, "floor": e.Receipt.Floor, "held": e.Receipt.Held,
			"held_to": e.Receipt.To}
		if e.Key != "" {
			m["limit_key"] = e.Key
		}
		entries = append(entries, m)
	}
	all := map[string]any{"at_most": p.AtMost, "leased": p.Leased.Held, "leased_to": p.Leased.To, "entries": entries,
		"unanswered": p.Unanswered, "alone": p.Alone, "careful": p.Want.Careful}
	if p.Epoch != (schedule.Epoch{}) {
		all["epoch"] = w.epoch
	}
	text := must.Get(json.Marshal(all)).In(w.t)
	return string(text)
}

// told is what both answer to a claim.
type told struct {
	Items     []int64
	Tokens    []int64 // of the items, which get them in any order
	Room      int
	Leased    []int64
	Last      int64
	Standings []toldStanding
}

type toldStanding struct {
	Granted, Limit, Burst int
	Counted               bool
	Holders               int
	Lowest                int64
	OwnRoom, AllRoom      int
	OwnWaits, AllWaits    bool   // for a rate of the key
	Allows                string // by the workspace's rate, before the claim; empty if it has none
	Next                  string
}

// holding lists the items that hold a slot, with their states and tokens.
func (w *twins) holding() (all []string) {
	for _, row := range w.rows {
		if row.holds() {
			all = append(all, fmt.Sprintf("%d:%d:%d", row.id, row.status, row.token))
		}
	}
	return all
}

func (w *twins) holdingReally() string {
	return sqltest.Scalar[string](w.Shop, `
		select coalesce(string_agg(q.id || ':' || q.status || ':' || q.lease_token, ' ' order by q.id), '')
		from pgdispatch.workflow_execution_queue q where q.stage in ('HOLDS', 'DOUBT')`)
}

// allowances are what the rates of the entries' workspaces allow.
func (w *twins) allowances(p schedule.Proposal) (list []string) {
	for _, e := range p.Entries {
		text := ""
		if allows, rated := w.allows(e.Workspace, w.now); rated {
			text = fmt.Sprintf("%.1f of %.1f", allows, w.rates[e.Workspace])
			w.cases["rated"]++
		}
		list = append(list, text)
	}
	return list
}

func (w *twins) toldOf(p schedule.Proposal, a schedule.Answer, taken []*itemRow, allows []string) told {
	is := told{Room: a.Room, Leased: slices.Sorted(slices.Values(a.Leased)), Last: a.Last}
	for _, row := range taken {
		is.Items, is.Tokens = append(is.Items, row.id), append(is.Tokens, row.token)
	}
	slices.Sort(is.Items)
	slices.Sort(is.Tokens)
	for n := range p.Entries {
		st := a.Standings[n]
		s := toldStanding{Granted: st.Granted, Limit: st.Limit, Burst: st.BurstLimit, Counted: !st.Bound,
			OwnRoom: schedule.NoLimit, AllRoom: schedule.NoLimit, Allows: allows[n]}
		if s.Counted {
			s.Holders, s.Lowest = st.Counted, st.Receipt.Floor
		}
		if p.Entries[n].Key != "" {
			s.OwnRoom, s.AllRoom = st.Own.Room, st.All.Room
			s.OwnWaits, s.AllWaits = st.Own.RetryIn > 0, st.All.RetryIn > 0
		}
		if st.Next != nil {
			s.Next = fmt.Sprint(st.Next.ID, " ", st.Next.Due.UTC().Format(time.RFC3339Nano))
		}
		is.Standings = append(is.Standings, s)
	}
	return is
}

// realAnswer is the standing in a claim's last row.
type realAnswer struct {
	Room      int     `json:"room"`
	LastToken int64   `json:"last_token"`
	Tokens    []int64 `json:"tokens"`
	Entries   []struct {
		Granted     int      `json:"granted"`
		Slots       int      `json:"slots"`
		BurstSlots  int      `json:"burst_slots"`
		Holders     *int     `json:"holders"`
		LowestToken *int64   `json:"lowest_token"`
		Rate        *float64 `json:"rate"`
		Allows      float64  `json:"allows"`
		Own         twinKey  `json:"own"`
		Shared      twinKey  `json:"shared"`
	} `json:"entries"`
	Next []struct {
		Entry int       `json:"entry"`
		RunAt time.Time `json:"run_at"`
		ID    int64     `json:"id"`
	} `json:"next"`
}

const realClaim = `select c.id, c.token, c.workspace_id, c.limit_key, c.outcome_unknown, c.standing::text
	from pgdispatch.claim('1', $1::interval, null, null, $2::text::jsonb) c`

// locks lets another transaction lock a waiting item, in some claims. It returns what ends that.
func (w *twins) locks() (unlock func()) {
	row := w.some(rowWaits)
	if row == nil || w.r.IntN(4) > 0 {
		return func() {}
	}
	tx, really := w.begin(true), must.Get(w.Conns.Begin(w.t.Context())).In(w.t)
	w.change(tx, row)
	must.Get(really.Exec(w.t.Context(),
		"select from pgdispatch.workflow_execution_queue where id = $1 for update", row.id)).In(w.t)
	return func() {
		w.close(tx, false)
		require.NoError(w.t, really.Rollback(w.t.Context()))
	}
}

// claimReally makes a claim of the real Postgres.
func (w *twins) claimReally(text string, p schedule.Proposal) (is told) {
	rows := must.Get(w.Conns.Query(w.t.Context(), realClaim, twinLease, text)).In(w.t)
	defer rows.Close()
	w.tokens = map[int64]int64{}
	own, all := map[scope]int{}, map[string]int{}
	var answer realAnswer
	for rows.Next() {
		var id, token int64
		var workspace, key string
		var unanswered bool
		var standing *string
		require.NoError(w.t, rows.Scan(&id, &token, &workspace, &key, &unanswered, &standing))
		if standing != nil {
			require.NoError(w.t, json.Unmarshal([]byte(*standing), &answer))
			continue
		}
		if w.tokens[id] = token; !unanswered {
			own[scope{schedule.WorkspaceID(uuid.MustParse(workspace)), key}]++
			all[key]++
		}
	}
	require.NoError(w.t, rows.Err())
	is.Items, is.Tokens = slices.Sorted(maps.Keys(w.tokens)), slices.Sorted(maps.Values(w.tokens))
	is.Room, is.Leased, is.Last = answer.Room, slices.Sorted(slices.Values(answer.Tokens)), answer.LastToken
	require.Len(w.t, answer.Entries, len(p.Entries))
	is.Standings = answer.standings(p, own, all)
	return is
}

// standings returns how the entries stand after the claim took so many items of their keys.
func (answer *realAnswer) standings(p schedule.Proposal, own map[scope]int, all map[string]int) (list []toldStanding) {
	for n, e := range answer.Entries {
		s := toldStanding{Granted: e.Granted, Limit: e.Slots, Burst: e.BurstSlots, Counted: e.Holders != nil,
			OwnRoom: schedule.NoLimit, AllRoom: schedule.NoLimit}
		if s.Counted {
			s.Holders, s.Lowest = *e.Holders, answer.LastToken+1
			if e.LowestToken != nil {
				s.Lowest = min(*e.LowestToken, s.Lowest)
			}
		}
		if e.Rate != nil {
			s.Allows = fmt.Sprintf("%.1f of %.1f", e.Allows, *e.Rate)
		}
		if key := p.Entries[n].Key; key != "" {
			s.OwnRoom, s.OwnWaits = e.Own.after(own[scope{p.Entries[n].Workspace, key}])
			s.AllRoom, s.AllWaits = e.Shared.after(all[key])
		}
		list = append(list, s)
	}
	least := map[int]schedule.Position{}
	for _, next := range answer.Next {
		at := schedule.Position{Due: next.RunAt, ID: next.ID}
		if first, found := least[next.Entry]; !found || at.Before(first) {
			least[next.Entry] = at
		}
	}
	for entry, at := range least {
		list[entry-1].Next = fmt.Sprint(at.ID, " ", at.Due.UTC().Format(time.RFC3339Nano))
	}
	return list
}

// loads compares what both say waits.
func (w *twins) loads() {
	var want, got []string
	for _, l := range w.load(func(*itemRow) bool { return true }) {
		n := l.Workspace[0]
		want = append(want, fmt.Sprint(uuid.UUID(l.Workspace), l.Priority, l.Key, l.From.ID,
			min(l.Held, max(w.limits[n], w.bursts[n])), l.Limit, l.BurstLimit, l.OwnFull, l.AllFull))
	}
	for _, row := range w.really("load", nil, nil, nil, nil, 1000) {
		if row["id"] != nil {
			id, ok := row["workspace_id"].([16]byte)
			require.True(w.t, ok)
			got = append(got, fmt.Sprint(uuid.UUID(id), row["priority"], row["limit_key"], row["id"], row["held"], row["slots"],
				row["burst_limit"], row["own_full"], row["all_full"]))
		}
	}
	require.ElementsMatch(w.t, want, got)
}

// looks compares what both report since the last look.
func (w *twins) looks() string {
	defer w.arrives(w.seen, w.reallySaw)
	news := w.look(w.seen, math.MaxInt)
	w.seen = news.now
	var want, got []string
	all := false
	for _, c := range news.changes {
		line := fmt.Sprint(uuid.UUID(c.Workspace), c.Keys, c.Items)
		if c.Waits {
			line += fmt.Sprint(c.Priority, c.Key, c.Due.UnixMicro())
		}
		want = append(want, line)
	}
	for _, row := range w.really("look", w.reallySaw, 1000, nil) {
		w.reallySaw = row["seen"].(string)
		switch id, named := row["workspace_id"].([16]byte); {
		case row["changed"] != true:
		case !named:
			all = true
		default:
			keys := []string{}
			if list, some := row["limit_keys"].([]any); some {
				for _, key := range list {
					keys = append(keys, key.(string))
				}
			}
			line := fmt.Sprint(uuid.UUID(id), keys, row["items"])
			if row["priority"] != nil {
				line += fmt.Sprint(row["priority"], row["limit_key"], row["due"].(time.Time).UnixMicro())
			}
			got = append(got, line)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(w.t, want, got)
	require.Equal(w.t, news.all, all, "all limits")
	return "look"
}

// arrives compares what both say each transaction enqueued since these snapshots, as far as they are asked.
func (w *twins) arrives(seen snapshot, reallySaw string) {
	most, want, got := 1+w.r.IntN(2), []string{}, map[any]string{}
	for _, came := range w.Arrivals(encodeSnapshot(seen), encodeSnapshot(w.seen), most) {
		text := ""
		for _, l := range came {
			text += fmt.Sprint(uuid.UUID(l.Workspace), l.Priority, l.Key, l.From.Due.UnixMicro(), " ")
		}
		want = append(want, text)
	}
	for _, row := range w.really("arrivals", reallySaw, w.reallySaw, most) {
		got[row["xid"]] += fmt.Sprint(uuid.UUID(row["workspace_id"].([16]byte)), row["priority"], row["limit_key"],
			row["due"].(time.Time).UnixMicro(), " ")
	}
	require.ElementsMatch(w.t, want, slices.Collect(maps.Values(got)))
	w.cases["arrivals"] += len(got)
}

// really returns the rows of a statement of the real Postgres, by the names of their columns.
func (w *twins) really(statement string, args ...any) []map[string]any {
	rows := must.Get(w.Conns.Query(w.t.Context(), sql.Text(statement), args...)).In(w.t)
	all := must.Get(pgx.CollectRows(rows, pgx.RowToMap)).In(w.t)
	return all
}

type twinKey struct {
	Room   *int `json:"room"`
	Starts *int `json:"starts"`
}

// after returns the room after so many items are taken, and whether others wait for a rate.
func (k twinKey) after(taken int) (room int, waits bool) {
	if room = schedule.NoLimit; k.Room != nil {
		room = max(*k.Room-taken, 0)
	}
	return room, k.Starts != nil && *k.Starts <= taken
}
