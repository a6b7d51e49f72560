package sql_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// keyed inserts n items with a limit key.
func (f fixture) keyed(w tenant, key string, n int) (ids []int64) {
	return f.insert(w, n, "limit_key", "$4", key)
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
	require.Empty(t, f.claim(100).Items)
	f.dispatched(got)
	require.Empty(t, f.claim(100).Items, "an item counts until its workflow has ended")
	f.finish(mail[0], "COMPLETED")
	require.Equal(t, mail[2:3], f.claim(100).ids())
	f.completed(mail[1])
	require.Equal(t, mail[3:4], f.claim(100).ids())
}

func TestALimitOfAKeyIsReadByEachClaim(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.limit(&w, "k", 0)
	f.keyed(w, "k", 9)
	require.Empty(t, f.claimAll(100).Items, "0 starts nothing")
	f.exec("update pgdispatch.limits set max_concurrent = 4")
	require.Len(t, f.claimAll(100).Items, 4)
	f.exec("update pgdispatch.limits set max_concurrent = 2")
	require.Empty(t, f.claimAll(100).Items, "lowered below what runs")
	f.exec("delete from pgdispatch.limits")
	require.Len(t, f.claimAll(100).Items, 5, "deleted while full")
}

func TestAPausedKeyStartsNothingUntilItIsResumed(t *testing.T) {
	f, a, b := openForTwo(t, "ENTERPRISE", "ENTERPRISE")
	f.limit(&a, "k", 5)
	f.limit(nil, "k", nil)
	f.keyed(a, "k", 2)
	f.keyed(b, "k", 3)
	f.exec("update pgdispatch.limits set paused = true where workspace_id is null")
	require.Empty(t, f.claimAll(100).Items, "in no workspace")
	f.exec("update pgdispatch.limits set paused = workspace_id is not null")
	require.Len(t, f.claimAll(100).Items, 3, "not in that workspace")
	f.exec("update pgdispatch.limits set paused = false")
	require.Len(t, f.claimAll(100).Items, 2)
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
	require.Empty(t, f.claimAll(100).Items)
	passes(6 * time.Second)
	require.Equal(t, ids[3:5], f.claimAll(100).ids(), "the minute has two left")
	passes(20 * time.Second)
	require.Empty(t, f.claimAll(100).Items)
	passes(33 * time.Second)
	require.Equal(t, ids[5:8], f.claimAll(100).ids(), "the first three have left the minute")
	passes(2 * time.Minute)
	require.Len(t, f.claimAll(100).Items, 3)
	require.Equal(t, 2, f.count("limit_starts"), "what no period has is forgotten")
	f.exec("delete from pgdispatch.limits")
	require.Zero(t, f.count("limit_starts"))
}

func TestAClaimSaysWhenARateAllowsMore(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.exec("insert into pgdispatch.limits (workspace_id, key, max_starts, per) values ($1, 'k', '{1}', '{1 minute}')",
		w.workspace)
	f.keyed(w, "k", 2)
	require.Len(t, f.claim(5).Items, 1)
	f.exec("update pgdispatch.limit_starts set until = clock_timestamp() - interval '50 seconds'")
	f.forget()
	again := f.claim(5)
	require.Empty(t, again.Items)
	require.InDelta(t, 10, again.LookAgainIn.Seconds(), 2)
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
	for _, key := range []string{"", strings.Repeat("k", 201), strings.Repeat("k", 10_000)} {
		f.refusedAs("PGD12", "limit_key has ", insertWith("limit_key"), w.workspace, w.definition, key)
	}
	f.refusedAs("PGD21", "", "update pgdispatch.workflow_execution_queue set limit_key = 'other'")
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
	f.refusedAs("23514", "", "insert into pgdispatch.limits (key, max_concurrent) values ('l', -1)")
}

// rate limits a workspace's starts per second; nil: no limit.
func (f fixture) rate(w tenant, perSecond any) {
	f.exec("update pgdispatch.workspaces set max_starts_per_second = $2 where id = $1", w.workspace, perSecond)
}

// pass ages the buckets, as if exactly this time had passed since the last claim from them.
func (f fixture) pass(d time.Duration) {
	f.forget() // otherwise replicas would wait for that time
	f.exec("update pgdispatch.rates set at = clock_timestamp() - $1::interval", d)
}

// requireSoon allows for the time that has passed since the test began, which is long on a loaded machine.
func requireSoon(t *testing.T, began time.Time, want, got time.Duration) {
	require.LessOrEqual(t, got, want+time.Millisecond)
	require.GreaterOrEqual(t, got, want-time.Since(began))
}

func TestARateLimitGivesOneSecondsWorthAtOnceAndThenByTime(t *testing.T) {
	f, w, free := openForTwo(t, "ENTERPRISE", "ENTERPRISE")
	f.rate(w, 4)
	f.items(w, 20)
	began := time.Now()
	first := f.claim(15)
	require.Len(t, first.Items, 4)
	require.False(t, first.More, "the rest is not due yet")
	requireSoon(t, began, 250*time.Millisecond, first.LookAgainIn)
	f.items(free, 2)
	require.Len(t, f.claim(2).Items, 2, "other workspaces do not wait")
	f.pass(500 * time.Millisecond)
	require.Len(t, f.claim(15).Items, 2)
	f.pass(time.Hour)
	require.Len(t, f.claim(15).Items, 4, "the bucket holds at most one second's starts")
	f.pass(time.Second)
	require.Len(t, f.claim(1).Items, 1, "a claim of one takes one token")
	require.Len(t, f.claim(1).Items, 1)
	f.pass(time.Hour)
	require.Len(t, f.claim(15).Items, 4, "nor when tokens were left")
}

// The timer never fires too early: a dispatcher that claims at the given time finds an item.
func TestTheTimeToLookAgainIsWhenTheRateAllowsOne(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []float64{0.0001, 0.3, 3, 7, 13, 333, 9999} {
		t.Run(fmt.Sprint(perSecond), func(t *testing.T) {
			f, w := openFor(t, "ENTERPRISE")
			f.unlimited()
			f.rate(w, perSecond)
			f.items(w, int(perSecond)+3)
			began := time.Now()
			b := f.claim(100000)
			waited := time.Since(began)
			if b.LookAgainIn >= 0 {
				waited += b.LookAgainIn
			} else {
				require.True(t, b.More, "a token is already available")
			}
			require.LessOrEqual(t, 1.0,
				one[float64](f, "select r.tokens + r.per_second * $1::float8 from pgdispatch.rates r", waited.Seconds()))
		})
	}
}

func TestARateChangesLive(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.unlimited()
	f.items(w, 300)
	f.rate(w, 2)
	require.Len(t, f.claim(100).Items, 2)
	f.rate(w, 50)
	require.Empty(t, f.claim(100).Items, "the bucket was empty")
	f.pass(time.Second)
	require.Len(t, f.claim(100).Items, 50)
	f.pass(time.Second)
	f.rate(w, 3)
	require.Len(t, f.claim(100).Items, 3, "the bucket is cut to one second of the new rate")
	f.pass(100 * time.Second)
	f.rate(w, 30)
	require.Len(t, f.claim(100).Items, 3, "tokens accumulated at the old rate")
	f.rate(w, nil)
	require.Len(t, f.claim(100).Items, 100, "no limit")
	f.rate(w, 1)
	require.LessOrEqual(t, len(f.claim(100).Items), 1)
	f.pass(time.Second)
	require.Len(t, f.claim(100).Items, 1)
	f.rate(w, 4)
	f.claim(100)
	f.pass(500 * time.Millisecond)
	f.rate(w, 400)
	require.Len(t, f.claim(100).Items, 2, "what was saved up was saved up at the rate of then")
}

func TestARateLosesNothingWhenTheClockIsSetBack(t *testing.T) {
	f, w := openFor(t, "ENTERPRISE")
	f.items(w, 20)
	f.rate(w, 4)
	require.Len(t, f.claim(1).Items, 1)
	f.exec("update pgdispatch.rates set at = at + interval '1 hour'")
	require.Len(t, f.claim(10).Items, 3)
}

// In real time: any window contains at most the bucket's size plus the rate's refill.
func TestARateIsExactOverManyClaimers(t *testing.T) {
	f, w, busy := openForTwo(t, "ENTERPRISE", "ENTERPRISE")
	const perSecond, items = 60, 120
	f.unlimited()
	f.rate(w, perSecond)
	f.items(w, items)
	f.claimers(6, func(owner string, calls int) (more bool, err error) {
		f.item(busy)
		_, err = f.tryClaimBy(owner, 1+calls%7)
		return one[bool](f, `select exists (select from pgdispatch.workflow_execution_queue
			where stage = 'WAITS' and workspace_id = $1)`, w.workspace), err
	})
	times := all[float64](f, `select extract(epoch from claimed_at)::float8 from pgdispatch.workflow_execution_queue
		where workspace_id = $1 order by claimed_at`, w.workspace)
	require.Len(t, times, items)
	// The bucket uses the claim's start; the row's time is later by the claim's own work.
	const slack = 0.1
	for i := range times {
		for j := i; j < len(times); j++ {
			require.LessOrEqual(t, float64(j-i+1), perSecond+perSecond*(times[j]-times[i]+slack), "from the %dth to the %dth", i,
				j)
		}
	}
	require.Less(t, times[items-1]-times[0], 20.0, "2 s by the rate, more on a slow machine")
}
