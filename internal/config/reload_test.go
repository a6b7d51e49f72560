package config

import (
	"log/slog"
	"os"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestAReloadTakesWhatItCanAndNamesWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	path := written(t, "c.yaml", "workers: 10\nlease: 60s\n")
	load := func(text string) (Loaded, error) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		AddFlags(flags, RunOptions)
		require.NoError(t, flags.Parse([]string{"--config", path, "--listen=off"}))
		return Load(flags, func(string) (string, bool) { return "", false })
	}
	first, err := load("lease: 60s\nadmin_token: 0123456789abcdef\n")
	require.NoError(t, err)
	next, err := load("lease: 1m\nadmin_token: abcdef0123456789\nlog_level: debug\nworkers: 20\nlisten: " +
		"on\nmax_watches: 7\n")
	require.NoError(t, err)
	with, changed, refused := first.Reload(next)
	require.Equal(t, []string{"admin-token", "log-level"}, changed,
		"an equal lease is no change, and a flag overrides the file")
	require.Equal(t, []string{"workers", "max-watches"}, refused)
	want := first.Config
	want.AdminToken, want.LogLevel = "abcdef0123456789", slog.LevelDebug
	require.Equal(t, want, with.Config)
	_, changed, refused = with.Reload(next)
	require.Empty(t, changed)
	require.Len(t, refused, 2, "the same settings are refused again")
	_, err = load("admin_token: 0123456789abcdef\nview_token: 0123456789abcdef\n")
	require.ErrorContains(t, err, "PGDISPATCH_VIEW_TOKEN equals PGDISPATCH_ADMIN_TOKEN")
}
