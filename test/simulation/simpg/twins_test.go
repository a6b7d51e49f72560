package simpg

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

func TestMain(m *testing.M) { sqltest.Main(m) }

// twins are a simulated Postgres and a real one. They are given the same operations, and must give the same answers.
// Each operation commits at once. IDs and tokens are the same in both, and so is the time.
type twins struct {
	*Postgres
	*sqltest.Shop
	t         *testing.T
	receipts  map[schedule.WorkspaceID]schedule.Receipt // of the last answers
	leased    schedule.Receipt
	epoch     string   // of the real one
	seen      snapshot // of the last look, and that of the real one
	reallySaw string
	grants    int             // items that claims have given
	tokens    map[int64]int64 // of the items of the last claim
	cases     map[string]int
}

const (
	twinWorkspaces = 3
	// twinLease is longer than a test: leases expire because they are aged.
	twinLease = time.Hour
)

func newTwins(t *testing.T, seed uint64) *twins {
	t.Helper()
	w := &twins{Postgres: empty(rand.New(rand.NewPCG(seed, 4))), Shop: sqltest.NewShop(t), t: t,
		receipts: map[schedule.WorkspaceID]schedule.Receipt{}, cases: map[string]int{}}
	w.Execute("delete from pgdispatch.workspaces")
	w.Execute("update pgdispatch.settings set max_claims = $1", W)
	for n := range twinWorkspaces {
		limit, burst := w.r.IntN(9), w.r.IntN(12)
		w.limits, w.bursts = append(w.limits, limit), append(w.bursts, burst)
		id := uuid.UUID(schedule.WorkspaceID{byte(n)}).String()
		w.Execute(`insert into pgdispatch.workspaces (id, name, max_concurrent_workflows, max_burst_workflows, wake_number)
			values ($1, $2, $3, $4, $5)`, id, fmt.Sprint("w", n), limit, burst, 1000+n)
		w.Execute(`insert into pgdispatch.workflow_definitions (id, workspace_id, name, workflow_type, task_queue)
			values ($1, $1, 'order', 'Order', 'orders')`, id)
		w.Execute(`insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
			values ($1, 1, '{"nodes": [{"id": "n1"}], "edges": []}')`, id)
	}
	w.epoch = sqltest.Scalar[string](w.Shop, sql.Text("epoch"))
	w.Postgres.epoch = schedule.Epoch{1}
	w.last = sqltest.Scalar[int64](w.Shop,
		"select case when is_called then last_value else last_value - 1 end from pgdispatch.lease_tokens")
	w.seen, w.reallySaw = w.snapshot(), sqltest.Scalar[string](w.Shop, "select pg_current_snapshot()::text")
	// The first real ID is not zero, as the simulated one is.
	first := sqltest.Scalar[int64](w.Shop,
		"select nextval(pg_get_serial_sequence('pgdispatch.workflow_execution_queue', 'id'))")
	for range first + 1 {
		w.rows = append(w.rows, &itemRow{status: rowEnded, item: item{id: int64(len(w.rows)), workspace: everywhere}})
	}
	return w
}

// some returns a row in one of these states, or nil.
func (w *twins) some(states ...byte) *itemRow {
	rows := slices.DeleteFunc(slices.Clone(w.rows), func(r *itemRow) bool {
		return r.workspace == everywhere || !slices.Contains(states, r.status)
	})
	if len(rows) == 0 {
		return nil
	}
	return rows[w.r.IntN(len(rows))]
}

// both changes a simulated row by a commit, and then the real one by a statement.
func (w *twins) both(change func(tx *Tx), statement string, args ...any) {
	tx := w.Begin(true)
	change(tx)
	w.Close(tx, true)
	require.Empty(w.t, w.broken)
	done := must.Get(w.Conns.Exec(w.t.Context(), statement, args...)).In(w.t)
	require.EqualValues(w.t, 1, done.RowsAffected())
}

func (w *twins) step() (name string) {
	w.now = time.Now().Truncate(time.Microsecond)
	switch n := w.r.IntN(18); {
	case n > 15:
		return w.looks()
	case n < 4:
		w.enqueue()
		return "enqueue"
	case n < 6:
		return w.settles()
	case n == 6:
		return w.expires()
	case n == 7:
		return w.ends()
	case n == 8:
		return w.limit()
	case n == 9 && w.r.IntN(4) == 0:
		return w.refills()
	case n == 9:
		return w.limitKey()
	default:
		w.claims()
		return "claim"
	}
}

// enqueue inserts an item or two in a transaction.
func (w *twins) enqueue() {
	tx, really := w.begin(true), must.Get(w.Conns.Begin(w.t.Context())).In(w.t)
	for range 1 + w.r.IntN(2) {
		workspace, priority := schedule.WorkspaceID{byte(w.r.IntN(twinWorkspaces))}, w.r.IntN(3)
		key := append([]string{"", ""}, Keys...)[w.r.IntN(2+len(Keys))]
		due := w.now.Add(time.Duration(w.r.IntN(5)-4) * time.Second)
		if w.r.IntN(6) == 0 {
			due = w.now.Add(time.Hour)
		}
		row, id := w.insert(tx, workspace, key, priority, due), int64(0)
		require.NoError(w.t, really.QueryRow(w.t.Context(), `insert into pgdispatch.workflow_execution_queue
				(workspace_id, workflow_definition_id, priority, run_at, limit_key)
			values ($1, $1, $2, $3, nullif($4, '')) returning id`, uuid.UUID(workspace), priority, due, key).Scan(&id))
		require.Equal(w.t, row.id, id)
	}
	w.close(tx, true)
	require.NoError(w.t, really.Commit(w.t.Context()))
}

// settles ends a claim in one of the ways that it can end.
func (w *twins) settles() string {
	row := w.some(rowClaimed)
	if row == nil || !row.lease.After(w.now) {
		return "nothing to settle"
	}
	ids, tokens := []int64{row.id}, []int64{row.token}
	settle := func(verb string, end Settlement, args ...any) {
		end.Run = "run"
		w.both(func(tx *Tx) { w.Settle(tx, row.owner, verb, row.id, row.token, end) }, sql.Text(verb),
			append([]any{ids, tokens}, args...)...)
	}
	release := func(end Settlement) {
		settle("release", end, []string{""}, []time.Duration{0}, []bool{end.Unanswered}, []bool{end.Alone},
			[]bool{end.Missing})
	}
	switch w.r.IntN(6) {
	case 0:
		release(Settlement{})
		return "release"
	case 1:
		release(Settlement{Unanswered: true})
		return "release, unanswered"
	case 2:
		release(Settlement{Alone: true})
		return "release, alone"
	case 3:
		settle("fail", Settlement{}, []string{"no"})
		return "fail"
	default:
		settle("dispatched", Settlement{}, []string{"run"}, nil)
		return "dispatched"
	}
}

// expires lets a lease expire.
func (w *twins) expires() string {
	row := w.some(rowClaimed)
	if row == nil {
		return "nothing to expire"
	}
	w.both(func(tx *Tx) { w.change(tx, row).lease = w.now.Add(-time.Second) },
		`update pgdispatch.workflow_execution_queue
		set lease_expires_at = clock_timestamp() - interval '1 second' where id = $1`, row.id)
	return "expire"
}

func (w *twins) ends() string {
	row := w.some(rowDispatched)
	if row == nil {
		return "nothing to end"
	}
	w.ended[row.id] = true
	w.both(func(tx *Tx) { w.Finish(tx, row.id) }, `select from pgdispatch.workflow_execution_queue q
		where q.id = $1 and pgdispatch.finish(q.execution_id, 'COMPLETED', null, null)`, row.id)
	return "end"
}

func (w *twins) limit() string {
	n, rate := w.r.IntN(twinWorkspaces), w.r.IntN(6)
	id := schedule.WorkspaceID{byte(n)}
	w.limits[n], w.bursts[n], w.rates[id] = w.r.IntN(9), w.r.IntN(12), float64(rate)
	if rate == 0 || rate > 3 {
		rate = 0
		delete(w.rates, id)
	}
	w.Execute(`update pgdispatch.workspaces set max_concurrent_workflows = $2, max_burst_workflows = $3,
			max_starts_per_second = nullif($4::integer, 0)
		where id = $1`, uuid.UUID(id).String(), w.limits[n], w.bursts[n], rate)
	tx := w.begin(true)
	tx.mark(schedule.Change{Workspace: id})
	w.close(tx, true)
	return "limit"
}

// refills adds an item to all buckets. Time adds nothing, because it differs between the two.
func (w *twins) refills() string {
	w.Execute("update pgdispatch.rates set tokens = tokens + 1")
	for id, b := range w.buckets {
		b.tokens++
		w.buckets[id] = b
	}
	return "refill"
}

// freezes lets no time pass for the buckets of rates.
func (w *twins) freezes() {
	w.Execute("update pgdispatch.rates set at = clock_timestamp() + interval '1 hour'")
	for id, b := range w.buckets {
		b.at = w.now.Add(time.Hour)
		w.buckets[id] = b
	}
}

// limitKey replaces the limit of a key, or deletes it. What its rates have counted does not end within a test.
func (w *twins) limitKey() string {
	s := scope{everywhere, Keys[w.r.IntN(len(Keys))]}
	var workspace *string
	if n := w.r.IntN(2 * twinWorkspaces); n < twinWorkspaces {
		id := uuid.UUID(schedule.WorkspaceID{byte(n)}).String()
		s.workspace, workspace = schedule.WorkspaceID{byte(n)}, &id
	}
	tx := w.begin(true)
	defer w.close(tx, true)
	w.setKeyLimit(tx, s, 0, nil, true)
	w.Execute("delete from pgdispatch.limits where key = $1 and workspace_id is not distinct from $2::uuid", s.key,
		workspace)
	if w.r.IntN(3) == 0 {
		return "no limit of a key"
	}
	most, starts, per := w.r.IntN(4), []int(nil), []time.Duration(nil)
	var rates []Rate
	if w.r.IntN(2) == 0 {
		rates = append(rates, Rate{Most: w.r.IntN(5), Per: time.Hour})
		starts, per = append(starts, rates[0].Most), append(per, time.Hour)
	}
	w.setKeyLimit(tx, s, most, rates, false)
	w.Execute(`insert into pgdispatch.limits (key, workspace_id, max_concurrent, max_starts, per)
		values ($1, $2::uuid, $3, $4, $5::interval[])`, s.key, workspace, most, starts, per)
	return fmt.Sprintf("limit of a key, rate %t", len(rates) > 0)
}

// proposal asks for some of what waits, and for what does not, with receipts of this epoch or none.
func (w *twins) proposal() schedule.Proposal {
	p := schedule.Proposal{AtMost: 1 + w.r.IntN(5), Unanswered: w.r.IntN(3)}
	if p.Unanswered > 0 {
		_, p.Alone = w.unansweredAt()
	}
	if p.Alone {
		p.Unanswered, p.AtMost = 1, 1
	}
	p.Want.Careful = w.r.IntN(3) == 0
	if w.r.IntN(4) > 0 {
		p.Epoch, p.Leased = w.Postgres.epoch, w.leased
	}
	knows := w.r.IntN(4) > 0 // the entries of a workspace have the same receipt
	for range w.r.IntN(4) {
		e := schedule.Entry{Workspace: schedule.WorkspaceID{byte(w.r.IntN(twinWorkspaces))}, Priority: w.r.IntN(3),
			Items: 1 + w.r.IntN(4)}
		if row := w.some(rowWaits); row != nil && w.r.IntN(4) > 0 {
			e.Workspace, e.Priority, e.Key = row.workspace, row.priority, row.key
			if w.r.IntN(3) == 0 {
				e.From = row.position()
			}
		}
		twice := func(o schedule.Entry) bool {
			return o.Workspace == e.Workspace && o.Priority == e.Priority && o.Key == e.Key
		}
		if p.Alone || slices.ContainsFunc(p.Entries, twice) {
			continue
		}
		if p.Epoch != (schedule.Epoch{}) && knows {
			e.Receipt = w.receipts[e.Workspace]
		}
		e.Burst = w.r.IntN(4) == 0
		p.Entries = append(p.Entries, e)
	}
	slices.SortStableFunc(p.Entries, func(a, b schedule.Entry) int {
		return slices.Index([]bool{false, true}, a.Burst) -
			slices.Index([]bool{false, true}, b.Burst)
	})
	return p
}

// claims makes a claim in both, and compares the answers.
func (w *twins) claims() {
	p := w.proposal()
	text := w.encoded(p)
	w.freezes()
	allows := w.allowances(p)
	defer w.locks()()
	tx, a, taken := w.claim(1, p, w.now)
	if w.waits {
		w.close(tx, false)
		_, err := w.Conns.Exec(w.t.Context(), realClaim, twinLease, text)
		require.True(w.t, postgres.HasCode(err, postgres.LockNotAvailable), "%s: %v", text, err)
		w.last = sqltest.Scalar[int64](w.Shop, sql.Text("last_token"))
		w.cases["waits"]++
		return
	}
	for _, next := range taken {
		next.lease = w.now.Add(twinLease)
	}
	w.close(tx, true)
	got := w.claimReally(text, p)
	require.Equal(w.t, w.toldOf(p, a, taken, allows), got, "%s\nsimulated: %s\nreal: %s", text, w.holding(),
		w.holdingReally())
	for id, token := range w.tokens {
		w.rows[id].token = token
	}
	for n, e := range p.Entries {
		w.receipts[e.Workspace] = a.Standings[n].Receipt
		w.cases[fmt.Sprintf("counted %t", !a.Standings[n].Bound)]++
	}
	if w.grants += len(taken); a.Unanswered > 0 {
		w.cases["unanswered"]++
	}
}

// The simulation is worth as much as the simulated Postgres is like the real one.
func TestPostgres_AnswersAsTheRealOne(t *testing.T) {
	t.Parallel()
	operations := 1500
	if more, err := strconv.Atoi(os.Getenv("PGDISPATCH_OPERATIONS")); err == nil {
		operations = more
	}
	const perSeed = 250
	cases, grants := map[string]int{}, 0
	for seed := range uint64(max(operations/perSeed, 1)) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := newTwins(t, seed)
			for range perSeed {
				cases[w.step()]++
			}
			for name, times := range w.cases {
				cases[name] += times
			}
			w.loads()
			grants += w.grants
		})
	}
	t.Logf("%d operations: %v, %d items given", operations, cases, grants)
	require.Positive(t, min(grants, cases["counted true"], cases["counted false"], cases["unanswered"], cases["expire"],
		cases["look"], cases["arrivals"], cases["waits"], cases["rated"], cases["limit of a key, rate true"]))
}
