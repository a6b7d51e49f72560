package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// written writes a temporary file and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestEveryOptionMayStandInAFile(t *testing.T) {
	t.Parallel()
	for _, o := range RunOptions {
		alone := written(t, "one.yaml", o.key()+": "+differing[o.Flag]+"\n")
		inFile := configured(t, nil, "--config", alone)
		byFlag := configured(t, nil, "--"+o.Flag+"="+differing[o.Flag])
		require.Equal(t, byFlag, inFile, o.Flag)
	}
}

func TestFlagBeatsVariableBeatsFileBeatsDefault(t *testing.T) {
	t.Parallel()
	path := written(t, "c.yaml", "workers: 1\nlease: 1m\nlisten: off\nadmin_addr:\nmax_watches: 7\n")
	c := must.Get(readRunConfig(t,
		map[string]string{"PGDISPATCH_WORKERS": "2", "PGDISPATCH_LEASE": "2m", "PGDISPATCH_LISTEN": "",
			"PGDISPATCH_CONFIG": "/nowhere"},
		"--config", path, "--workers=3", "--max-watches=800")).In(t)
	require.Equal(t, 3, c.Workers)
	require.Equal(t, 800, c.MaxWatches, "a flag that says the default beats the file, too")
	require.Equal(t, 2*time.Minute, c.Lease)
	require.False(t, c.Listen)
	require.Equal(t, 5*time.Second, c.PollInterval)
	require.Empty(t, c.AdminAddr, "a key without a value is not set")
}

func TestAllFaultsOfAllSourcesAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	path := written(t, "c.yaml",
		"worker: 10\nLEASE: 30s\ncolour: blue\nlisten: [on]\nlisten: on\npoll_interval: 5\nadmin_token: short\n")
	_, err := readRunConfig(t,
		map[string]string{"PGDISPATCH_LEASE": "0.5s", "DATABASE_URL": "postgres://app:secret@db:port/shop"}, "--config", path,
		"--log-level=loud")
	require.ErrorContains(t, err, `--config is "`+path+`": unknown key worker in line 1 of `+path+`: did you mean workers?
unknown key LEASE in line 2 of `+path+`: did you mean lease?
unknown key colour in line 3 of `+path+`: the keys are database_url, allow_insecure_database,`)
	require.ErrorContains(t, err, `listen in line 4 of `+path+` must be one value, such as "workers: 10"`)
	require.ErrorContains(t, err, `PGDISPATCH_LEASE is "0.5s": it must be a duration`)
	require.ErrorContains(t, err, `--log-level is "loud"`)
	require.ErrorContains(t, err, `DATABASE_URL is "***": `)
	require.NotContains(t, err.Error(), "app:secret")
}

func TestFaultsOfValuesInAFileNameTheirLine(t *testing.T) {
	t.Parallel()
	path := written(t, "c.yaml", "# a comment\npoll_interval: 5\nadmin_token: short\nworkers: 3\nworkers: 4\n")
	_, err := readRunConfig(t, nil, "--config", path)
	require.ErrorContains(t, err, "duplicate key workers in line 5 of "+path+": remove one")
	path = written(t, "c.yaml", "# a comment\npoll_interval: 5\nadmin_token: short\n")
	_, err = readRunConfig(t, nil, "--config", path)
	require.EqualError(t, err, `configuration: poll_interval in line 2 of `+path+
		` is "5": it must be a duration from 10ms to 1h0m0s, such as 500ms, 30s or 5m
admin_token in line 3 of `+path+` is "***": it must have at least 16 characters`)
}

func TestAFileThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"workers":                          `it must be a mapping with lines such as "workers: 10"`,
		"- workers":                        `it must be a mapping with lines such as "workers: 10"`,
		"workers: 10\n---\nworkers: 11":    "it must contain exactly one YAML document",
		"workers: [":                       "yaml: ",
		"lease: &a 30s\nstart_timeout: *a": "must be one value",
	} {
		_, err := readRunConfig(t, nil, "--config", written(t, "c.yaml", text))
		require.ErrorContains(t, err, want, text)
	}
	_, err := readRunConfig(t, map[string]string{"PGDISPATCH_CONFIG": "/nowhere/c.yaml"})
	require.ErrorContains(t, err,
		`PGDISPATCH_CONFIG is "/nowhere/c.yaml": open /nowhere/c.yaml: no such file or directory: name a file`)
	c := configured(t, nil, "--config", written(t, "c.yaml", "# nothing yet\n"))
	require.Equal(t, 10, c.Workers)
}

func TestASecretMayStandInAFileOfItsOwn(t *testing.T) {
	t.Parallel()
	url := written(t, "url", "postgres://app:secret@db/shop\n")
	c, err := readRunConfig(t,
		map[string]string{"DATABASE_URL_FILE": url, "PGDISPATCH_ADMIN_TOKEN_FILE": written(t, "token", "0123456789abcdef\n")})
	require.NoError(t, err)
	require.Equal(t, "postgres://app:secret@db/shop", c.Database.URL)
	require.Equal(t, "0123456789abcdef", c.AdminToken)
	c = configured(t, map[string]string{"DATABASE_URL_FILE": url, "DATABASE_URL": "postgres://other"})
	require.Equal(t, "postgres://other", c.Database.URL)
	_, err = readRunConfig(t, map[string]string{"DATABASE_URL_FILE": "/nowhere", "PGDISPATCH_WORKERS_FILE": url})
	require.EqualError(t, err, `configuration: DATABASE_URL_FILE is "***": open /nowhere: no such file or directory`)
}

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
	first := must.Get(load("lease: 60s\nadmin_token: 0123456789abcdef\n")).In(t)
	next := must.Get(load("lease: 1m\nadmin_token: abcdef0123456789\nlog_level: debug\nworkers: 20\nlisten: " +
		"on\nmax_watches: 7\n")).In(t)
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
	_, err := load("admin_token: 0123456789abcdef\nview_token: 0123456789abcdef\n")
	require.ErrorContains(t, err, "PGDISPATCH_VIEW_TOKEN equals PGDISPATCH_ADMIN_TOKEN")
}
