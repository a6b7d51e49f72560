package doctor

import (
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	"github.com/stretchr/testify/require"
)

func TestDoctorFindsRatesThatAreNeverReached(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10/s":           "",
		"10/s,100/m":     "",
		"10/s,5/m":       "10/1s",
		"5/s,5/m":        "5/1s",
		"10/s,599/m":     "",
		"10/s,630/m":     "630/1m",
		"10/s,629/m":     "", // a start counts up to a twentieth longer
		"1/s,0/h":        "1/1s",
		"1/30s,1/31s":    "",
		"1/30s,1/32s":    "1/30s",
		"3/s,5/2s,1/24h": "3/1s,5/2s",
	} {
		rates := must.Get(operate.ParseRates(text)).In(t)
		found := operate.Rates{}
		for _, rate := range rates {
			if reachedFirst(rate, rates) != nil {
				found = append(found, rate)
			}
		}
		require.Equal(t, want, found.String(), text)
	}
}

func TestDoctorJudgesLimitsOfKeys(t *testing.T) {
	b := storetest.Open(t)
	store := &operate.Store{DB: b.Conns}
	require.Equal(t, Finding{Check: "limits", Severity: Fine, Finding: "none are set"}, checkLimits(t.Context(), store))
	for _, key := range []string{"smtp", "gpu", "customer-2", "customer-3"} { // the last is no misspelling of customer-1
		b.InsertWith(b.Shop.Shop, 3, "limit_key", "$3", key)
	}
	b.Limit(false, "gpu", 100_000, nil, nil)
	b.Limit(true, "customer-1", 2, nil, nil)
	b.Limit(false, "customer-2", 3, "{10,100}", "{1 second,1 minute}")
	b.Limit(true, "seldom", 1, nil, nil)
	require.Equal(t, "nothing is wrong with 4", checkLimits(t.Context(), store).Finding)

	must.Get(b.Claim(t.Context(), 100)).In(t)
	b.Execute("update pgdispatch.limits set max_concurrent = 1 where key = 'gpu'")
	b.Limit(true, "smt", 1, nil, nil)
	b.Limit(true, "big", 100_000, nil, nil)
	b.Limit(false, "contrary", nil, "{10,5}", "{1 second,1 minute}")
	b.Limit(false, "nothing", nil, nil, nil)
	found := checkLimits(t.Context(), store)
	require.Equal(t, Warning, found.Severity)
	require.Equal(t, "smt in shop has no items, but some have the key smtp, which has no limit; "+
		"gpu over all workspaces holds more than its maximum of 1; "+
		"big in shop has a maximum of 100000, but its workspace runs at most 100; "+
		"contrary over all workspaces has the rate 10/1s, but never reaches it because of 5/1m; "+
		"nothing over all workspaces limits nothing", found.Finding)
	require.NotContains(t, found.Meaning+found.Remedy, "  ")
	require.Contains(t, found.Remedy, "executions cancel")

	b.Execute("delete from pgdispatch.limits where key <> 'smt'")
	b.Limit(true, "smtp", 9, nil, nil)
	require.Equal(t, Fine, checkLimits(t.Context(), store).Severity, "the key that items have is limited")
}

func TestDoctorSaysThatItCannotReadLimits(t *testing.T) {
	t.Parallel()
	shop := sqltest.NewShop(t)
	shop.Execute("drop table pgdispatch.limits cascade")
	require.Equal(t, Unknown, checkLimits(t.Context(), &operate.Store{DB: shop.Conns}).Severity)
}
