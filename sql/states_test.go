package sql_test

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

// move is one arrow of the state machine.
type move struct{ from, to string }

func (m move) String() string { return m.from + " -> " + m.to }

// statuses returns the states from the function that defines each one's invariants, in lifecycle order.
func statuses(f fixture) []string {
	check := one[string](f, "select prosrc from pg_proc where oid = 'pgdispatch.item_stage'::regproc")
	found := []string{}
	for _, match := range regexp.MustCompile(`if status = '([A-Z]+)' then`).FindAllStringSubmatch(check, -1) {
		if !slices.Contains(found, match[1]) {
			found = append(found, match[1])
		}
	}
	require.Len(f.t, found, 6)
	moves := one[string](f, "select prosrc from pg_proc where oid = 'pgdispatch.may_move'::regproc")
	slices.SortFunc(found, func(a, b string) int { return cmp.Compare(strings.Index(moves, a), strings.Index(moves, b)) })
	return found
}

// allowed asks may_move about every pair of states; staying in a state is not a move.
func allowed(f fixture) []move {
	moves := []move{}
	states := statuses(f)
	for _, from := range states {
		for _, to := range states {
			may := one[bool](f, "select pgdispatch.may_move($1, $2)", from, to)
			require.True(f.t, may || from != to, "%s must be able to stay", from)
			if may && from != to {
				moves = append(moves, move{from, to})
			}
		}
	}
	return moves
}

// header reads a verb's first line: "-- reads", "-- writes" and its objects, or its transitions as "-- A -> B, C; D ->
// E".
func header(t testing.TB, verb string) []move {
	line, _, _ := strings.Cut(sql.Text(verb), "\n")
	text, found := strings.CutPrefix(line, "-- ")
	require.True(t, found, "%s.sql must begin with its moves", verb)
	if text == "reads" || strings.HasPrefix(text, "writes") {
		return nil
	}
	moves := []move{}
	for part := range strings.SplitSeq(text, "; ") {
		from, targets, found := strings.Cut(part, " -> ")
		require.True(t, found, "%s.sql begins with %q", verb, line)
		for to := range strings.SplitSeq(targets, ", ") {
			moves = append(moves, move{from, to})
		}
	}
	return moves
}

// The ages of seeded leases, which last an hour and a minute.
const (
	live    = time.Hour
	expired = 2 * time.Hour
	ahead   = -time.Hour // claimed before the clock was set back
)

// seed creates an item in a state with triggers off, so that every statement's arguments match it.
func seed(f fixture, w tenant, state string, claimedAgo time.Duration) int64 {
	f.exec("set local session_replication_role = replica")
	defer f.exec("set local session_replication_role = origin")
	const insert = `
		insert into pgdispatch.workflow_execution_queue
			(workspace_id, workflow_definition_id, status, lease_token, claimed_by, claimed_at, lease_expires_at, dispatched_at,
				finished_at, last_error, run_at, outcome_unknown, start_before)
		select $1, $2, $3, 1,
			case when $3 = 'CLAIMED' then 'replica-1' end,
			case when $3 <> 'PENDING' and $3 <> 'CANCELLED' then clock_timestamp() - $4::interval end,
			case when $3 = 'CLAIMED' then clock_timestamp() - $4::interval + interval '61 minutes' end,
			case when $3 in ('DISPATCHED', 'COMPLETED') then clock_timestamp() end,
			case when $3 in ('COMPLETED', 'FAILED', 'CANCELLED') then clock_timestamp() end,
			case when $3 = 'FAILED' then 'it broke' end,
			case when $5 then clock_timestamp() + interval '20 seconds' else now() - interval '1 day' end, $5,
			case when $3 = 'PENDING' then clock_timestamp() + interval '90 minutes' - $4::interval end
		returning id`
	backsOff := state == "PENDING" && claimedAgo == ahead // its start was not answered
	id := one[int64](f, insert, w.workspace, w.definition, state, claimedAgo, backsOff)
	f.exec(`insert into pgdispatch.workflow_executions
			(id, queue_item_id, workspace_id, workflow_definition_id, workflow_definition_version_id, status, started_at,
				finished_at)
		select q.execution_id, q.id, q.workspace_id, q.workflow_definition_id, $2,
			case q.status when 'DISPATCHED' then 'RUNNING' when 'COMPLETED' then 'COMPLETED' when 'FAILED' then 'FAILED'
				when 'CANCELLED' then 'CANCELED' else 'STARTING' end,
			q.dispatched_at, q.finished_at
		from pgdispatch.workflow_execution_queue q where q.id = $1`, id, w.version)
	if backsOff {
		f.exec(`insert into pgdispatch.start_tries (item_id, tried_at)
			select q.id, q.run_at - interval '20 seconds' from pgdispatch.workflow_execution_queue q where q.id = $1`, id)
	}
	f.exec("insert into pgdispatch.marks (workspaces) values (array[$1::uuid])", w.workspace)
	f.exec("insert into pgdispatch.epoch (id) values ($1) on conflict do nothing", nobody)
	f.exec(
		"insert into pgdispatch.stop_requests (execution_id, how, reason, requested_by) values ($1, 'CANCEL', '', 'me')",
		f.execution(id))
	return id
}

// audited returns a database in which a trigger of the test records every transition.
func audited(t *testing.T) fixture {
	f := open(t)
	f.exec(`create table public.moves (id bigint, from_status text, to_status text)`)
	f.exec(`create function public.note_move() returns trigger language plpgsql security definer as
		$$ begin insert into public.moves values (old.id, old.status, new.status); return null; end $$`)
	f.exec(`create trigger note_move after update on pgdispatch.workflow_execution_queue
		for each row execute function public.note_move()`)
	return f
}

func TestEveryStatementMakesOnlyTheMovesOfItsHeader(t *testing.T) {
	f := audited(t)
	f.exec("select setval('pgdispatch.lease_tokens', 1000), set_config('jit', 'off', false)") // seeded items have token 1
	w := f.tenant("PRO")
	for _, verb := range sql.Verbs() {
		declared := header(t, verb)
		made := map[move]bool{}
		for _, state := range statuses(f) {
			for _, claimedAgo := range []time.Duration{live, expired, ahead} {
				if claimedAgo != live && state != "CLAIMED" && state != "PENDING" {
					continue
				}
				for n := range f.arguments(verb, 0, "", "") {
					for _, m := range f.movesOf(w, verb, state, claimedAgo, n) {
						require.Contains(t, declared, m, "%s.sql on a %s item", verb, state)
						made[m] = true
					}
				}
			}
		}
		for _, m := range declared {
			require.True(t, made[m], "%s.sql declares %s and never does it", verb, m)
		}
	}
}

func TestAStatementWritesOnlyIfItsHeaderSaysSo(t *testing.T) {
	f, w := openFor(t, "PRO")
	for _, verb := range sql.Verbs() {
		for n := range f.arguments(verb, 0, "", "") {
			in, tx := f.begin()
			id := seed(in, w, "DISPATCHED", live)
			args := f.arguments(verb, id, in.execution(id), w.workspace)[n]
			in.exec("set transaction read only")
			_, err := in.db.Exec(t.Context(), sql.Text(verb), args...)
			if err != nil && strings.HasPrefix(sql.Text(verb), "-- reads\n") {
				assert.NotEqual(t, "25006", f.pgError(err).Code, "%s.sql writes, and its header says that it reads", verb)
			}
			require.NoError(t, tx.Rollback(context.Background()))
		}
	}
}

// movesOf seeds one item, runs a verb with its nth arguments, and returns the recorded transitions. Without a
// transition the item must be unchanged. Everything is rolled back.
func (f fixture) movesOf(w tenant, verb, state string, claimedAgo time.Duration, n int) []move {
	in, tx := f.begin()
	defer func() { require.NoError(f.t, tx.Rollback(context.Background())) }()
	id := seed(in, w, state, claimedAgo)
	const whole = "select q::text from pgdispatch.workflow_execution_queue q where q.id = $1"
	before := one[string](in, whole, id)
	in.item(w) // another item, so that the workspace is not empty
	if _, err := in.db.Exec(f.t.Context(), sql.Text(verb),
		f.arguments(verb, id, in.execution(id), w.workspace)[n]...); err != nil {
		// The item is not a dead letter, or it has ended, or no signal was given up, or the workspace to enqueue in does
		// not exist.
		require.Contains(f.t, []string{"PGD24", "PGD01", "PGD42", "PGD43", "PGD44"}, f.pgError(err).Code,
			"%s.sql on a %s item: %s", verb, state, err)
		return nil
	}
	moves := []move{}
	for _, row := range all[[]string](in, "select array[from_status, to_status] from public.moves where id = $1", id) {
		moves = append(moves, move{row[0], row[1]})
	}
	if after := all[string](in, whole, id); len(after) == 0 {
		line, _, _ := strings.Cut(sql.Text(verb), "\n")
		require.Contains(f.t, line, "by deleting", "%s.sql deleted a %s item", verb, state)
		require.Contains(f.t, []string{"COMPLETED", "FAILED", "CANCELLED"}, state, "%s.sql deleted it", verb)
	} else if len(moves) == 0 {
		require.Equal(f.t, before, after[0], "%s.sql changed a %s item without a move", verb, state)
	}
	return moves
}

func TestHeadersAndMayMoveAreTheSameStateMachine(t *testing.T) {
	f := open(t)
	declared := map[move]bool{}
	for _, verb := range sql.Verbs() {
		for _, m := range header(t, verb) {
			if m.from != m.to {
				declared[m] = true
			}
		}
	}
	may := allowed(f)
	for m := range declared {
		require.Contains(t, may, m, "a header declares it and may_move forbids it")
	}
	for _, m := range may {
		require.True(t, declared[m], "may_move allows %s and no statement does it", m)
	}
}

func TestAMoveThatThereIsNotIsRefused(t *testing.T) {
	f, w := openFor(t, "FREE")
	may := allowed(f)
	for _, from := range statuses(f) {
		for _, to := range statuses(f) {
			if from == to || slices.Contains(may, move{from, to}) {
				continue
			}
			in, tx := f.begin()
			id := seed(in, w, from, live)
			in.exec("savepoint bare")
			bare := in.refused("update pgdispatch.workflow_execution_queue set status = $2 where id = $1", id, to)
			if to == "PENDING" {
				require.Equal(t, "PGD07", bare.Code, "%s -> %s: %s", from, to, bare.Message)
				require.NotContains(t, bare.Message+bare.Hint, "insert")
			} else {
				require.Contains(t, []string{"PGD20", "PGD27"}, bare.Code, "%s -> %s: %s", from, to, bare.Message)
			}
			in.exec("rollback to bare")
			// With all columns that the state requires, so that no constraint fails first.
			refusal := in.refused(`update pgdispatch.workflow_execution_queue
				set status = $2, last_error = 'it broke', lease_token = lease_token + 1,
					claimed_by = case when $2 = 'CLAIMED' then 'replica-1' end,
					claimed_at = case when $2 not in ('PENDING', 'CANCELLED') then clock_timestamp() end,
					lease_expires_at = case when $2 = 'CLAIMED' then clock_timestamp() end,
					dispatched_at = case when $2 in ('DISPATCHED', 'COMPLETED') then clock_timestamp() end,
					finished_at = case when $2 in ('COMPLETED', 'FAILED', 'CANCELLED') then clock_timestamp() end
				where id = $1`, id, to)
			require.Equal(t, "PGD20", refusal.Code, "%s -> %s: %s", from, to, refusal.Message)
			require.Equal(t, fmt.Sprintf("item %d is %s and cannot become %s", id, from, to), refusal.Message)
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
}

func TestAnUpdateIsHeldToTheLimitsOfAnInsert(t *testing.T) {
	f := open(t)
	id := f.item(f.tenant("FREE"))
	for set, code := range map[string]string{
		"params = '[1]'": "PGD04", "params = jsonb_build_object('a', repeat('x', 1966080 - 8))": "PGD05",
		"priority = 101": "PGD06", "priority = -101": "PGD06", "run_at = 'infinity'": "PGD08",
		"run_at = '1999-12-31'": "PGD08",
		"idempotency_key = ''":  "PGD09", "idempotency_key = repeat('x', 201)": "PGD09", "traceparent = 'x'": "PGD10",
	} {
		f.refusedAs(code, "", "update pgdispatch.workflow_execution_queue set "+set+" where id = $1", id)
	}
	f.exec(`update pgdispatch.workflow_execution_queue
		set params = '{"a": 1}', priority = 100, run_at = now(), idempotency_key = 'a',
		traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' where id = $1`, id)
}

func TestAnItemKeepsItsIdentity(t *testing.T) {
	f, w := openFor(t, "FREE")
	other, id := f.tenant("FREE"), f.item(w)
	for column, value := range map[string]any{
		"execution_id": other.version, "workspace_id": other.workspace, "workflow_definition_id": other.definition,
		"created_at": time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), "enqueue_xid": uint64(3),
	} {
		f.refusedAs("PGD21", "", "update pgdispatch.workflow_execution_queue set "+column+" = $2 where id = $1", id, value)
	}
	// An identity column rejects it earlier, with an error of its own.
	f.refusedAs("428C9", "", "update pgdispatch.workflow_execution_queue set id = 7 where id = $1", id)
}

// TRUNCATE would leave what refers to the rows, such as keys, to the items that get their IDs, and tell no replica.
func TestNobodyTruncatesATable(t *testing.T) {
	f := open(t)
	tables := all[string](f, `select c.oid::regclass::text from pg_class c
		where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind in ('r', 'p')
		and c.relname <> 'schema_migrations'`)
	require.Greater(t, len(tables), 30)
	first := f.enqueue(f.tenant("PRO"), 1, "key => 'a'")
	owner := f.login("owner")
	for _, table := range tables {
		for _, how := range []string{" cascade", " restart identity cascade"} {
			for name, as := range map[string]fixture{"owner": owner, "superuser": f} {
				require.Equal(t, "PGD28", as.refused("truncate "+table+how).Code, "%s%s as %s", table, how, name)
			}
		}
	}
	require.Equal(t, "PENDING", f.status(first.ID))

	in, _ := f.begin()
	in.exec("set local session_replication_role = replica")
	in.exec("truncate pgdispatch.item_failures") // the exception in docs/lifecycle.md
}

// A later version's table is guarded too, although no trigger that exists is created again.
func TestAnUpgradeGuardsNewTablesAgainstTruncate(t *testing.T) {
	f := open(t)
	f.exec("create table pgdispatch.later (id int)")
	f.exec("alter table pgdispatch.later owner to pgdispatch_owner")
	f.exec("truncate pgdispatch.later")
	writer, _ := f.begin()
	writer.exec("update pgdispatch.settings set max_claims = 5") // in use
	require.NoError(t, migrate.Up(t.Context(), connect(t, f.pool.Config().ConnString(), nil), nil))
	f.refusedAs("PGD28", "", "truncate pgdispatch.later")
}

// What refers to an item by its IDs goes with it. An item that holds a slot or waits stays, whoever names it.
func TestAPurgeDeletesWhatHasEndedAndEverythingThatRefersToIt(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	ids, ended := []int64{}, []int64{}
	for _, state := range statuses(f) {
		in, tx := f.begin()
		id := seed(in, w, state, live)
		in.exec("insert into pgdispatch.signals (execution_id, name) values ($1, 'go')", in.execution(id))
		in.exec("insert into pgdispatch.item_failures (item_id, failure, attempt, error) values ($1, 1, 1, 'no')", id)
		in.exec("insert into pgdispatch.enqueue_keys (workspace_id, key, item_id) values ($1, $2, $3)", w.workspace, state,
			id)
		in.exec("insert into pgdispatch.dead_letter_marks (item_id, mark, marked_by) values ($1, 'DISCARDED', 'me')", id)
		in.exec("insert into pgdispatch.start_tries (item_id) values ($1)", id)
		in.exec(`insert into pgdispatch.missing_executions (execution_id, since, asked_at, young)
			values ($1, now(), now(), true)`, in.execution(id))
		in.exec(`insert into pgdispatch.parked_items (item_id, error, attempts, try_at) values ($1, 'no', 1, now())`, id)
		require.NoError(t, tx.Commit(t.Context()))
		if ids = append(ids, id); state == "COMPLETED" || state == "FAILED" || state == "CANCELLED" {
			ended = append(ended, id)
		}
	}
	require.Len(t, ended, 3)
	const held = "select count(*)::int from pgdispatch.workflow_execution_queue where stage in ('HOLDS', 'DOUBT')"
	before := one[int](f, held)
	require.ElementsMatch(t, ended, all[int64](f.login("owner"), sql.Text("item_purge"), ids, "me"))
	require.Equal(t, before, one[int](f, held), "slots are kept")
	require.Empty(t, all[int64](f.login("owner"), sql.Text("item_purge"), ids, "me"))

	references := all[string](f, `select format('select count(distinct %1$I)::int from %2$s', a.attname, c.oid::regclass)
		from pg_attribute a join pg_class c on c.oid = a.attrelid
		where c.relnamespace = 'pgdispatch'::regnamespace and c.relkind = 'r'
		  and (a.attname in ('item_id', 'queue_item_id', 'execution_id')
		       or c.relname = 'workflow_executions' and a.attname = 'id')`)
	require.Len(t, references, 11)
	for _, query := range references {
		require.Equal(t, len(ids)-len(ended), one[int](f, query), query)
	}
}
