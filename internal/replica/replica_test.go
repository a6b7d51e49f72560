package replica

import (
	"context"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/local"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

func TestAStartCarriesEverythingThatTheItemHas(t *testing.T) {
	t.Parallel()
	item := claim.Item{
		ID: 1, ExecutionID: "e", WorkspaceID: "w", WorkflowDefinitionID: "d", WorkflowDefinitionVersionID: "v",
		Namespace: "n", Kind: "activity",
		WorkflowType: "Order", TaskQueue: "orders", ExecutionTimeout: time.Hour, Traceparent: "00-1-2-01",
		StartOptions: []byte("{}"), NodeIDs: []byte("[]"), Params: []byte("{}"), Input: "args",
		UnansweredFor: time.Second, Unanswered: true, NamedID: "order-1", Policy: "reuse",
	}
	require.Equal(t, temporal.Execution{ID: "e", WorkflowID: "order-1", Namespace: "n", Kind: "activity"},
		requestOf(item).Execution)
	start := reflect.ValueOf(requestOf(item))
	for n := range start.NumField() {
		require.False(t, start.Field(n).IsZero(), start.Type().Field(n).Name)
	}
}

func TestStartsAreReportedWithinASecondAndNoMoreOftenThanThat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{}, 1)
		var count atomic.Int64
		var changes atomic.Bool
		looptest.Run(t, func(ctx context.Context) error {
			return reports(ctx, started, time.Minute, changes.Load, func() { count.Add(1) })
		})
		time.Sleep(1500 * time.Millisecond)
		require.EqualValues(t, 2, count.Load(), "the first report precedes listening")
		time.Sleep(30 * time.Second)
		require.EqualValues(t, 5, count.Load(), "no starts")

		started <- struct{}{}
		time.Sleep(startsDelay + time.Millisecond)
		require.EqualValues(t, 6, count.Load())
		for range 1000 { // a start every 10 ms
			select {
			case started <- struct{}{}:
			default:
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, count.Load(), int64(16))
		require.GreaterOrEqual(t, count.Load(), int64(15))

		changes.Store(true)
		before := count.Load()
		time.Sleep(10 * time.Second)
		require.InDelta(t, before+10, count.Load(), 1, "what changes is at most two seconds old")
	})
}

func TestAReplicasOwnNamespaceIsAlwaysInUse(t *testing.T) {
	t.Parallel()
	r := &replica{namespace: "own"}
	require.Equal(t, []string{"own"}, r.namespacesInUse(), "before the first sweep")
	for _, row := range []struct{ named, want []string }{
		{nil, []string{"own"}},
		{[]string{""}, []string{"own"}},
		{[]string{"shop"}, []string{"own", "shop"}},
		{[]string{"shop", "", "own"}, []string{"own", "shop"}},
	} {
		r.sawNamespaces(row.named)
		require.Equal(t, row.want, r.namespacesInUse(), "%q", row.named)
	}
}

func TestWhatPagesChangeGoesOverAVerifiedConnectionToo(t *testing.T) {
	t.Parallel()
	_, _, err := openSite(t.Context(),
		config.Config{Database: postgres.Target{URL: "postgres://app@localhost/shop"},
			OperatorURL: "postgres://app@db.example/shop"}, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, local.ErrUnverified)
	require.ErrorContains(t, err, "PGDISPATCH_OPERATOR_DATABASE_URL: the connection to db.example")

	const both = "postgres://app@db.example/shop"
	c := config.Config{Database: postgres.Target{URL: both}, OperatorURL: both}
	require.ErrorContains(t, c.Database.Verify(), "DATABASE_URL: the connection to db.example")
	require.NotContains(t, c.Database.Verify().Error(), "OPERATOR", "each by its own name")
	require.ErrorContains(t, c.Operator().Verify(), "PGDISPATCH_OPERATOR_DATABASE_URL: the connection to db.example")
}

func TestAPanicOfAPartIsAnErrorThatEndsTheReplica(t *testing.T) {
	t.Parallel()
	var text process.Buffer
	log := slog.New(slog.NewJSONHandler(&text, nil))
	err := contained(t.Context(), log, func(context.Context) error { panic("boom") })
	require.EqualError(t, err, "panic: boom")
	require.True(t, strings.Contains(text.String(), "Panic: shutting down this replica"))
	require.Contains(t, text.String(), "replica_test.go", "the stack")
	require.NoError(t, contained(t.Context(), log, func(context.Context) error { return nil }))
}

func TestALargeHeapIsCollectedAsGoDoesItAndASmallOneMoreRarely(t *testing.T) {
	t.Parallel()
	require.Equal(t, 400, percentFor(3<<20))
	require.Equal(t, 100, percentFor(64<<20))
}

func TestHowOftenIsDecidedAnewAfterEachCollection(t *testing.T) {
	t.Parallel()
	set := make(chan int, 100)
	afterCollection(func(percent int) int { set <- percent; return 0 }, 400)
	require.Equal(t, 400, <-set)
	params := make([]byte, 64<<20)
	for range 2 {
		runtime.GC()
		require.Equal(t, 100, <-set)
	}
	runtime.KeepAlive(params)
}
