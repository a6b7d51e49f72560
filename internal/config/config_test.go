package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// readRunConfig reads the configuration of `run` from flags and variables.
func readRunConfig(t *testing.T, variables map[string]string, args ...string) (Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	AddFlags(flags, RunOptions)
	require.NoError(t, flags.Parse(args))
	return Read(flags, func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}, RunOptions)
}

// configured returns the configuration of `run`, which must be a good one.
func configured(t *testing.T, variables map[string]string, args ...string) Config {
	t.Helper()
	return must.Get(readRunConfig(t, variables, args...)).In(t)
}

func TestRunNeedsNoConfiguration(t *testing.T) {
	t.Parallel()
	c := configured(t, nil)
	require.Equal(t, Config{
		Workers:       10,
		Lease:         30 * time.Second,
		PollInterval:  5 * time.Second,
		StartTimeout:  5 * time.Second,
		DrainTimeout:  20 * time.Second,
		MaxWatches:    800,
		MetricsLimits: 50,
		Listen:        true,
		Durable:       DurableClaims,
		LogLevel:      slog.LevelInfo,
		SignIn: SignIn{Operators: []string{"operator"}, Viewers: []string{"viewer"}, RoleClaim: "groups",
			Scopes: []string{"openid", "email", "profile"}},
	}, c)
}

// differing has a non-default value for every Option of `run`.
var differing = map[string]string{
	"database-url":            "postgres://other",
	"allow-insecure-database": "on",
	"allow-insecure-temporal": "on",
	"temporal-address":        "temporal:7233",
	"temporal-namespace":      "shop",
	"codec-endpoint":          "https://codec.example.com/shop",
	"codec-token-file":        "/run/secrets/codec",
	"codec-ca-file":           "/etc/ssl/shop-ca.pem",
	"workers":                 "3",
	"lease":                   "1m",
	"poll-interval":           "50ms",
	"start-timeout":           "7s",
	"drain-timeout":           "0s",
	"max-watches":             "5",
	"listen":                  "off",
	"durable-commits":         "all",
	"admin-addr":              "127.0.0.1:9464",
	"admin-cert-file":         "/etc/ssl/web.crt",
	"admin-key-file":          "/etc/ssl/web.key",
	"admin-path-prefix":       "/tools/pgdispatch",
	"admin-token":             "0123456789abcdef",
	"view-token":              "fedcba9876543210",
	"auth-header":             "X-User",
	"auth-role-header":        "X-Roles",
	"trusted-proxies":         "10.0.0.7",
	"auth-operators":          "ops",
	"auth-viewers":            "staff",
	"auth-workspaces":         "acme=viewer@Acme",
	"oidc-issuer":             "https://login.example.com",
	"oidc-client-id":          "web",
	"oidc-client-secret":      "secret",
	"oidc-redirect-url":       "https://me.example.com/ui/signin/callback",
	"oidc-role-claim":         "roles",
	"oidc-scopes":             "openid groups,offline_access",
	"oidc-session-key":        "0123456789abcdef0123456789abcdef",
	"operator-database-url":   "postgres://operator@other",
	"temporal-ui-url":         "http://localhost:8233",
	"metrics-workspaces":      "20",
	"metrics-limits":          "7",
	"callback-url":            "https://pgdispatch.example.com/callbacks",
	"callback-addr":           ":9465",
	"log-level":               "debug",
}

func TestEveryOptionHasAFlagAVariableAndAWorkingDefault(t *testing.T) {
	t.Parallel()
	defaults := configured(t, nil)
	flags, variables := map[string]bool{}, map[string]bool{}
	for _, o := range RunOptions {
		value, known := differing[o.Flag]
		require.True(t, known, "option --%s is not in this test", o.Flag)
		require.NotEmpty(t, o.Usage)
		require.False(t, flags[o.Flag] || variables[o.Variable], "two options are named %s", o.Flag)
		flags[o.Flag], variables[o.Variable] = true, true

		byFlag := configured(t, nil, "--"+o.Flag+"="+value)
		byVariable := configured(t, map[string]string{o.Variable: value})
		require.Equal(t, byFlag, byVariable, o.Flag)
		require.NotEqual(t, defaults, byFlag, o.Flag)
	}
}

func TestEmptyVariableIsAsGoodAsNone(t *testing.T) {
	t.Parallel()
	variables := map[string]string{}
	for _, o := range RunOptions {
		variables[o.Variable] = ""
	}
	require.Equal(t, configured(t, nil), configured(t, variables))
}

func TestAllFaultsAreReportedAtOnceByName(t *testing.T) {
	t.Parallel()
	_, err := readRunConfig(t, map[string]string{
		"PGDISPATCH_LEASE":         "0.5s",
		"PGDISPATCH_POLL_INTERVAL": "5",
		"PGDISPATCH_START_TIMEOUT": "6m",
		"PGDISPATCH_DRAIN_TIMEOUT": "-1s",
		"PGDISPATCH_MAX_WATCHES":   "100001",
		"PGDISPATCH_LISTEN":        "maybe",
		"PGDISPATCH_ADMIN_ADDR":    "9464",
		"PGDISPATCH_ADMIN_TOKEN":   "too short",
		"PGDISPATCH_WORKERS":       "10", // overridden by the flag
	}, "--workers=0", "--log-level=loud")
	require.EqualError(t, err, `configuration: --workers is "0": it must be a whole number from 1 to 1000
PGDISPATCH_LEASE is "0.5s": it must be a duration from 1s to 1h0m0s, such as 500ms, 30s or 5m
PGDISPATCH_POLL_INTERVAL is "5": it must be a duration from 10ms to 1h0m0s, such as 500ms, 30s or 5m
PGDISPATCH_START_TIMEOUT is "6m": it must be a duration from 10ms to 5m0s, such as 500ms, 30s or 5m
PGDISPATCH_DRAIN_TIMEOUT is "-1s": it must be a duration from 0s to 1h0m0s, such as 500ms, 30s or 5m
PGDISPATCH_MAX_WATCHES is "100001": it must be a whole number from 0 to 100000
PGDISPATCH_LISTEN is "maybe": it must be on or off
PGDISPATCH_ADMIN_ADDR is "9464": it must be host:port, such as 127.0.0.1:9464 or :9464; port 0 selects a free port
PGDISPATCH_ADMIN_TOKEN is "***": it must have at least 16 characters
--log-level is "loud": it must be debug, info, warn or error`)
}

func TestACertificateNeedsItsKey(t *testing.T) {
	t.Parallel()
	for _, c := range []Config{{AdminCertFile: "a"}, {AdminKeyFile: "a"}} {
		require.ErrorContains(t, c.Check(), "set PGDISPATCH_ADMIN_CERT_FILE and PGDISPATCH_ADMIN_KEY_FILE, or neither")
	}
	require.NoError(t, Config{AdminCertFile: "a", AdminKeyFile: "b"}.checkAdmin())
}

func TestTheTokenForLookingIsAnotherThanTheOneForActing(t *testing.T) {
	t.Parallel()
	c := must.Get(readRunConfig(t,
		map[string]string{"PGDISPATCH_ADMIN_TOKEN": "0123456789abcdef", "PGDISPATCH_VIEW_TOKEN": "0123456789abcdef"})).In(t)
	require.ErrorContains(t, c.checkTokens(), "PGDISPATCH_VIEW_TOKEN equals PGDISPATCH_ADMIN_TOKEN")
	c.ViewToken = "fedcba9876543210"
	require.NoError(t, c.checkTokens())
	c.ViewToken, c.AdminToken = "", ""
	require.NoError(t, c.checkTokens())
	_, err := readRunConfig(t,
		map[string]string{"PGDISPATCH_VIEW_TOKEN": "short",
			"PGDISPATCH_OPERATOR_DATABASE_URL": "postgres://me:secret@db:port/x"})
	require.ErrorContains(t, err, `PGDISPATCH_VIEW_TOKEN is "***": it must have at least 16 characters`)
	require.ErrorContains(t, err, `PGDISPATCH_OPERATOR_DATABASE_URL is "***": `)
	require.NotContains(t, err.Error(), "secret")
}

func TestWhatIsNoValueAtAllIsRefused(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--workers=", "--workers=ten", "--workers=1e2", "--workers=1001", "--lease=",
		"--lease=-30s", "--lease=61m",
		"--listen=", "--listen=1", "--log-level=", "--log-level=INFO+2",
		"--temporal-ui-url=localhost:8233", "--temporal-ui-url=javascript:alert(1)", "--temporal-ui-url=//host",
		"--temporal-ui-url=http://",
		"--temporal-ui-url=http://me:secret@host", "--temporal-ui-url=http://host/?a=b", "--temporal-ui-url=http://host/#a",
		"--temporal-ui-url=http://%",
		"--codec-endpoint=http://codec.example.com", "--codec-endpoint=https://me:secret@codec.example.com"} {
		_, err := readRunConfig(t, nil, arg)
		name, _, _ := strings.Cut(arg, "=")
		require.ErrorContains(t, err, name+" is ", arg)
	}
}

func TestUsageNamesVariableAndDefault(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	AddFlags(flags, RunOptions)
	for _, o := range RunOptions {
		usage := flags.Lookup(o.Flag).Usage
		require.Contains(t, usage, "$"+o.Variable)
		require.Equal(t, o.Default != "", strings.Contains(usage, "default "+o.Default+"]"), o.Flag)
	}
}

func TestCallbacksAreConfiguredWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	const url, address = "https://pgdispatch.example.com/callbacks", ":9465"
	require.NoError(t, Config{}.checkCallbacks())
	require.NoError(t, Config{CallbackURL: url, CallbackAddr: address}.checkCallbacks())
	require.ErrorContains(t, Config{CallbackURL: url}.checkCallbacks(), "PGDISPATCH_CALLBACK_ADDR")
	require.ErrorContains(t, Config{CallbackAddr: address}.checkCallbacks(), "PGDISPATCH_CALLBACK_URL")

	for _, bad := range []string{"pgdispatch.example.com", "ftp://pgdispatch.example.com", "https://",
		"https://ann:secret@pgdispatch.example.com/", "https://a/#b",
		"https://pgdispatch.example.com/" + strings.Repeat("x", maxCallbackURL), "http://[::1"} {
		var into string
		require.Error(t, parseCallbackURL(bad, &into), bad)
	}
}

// A value is taken, or refused by an error that names its variable.
func FuzzConfiguration(f *testing.F) {
	for n := range RunOptions {
		for _, value := range []string{"", " ", "0", "-1", "1", "true", "10s", "1e9", "99999999999999999999", "a:b", ":0",
			"http://", "https://a/b?c#d", "postgres://a@b/c", "default,other", "\x00", "é", "/etc/none"} {
			f.Add(uint8(n), value)
		}
	}
	f.Fuzz(func(t *testing.T, n uint8, value string) {
		o := RunOptions[int(n)%len(RunOptions)]
		if _, err := readRunConfig(t, map[string]string{o.Variable: value}); err != nil {
			require.ErrorContains(t, err, o.Variable)
		}
	})
}

func TestAMisspeltVariableIsNamedWithTheOneThatWasMeant(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"PGDISPATCH_WORKER=50":              "PGDISPATCH_WORKERS",
		"PGDISPATCH_POLL_INTERVALL=1s":      "PGDISPATCH_POLL_INTERVAL",
		"pgdispatch_workers=50":             "PGDISPATCH_WORKERS",
		"PGDISPATCH_WORKERS_FILE=/run/x":    "PGDISPATCH_WORKERS",
		"PGDISPATCH_ADMIN_TOKEN_FLE=/run/x": "PGDISPATCH_ADMIN_TOKEN_FILE",
		"PGDISPATCH_DATABASE_URL=postgres:": "DATABASE_URL",
		"PGDISPATCH_TEMPORAL_ADDRESS=a:1":   "TEMPORAL_ADDRESS",
		"PGDISPATCH_PORT=9464":              "",
		"PGDISPATCH_COLOUR=blue":            "",
	} {
		found := UnknownVariables([]string{variable})
		require.Len(t, found, 1, variable)
		require.Equal(t, want, found[0].Nearest, variable)
	}
	require.Equal(t, "PGDISPATCH_WORKER is ignored: there is no such variable; did you mean PGDISPATCH_WORKERS?",
		UnknownVariable{"PGDISPATCH_WORKER", "PGDISPATCH_WORKERS"}.String())
}

func TestVariablesThatAreReadOrSetByOthersAreNotReported(t *testing.T) {
	t.Parallel()
	environment := []string{
		"PGDISPATCH_CONFIG=a", "PGDISPATCH_VIEW_TOKEN_FILE=a", "PGDISPATCH_EMPTY=", "PGHOST=db", "DATABASE_URL=a",
		"TEMPORAL_TLS=true",
		// Set by Kubernetes.
		"PGDISPATCH_SERVICE_HOST=10.0.0.1", "PGDISPATCH_ADMIN_SERVICE_PORT=80", "PGDISPATCH_SERVICE_PORT_HTTP=80",
		"PGDISPATCH_PORT=tcp://10.0.0.1:80", "PGDISPATCH_ADMIN_PORT_80_TCP=tcp://10.0.0.1:80",
		"PGDISPATCH_PORT_80_TCP_ADDR=10.0.0.1",
	}
	for _, o := range RunOptions {
		environment = append(environment, o.Variable+"=a")
	}
	require.Empty(t, UnknownVariables(environment))
	require.Len(t, UnknownVariables(append(slices.Clone(environment), "PGDISPATCH_SERVICE=a", "PGDISPATCH_LEASES=a")),
		2)
}

func TestReload_TakesANewLoginInAFileForNoChange(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	load := func(url string) Loaded {
		require.NoError(t, os.WriteFile(file, []byte(url), 0o600))
		environment := map[string]string{"DATABASE_URL_FILE": file}
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		AddFlags(flags, RunOptions)
		l, err := Load(flags, func(name string) (string, bool) { v, ok := environment[name]; return v, ok })
		require.NoError(t, err)
		return l
	}
	was := load("postgres://app:first@localhost:5432/shop")
	require.Equal(t, file, was.Database.File)
	_, _, refused := was.Reload(load("postgres://app:second@localhost:5432/shop"))
	require.Empty(t, refused)
	_, _, refused = was.Reload(load("postgres://app:second@localhost:5432/bank"))
	require.Equal(t, []string{"database-url"}, refused)
}
