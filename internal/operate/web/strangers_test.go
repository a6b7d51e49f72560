package web

import (
	"net/url"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

// A position in a list is read as it was written, or refused.
func FuzzPosition(f *testing.F) {
	for _, text := range []string{"", ",", "2026-01-02T03:04:05.6Z,7", "0000-01-01T00:00:00Z,1", "2026-01-02T03:04:05Z,-1",
		"2026-01-02T03:04:05+23:59,1", "bmFu", "TmFOCjVkMGNkYjBiLTNlMGYtNGMyNS04YTNlLTdmNmQxYzdhMDAwMQphY21l"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := parseDeadKey(text); err == nil && k != nil {
			again := must.Get(parseDeadKey(formatDeadKey(*k))).In(t)
			require.True(t, k.FailedAt.Equal(again.FailedAt))
			require.Equal(t, k.ID, again.ID)
		}
		if k, err := parseKey(text); err == nil && k != nil {
			again := must.Get(parseKey(formatKey(*k))).In(t)
			require.Equal(t, formatKey(*k), formatKey(*again), "a rank may be NaN")
		}
	})
}

// What is typed into a filter is understood, and shown as it was understood, or refused.
func FuzzFilter(f *testing.F) {
	for _, line := range []string{"", "status:running", `error:"a b" status:FAILED`, "status:", "x:1", `"`, "a:b:c",
		"workspace:acme workspace:b", "priority:101", "key:\x00", "since:1h until:2h", "params:{}", "STATUS:full"} {
		f.Add(line)
	}
	bar := itemBar()
	f.Fuzz(func(t *testing.T, line string) {
		filter, err := typedFilter(url.Values{}, line, bar.Names)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		for name := range filter {
			require.Contains(t, bar.Names, name)
		}
		again, err := typedFilter(filter, "", bar.Names)
		require.NoError(t, err, "what is in force can be kept")
		require.Equal(t, filter, again)
	})
}
