package temporal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// unanswered is an item whose first start was sent this long ago and never answered.
func unanswered(since time.Duration) Start {
	item := anItem()
	item.Unanswered, item.UnansweredFor = true, since
	return item
}

func TestItemThatTemporalMayHaveForgottenIsNotStarted(t *testing.T) {
	const day = 24 * time.Hour
	denied := serviceerror.NewPermissionDenied("not yours", "")
	type given struct {
		retention, age time.Duration
		parked         bool
		unread         error
	}
	must.Each(t, map[string]given{
		"without doubt":                 {time.Hour, 0, false, nil},
		"young":                         {day, time.Minute, false, nil},
		"still remembered":              {day, 23*time.Hour - 1, false, nil},
		"within the margin":             {day, 23 * time.Hour, true, nil},
		"long forgotten":                {day, 100 * day, true, nil},
		"a short retention, remembered": {time.Hour, 54*time.Minute - 1, false, nil},
		"a short retention, forgotten":  {time.Hour, 54 * time.Minute, true, nil},
		"a long retention, remembered":  {30 * day, 30*day - time.Hour - 1, false, nil},
		"a long retention, forgotten":   {30 * day, 30*day - time.Hour, true, nil},
		"not allowed to read, young":    {0, 53 * time.Minute, false, denied},
		"not allowed to read, old":      {0, 55 * time.Minute, true, denied},
		"without one, young":            {0, 53 * time.Minute, false, nil},
		"without one, old":              {0, 55 * time.Minute, true, nil},
		"a very short one, never read":  {time.Minute, 30 * time.Minute, false, nil}, // Temporal accepts no such retention
	}, func(t *testing.T, c given) {
		service := &startService{retention: c.retention, retentionError: c.unread}
		_, err := starterOn(service).Start(t.Context(), unanswered(c.age))
		if !c.parked {
			require.NoError(t, err)
			require.Len(t, service.started, 1)
			if c.age == 0 {
				require.Empty(t, service.asked)
			}
			return
		}
		require.ErrorIs(t, err, ErrForgotten)
		require.Equal(t, engine.Forgotten, Classify(err))
		if c.retention > 0 {
			require.ErrorContains(t, err, "the namespace's retention is "+c.retention.String())
		} else {
			require.ErrorContains(t, err, "cannot be read, so 1h0m0s is assumed")
		}
		require.ErrorContains(t, err, "replay the item if its workflow did not run")
		require.Empty(t, service.started)
		require.Equal(t, "shop", service.asked[0].Namespace)
	})
}

func TestEachNamespaceHasARetentionOfItsOwn(t *testing.T) {
	t.Parallel()
	service := &startService{retention: 24 * time.Hour}
	starter := starterOn(service)
	for _, namespace := range []string{"", "other", "", "other"} {
		item := unanswered(2 * time.Hour)
		item.Namespace = namespace
		must.Get(starter.Start(t.Context(), item)).In(t)
	}
	require.Len(t, service.asked, 2, "each namespace is described once")
	require.Equal(t, "shop", service.asked[0].Namespace)
	require.Equal(t, "other", service.asked[1].Namespace)
	require.Equal(t, "other", service.started[1].Namespace, "the start goes to the item's namespace")
}

func TestOutageWhileTheRetentionIsReadDecidesNothing(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]engine.Outcome{
		serviceerror.NewUnavailable("connection refused"):    engine.Unanswered,
		serviceerror.NewNamespaceNotFound("shop"):            engine.Blocked,
		serviceerror.NewResourceExhausted(1, "rate limited"): engine.Throttled,
	} {
		service := &startService{retentionError: err}
		_, got := starterOn(service).Start(t.Context(), unanswered(time.Hour))
		require.ErrorIs(t, got, err)
		require.Equal(t, want.String(), Classify(got).String())
		require.Empty(t, service.started)
	}
}

func TestRetentionIsReadNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &startService{retention: 72 * time.Hour}
		starter := starterOn(service)
		for range 5 {
			must.Get(starter.Start(t.Context(), unanswered(48*time.Hour))).In(t)
		}
		require.Len(t, service.asked, 1)
		service.retention = 24 * time.Hour
		time.Sleep(retentionAge)
		_, err := starter.Start(t.Context(), unanswered(48*time.Hour))
		require.ErrorIs(t, err, ErrForgotten, "the retention was shortened")
	})
}
