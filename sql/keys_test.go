package sql_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// keyed inserts n items with a limit key.
func (f fixture) keyed(w tenant, key string, n int) (ids []int64) {
	return all[int64](f, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, limit_key)
		select $1, $2, $3 from generate_series(1, $4) returning id`, w.workspace, w.definition, key, n)
}

// limit sets a key's limit, in a workspace or, if w is nil, over all workspaces.
func (f fixture) limit(w *tenant, key string, maxConcurrent any) {
	var workspace any
	if w != nil {
		workspace = w.workspace
	}
	f.exec("insert into pgdispatch.limits (workspace_id, key, max_concurrent) values ($1, $2, $3)", workspace, key,
		maxConcurrent)
}

func TestAKeyLimitsItsItemsAndNoOthers(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.limit(&w, "smtp", 2)
	mail := f.keyed(w, "smtp", 5)
	others := append(f.keyed(w, "sms", 2), f.items(w, 2)...)
	got := f.claimAll(100)
	require.ElementsMatch(t, append(mail[:2:2], others...), got.ids())
	require.Empty(t, f.claim(100).items)
	f.dispatched(got)
	require.Empty(t, f.claim(100).items, "an item counts until its workflow has ended")
	f.finish(mail[0], "COMPLETED")
	require.Equal(t, mail[2:3], f.claim(100).ids())
	f.completed(mail[1])
	require.Equal(t, mail[3:4], f.claim(100).ids())
}

func TestAKeyLimitsItsItemsOverAllWorkspaces(t *testing.T) {
	f, a, b := openForTwo(t, "PRO", "PRO")
	f.limit(nil, "gpu", 3)
	f.limit(&a, "gpu", 1)
	f.keyed(a, "gpu", 4)
	f.keyed(b, "gpu", 4)
	got := f.claimAll(100)
	require.Len(t, got.items, 3)
	of := map[string]int{}
	for _, item := range got.items {
		of[*item.WorkspaceID]++
	}
	require.LessOrEqual(t, of[a.workspace], 1)
	f.release(got, false)
	require.Len(t, f.claimAll(100).items, 3, "a released item gives its slot back")
}

func TestALimitOfAKeyIsReadByEachClaim(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.limit(&w, "k", 0)
	f.keyed(w, "k", 9)
	require.Empty(t, f.claimAll(100).items, "0 starts nothing")
	f.exec("update pgdispatch.limits set max_concurrent = 4")
	require.Len(t, f.claimAll(100).items, 4)
	f.exec("update pgdispatch.limits set max_concurrent = 2")
	require.Empty(t, f.claimAll(100).items, "lowered below what runs")
	f.exec("delete from pgdispatch.limits")
	require.Len(t, f.claimAll(100).items, 5, "deleted while full")
}

func TestAPausedKeyStartsNothingUntilItIsResumed(t *testing.T) {
	f, a, b := openForTwo(t, "ENTERPRISE", "ENTERPRISE")
	f.limit(&a, "k", 5)
	f.limit(nil, "k", nil)
	f.keyed(a, "k", 2)
	f.keyed(b, "k", 3)
	f.exec("update pgdispatch.limits set paused = true where workspace_id is null")
	require.Empty(t, f.claimAll(100).items, "in no workspace")
	f.exec("update pgdispatch.limits set paused = workspace_id is not null")
	require.Len(t, f.claimAll(100).items, 3, "not in that workspace")
	f.exec("update pgdispatch.limits set paused = false")
	require.Len(t, f.claimAll(100).items, 2)
}

func TestAMemoryThatLiesAboutKeysPassesNoLimit(t *testing.T) {
	f, a, b := openForTwo(t, "ENTERPRISE", "ENTERPRISE")
	f.limit(&a, "k", 2)
	f.limit(nil, "k", 3)
	f.keyed(a, "k", 9)
	f.keyed(b, "k", 9)
	f.items(a, 1)
	got := f.ask(proposal{entries: []entry{
		{workspace: a.workspace, key: "k", items: 9}, {workspace: a.workspace, key: "k", items: 9},
		{workspace: b.workspace, key: "k", items: 9}, {workspace: a.workspace, items: 9},
		{workspace: b.workspace, key: "k", items: 9, priority: 3}, {workspace: b.workspace, key: "no", items: 9},
	}})
	require.Len(t, got.ids, 4)
	require.Equal(t, []int{2, 0, 1, 9, 0, 9}, got.granted())
	got = f.ask(proposal{entries: []entry{{workspace: b.workspace, key: "k", items: 9}}, careful: true})
	require.Empty(t, got.ids)
}

func TestRatesOfAKeyHoldInEveryWindow(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.exec(`insert into pgdispatch.limits (key, max_starts, per) values ('k', '{3,5}', '{10 seconds,1 minute}')`)
	ids := f.keyed(w, "k", 20)
	passes := func(d time.Duration) {
		f.exec("update pgdispatch.limit_starts set until = until - $1::interval", d)
		f.forget()
	}
	require.Equal(t, ids[:3], f.claimAll(100).ids())
	passes(5 * time.Second)
	require.Empty(t, f.claimAll(100).items)
	passes(6 * time.Second)
	require.Equal(t, ids[3:5], f.claimAll(100).ids(), "the minute has two left")
	passes(20 * time.Second)
	require.Empty(t, f.claimAll(100).items)
	passes(33 * time.Second)
	require.Equal(t, ids[5:8], f.claimAll(100).ids(), "the first three have left the minute")
	passes(2 * time.Minute)
	require.Len(t, f.claimAll(100).items, 3)
	require.Equal(t, 2, one[int](f, "select count(*) from pgdispatch.limit_starts"), "what no period has is forgotten")
	f.exec("delete from pgdispatch.limits")
	require.Zero(t, one[int](f, "select count(*) from pgdispatch.limit_starts"))
}

func TestAClaimSaysWhenARateAllowsMore(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.exec("insert into pgdispatch.limits (workspace_id, key, max_starts, per) values ($1, 'k', '{1}', '{1 minute}')",
		w.workspace)
	f.keyed(w, "k", 2)
	require.Len(t, f.claim(5).items, 1)
	f.exec("update pgdispatch.limit_starts set until = clock_timestamp() - interval '50 seconds'")
	f.forget()
	again := f.claim(5)
	require.Empty(t, again.items)
	require.InDelta(t, 10, again.lookAgainIn.Seconds(), 2)
}

func TestALoadSaysWhereAKeyIsFull(t *testing.T) {
	f, a, b := openForTwo(t, "PRO", "PRO")
	f.limit(&a, "k", 1)
	f.limit(nil, "l", 1)
	for _, w := range []tenant{a, b} {
		f.keyed(w, "k", 2)
		f.keyed(w, "l", 2)
	}
	load := func() []string {
		return all[string](f, `select concat(case l.workspace_id when $6 then 'a' else 'b' end, ' ', l.limit_key,
			case when l.own_full then ' own' end, case when l.all_full then ' all' end)
			from (`+sql.Text("load")+") l order by 1", nil, nil, nil, nil, 100, a.workspace)
	}
	require.Equal(t, []string{"a k", "a l", "b k", "b l"}, load())
	require.Len(t, f.ask(proposal{entries: []entry{{workspace: a.workspace, key: "k", items: 2},
		{workspace: a.workspace, key: "l", items: 2}, {workspace: b.workspace, key: "k", items: 1}}}).ids, 3)
	require.Equal(t, []string{"a k own", "a l all", "b k", "b l all"}, load())
}

func TestAKeyIsCheckedAtTheInsertAndNeverChanges(t *testing.T) {
	f, w := openFor(t, "PRO")
	f.keyed(w, "k", 1)
	f.keyed(w, strings.Repeat("ü", 200), 1)
	insert := "insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, limit_key) " +
		"values ($1, $2, $3)"
	for _, key := range []string{"", strings.Repeat("k", 201), strings.Repeat("k", 10_000)} {
		f.refusedAs("PGD12", "limit_key has ", insert, w.workspace, w.definition, key)
	}
	require.Equal(t, "PGD21", f.refused("update pgdispatch.workflow_execution_queue set limit_key = 'other'").Code)
}

func TestALimitThatMakesNoSenseIsRefused(t *testing.T) {
	f := open(t)
	for rates, message := range map[string]string{
		"'{1}', null":                       "the same number of elements",
		"'{1,2}', '{1 second}'":             "the same number of elements",
		"'{}', '{}'":                        "the same number of elements",
		"'{1,1,1,1,1}', '{1s,2s,3s,4s,5s}'": "1 to 4",
		"'{-1}', '{1 second}'":              "between 0 and 1000000",
		"'{null}', '{1 second}'":            "between 0 and 1000000",
		"'{1}', '{1 month}'":                "between 1 second and 1 day",
		"'{1}', '{0.5 seconds}'":            "between 1 second and 1 day",
		"'{1,2}', '{60 seconds,1 minute}'":  "different periods",
	} {
		f.refusedAs("PGD13", message, "insert into pgdispatch.limits (key, max_starts, per) values ('k', "+rates+")")
	}
	f.limit(nil, "k", 1)
	require.Equal(t, "23505", f.refused("insert into pgdispatch.limits (key) values ('k')").Code, "one row per scope")
	require.Equal(t, "23514", f.refused("insert into pgdispatch.limits (key, max_concurrent) values ('l', -1)").Code)
}
