package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// readRunConfig reads the configuration of `run` from flags and variables.
func readRunConfig(t *testing.T, variables map[string]string, args ...string) (config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	addFlags(flags, runOptions)
	require.NoError(t, flags.Parse(args))
	return readConfig(flags, func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}, runOptions)
}

func TestRunNeedsNoConfiguration(t *testing.T) {
	t.Parallel()
	c, err := readRunConfig(t, nil)
	require.NoError(t, err)
	require.Equal(t, config{
		workers:      10,
		lease:        30 * time.Second,
		pollInterval: 5 * time.Second,
		startTimeout: 5 * time.Second,
		drainTimeout: 20 * time.Second,
		maxWatches:   800,
		listen:       true,
		durable:      durableClaims,
		logLevel:     slog.LevelInfo,
	}, c)
}

// differing has another value than the default for every option of `run`.
var differing = map[string]string{
	"database-url":            "postgres://other",
	"allow-insecure-database": "on",
	"allow-insecure-temporal": "on",
	"temporal-address":        "temporal:7233",
	"temporal-namespace":      "shop",
	"workers":                 "3",
	"lease":                   "1m",
	"poll-interval":           "50ms",
	"start-timeout":           "7s",
	"drain-timeout":           "0s",
	"max-watches":             "5",
	"listen":                  "off",
	"durable-commits":         "all",
	"admin-addr":              "127.0.0.1:9464",
	"admin-token":             "0123456789abcdef",
	"view-token":              "fedcba9876543210",
	"operator-database-url":   "postgres://operator@other",
	"temporal-ui-url":         "http://localhost:8233",
	"metrics-workspaces":      "20",
	"callback-url":            "https://pgdispatch.example.com/callbacks",
	"callback-addr":           ":9465",
	"log-level":               "debug",
}

func TestEveryOptionHasAFlagAVariableAndAWorkingDefault(t *testing.T) {
	t.Parallel()
	defaults, err := readRunConfig(t, nil)
	require.NoError(t, err)
	flags, variables := map[string]bool{}, map[string]bool{}
	for _, o := range runOptions {
		value, known := differing[o.flag]
		require.True(t, known, "option --%s is not in this test", o.flag)
		require.NotEmpty(t, o.usage)
		require.False(t, flags[o.flag] || variables[o.variable], "two options are named %s", o.flag)
		flags[o.flag], variables[o.variable] = true, true

		byFlag, err := readRunConfig(t, nil, "--"+o.flag+"="+value)
		require.NoError(t, err)
		byVariable, err := readRunConfig(t, map[string]string{o.variable: value})
		require.NoError(t, err)
		require.Equal(t, byFlag, byVariable, o.flag)
		require.NotEqual(t, defaults, byFlag, o.flag)
	}
}

func TestFlagBeatsVariableBeatsDefault(t *testing.T) {
	t.Parallel()
	variables := map[string]string{"PGDISPATCH_WORKERS": "20", "PGDISPATCH_LEASE": "20s", "PGDISPATCH_LISTEN": "off"}
	c, err := readRunConfig(t, variables, "--workers=30", "--listen", "on")
	require.NoError(t, err)
	require.Equal(t, 30, c.workers)
	require.Equal(t, 20*time.Second, c.lease)
	require.True(t, c.listen)
	require.Equal(t, 5*time.Second, c.pollInterval)
}

func TestEmptyVariableIsAsGoodAsNone(t *testing.T) {
	t.Parallel()
	variables := map[string]string{}
	for _, o := range runOptions {
		variables[o.variable] = ""
	}
	c, err := readRunConfig(t, variables)
	require.NoError(t, err)
	defaults, err := readRunConfig(t, nil)
	require.NoError(t, err)
	require.Equal(t, defaults, c)
}

func TestFlagThatSaysTheDefaultStillBeatsTheVariable(t *testing.T) {
	t.Parallel()
	c, err := readRunConfig(t, map[string]string{"PGDISPATCH_WORKERS": "20"}, "--workers=10")
	require.NoError(t, err)
	require.Equal(t, 10, c.workers)
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
		"PGDISPATCH_WORKERS":       "10", // hidden by the flag
	}, "--workers=0", "--log-level=loud")
	require.EqualError(t, err, `configuration: --workers is "0": it must be a whole number from 1 to 1000
PGDISPATCH_LEASE is "0.5s": it must be a duration from 1s to 1h0m0s, such as 500ms, 30s or 5m
PGDISPATCH_POLL_INTERVAL is "5": it must be a duration from 10ms to 1h0m0s, such as 500ms, 30s or 5m
PGDISPATCH_START_TIMEOUT is "6m": it must be a duration from 10ms to 5m0s, such as 500ms, 30s or 5m
PGDISPATCH_DRAIN_TIMEOUT is "-1s": it must be a duration from 0s to 1h0m0s, such as 500ms, 30s or 5m
PGDISPATCH_MAX_WATCHES is "100001": it must be a whole number from 0 to 100000
PGDISPATCH_LISTEN is "maybe": it must be on or off
PGDISPATCH_ADMIN_ADDR is "9464": it must be host:port, such as 127.0.0.1:9464 or :9464; port 0 takes any that is free
PGDISPATCH_ADMIN_TOKEN is "***": it must have 16 characters or more
--log-level is "loud": it must be debug, info, warn or error`)
}

func TestTheTokenForLookingIsAnotherThanTheOneForActing(t *testing.T) {
	t.Parallel()
	c, err := readRunConfig(t, map[string]string{"PGDISPATCH_ADMIN_TOKEN": "0123456789abcdef", "PGDISPATCH_VIEW_TOKEN": "0123456789abcdef"})
	require.NoError(t, err)
	require.ErrorContains(t, c.checkTokens(), "PGDISPATCH_VIEW_TOKEN is the same as PGDISPATCH_ADMIN_TOKEN")
	c.viewToken = "fedcba9876543210"
	require.NoError(t, c.checkTokens())
	c.viewToken, c.adminToken = "", ""
	require.NoError(t, c.checkTokens())
	_, err = readRunConfig(t, map[string]string{"PGDISPATCH_VIEW_TOKEN": "short", "PGDISPATCH_OPERATOR_DATABASE_URL": "postgres://me:secret@db:port/x"})
	require.ErrorContains(t, err, `PGDISPATCH_VIEW_TOKEN is "***": it must have 16 characters or more`)
	require.ErrorContains(t, err, `PGDISPATCH_OPERATOR_DATABASE_URL is "***": `)
	require.NotContains(t, err.Error(), "secret")
}

func TestWhatIsNoValueAtAllIsRefused(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"--workers=", "--workers=ten", "--workers=1e2", "--workers=1001", "--lease=", "--lease=-30s", "--lease=61m",
		"--listen=", "--listen=1", "--log-level=", "--log-level=INFO+2",
		"--temporal-ui-url=localhost:8233", "--temporal-ui-url=javascript:alert(1)", "--temporal-ui-url=//host", "--temporal-ui-url=http://",
		"--temporal-ui-url=http://me:secret@host", "--temporal-ui-url=http://host/?a=b", "--temporal-ui-url=http://host/#a", "--temporal-ui-url=http://%"} {
		_, err := readRunConfig(t, nil, arg)
		name, _, _ := strings.Cut(arg, "=")
		require.ErrorContains(t, err, name+" is ", arg)
	}
}

func TestUsageNamesVariableAndDefault(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	addFlags(flags, runOptions)
	for _, o := range runOptions {
		usage := flags.Lookup(o.flag).Usage
		require.Contains(t, usage, "$"+o.variable)
		require.Equal(t, o.fallback != "", strings.Contains(usage, "default "+o.fallback+"]"), o.flag)
	}
}

func TestRedactHidesPasswords(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"cannot parse `postgres://app:secret@db:5432/shop`: bad port",
		"cannot parse `postgresql://app:secret@db/shop?sslmode=x`: bad sslmode",
		"dial postgres://secret@db/shop: refused",
		"two of them: postgres://a:secret@db/x and postgres://b:secret@db/y",
		"cannot parse `host=db user=app password=secret dbname=shop`: bad keyword",
		"cannot parse `host=db password='secret and more' user=app`: bad keyword",
		"cannot parse `postgres://db/shop?password=secret`: bad keyword",
		"cannot parse `password=secret`",
	} {
		clean := redact(errors.New(text)).Error()
		require.NotContains(t, clean, "secret", text)
		require.NotContains(t, clean, "and more", text)
	}
}

func TestRedactLeavesTheRestAsItIs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"connection refused",
		"dial tcp 127.0.0.1:5432: connect: connection refused",
		"failed to connect to `user=app database=shop`: server error: FATAL: password authentication failed for user \"app\"",
		"postgres://db:5432/shop: no such host",
	} {
		err := fmt.Errorf("open pool: %w", errors.New(text))
		require.Equal(t, err, redact(err), "an error without credentials stays what it is")
	}
	clean := redact(errors.New("cannot parse `postgres://app:secret@db:5432/shop`: bad port")).Error()
	require.Contains(t, clean, "@db:5432/shop`: bad port")
}

func TestRedactHidesAnAddressThatIsNoURL(t *testing.T) {
	t.Parallel()
	address := strings.Join([]string{"postgres://app:secret@db", "port/shop"}, ":")
	_, err := url.Parse(address)
	require.Error(t, err)
	require.NotContains(t, redact(fmt.Errorf("DATABASE_URL: %w", err)).Error(), "secret")
}

// What pgx itself says of an address that it cannot read.
func TestErrorsOfBadAddressesHideThePassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://app:secret@db:port/shop",
		"postgres://app:secret@db/shop?sslmode=nonsense",
		"postgres://app:sec%zzsecret@db/shop",
		"host=db user=app password=secret port=nonsense",
		"host=db user=app password='secret and more' connect_timeout=x",
		"password=secret nonsense",
	} {
		_, err := pgx.ParseConfig(address)
		require.Error(t, err, address)
		require.NotContains(t, redact(err).Error(), "secret", address)
		require.NotContains(t, redact(err).Error(), "and more", address)
		_, err = openPool(t.Context(), config{databaseURL: address}, 1, nil)
		require.ErrorContains(t, err, "DATABASE_URL: ")
		require.NotContains(t, err.Error(), "secret", address)
	}
}

func TestRedactHidesAwkwardPasswords(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"host=db password = s3cret dbname=shop",
		`host=db PASSWORD='it\'s s3cret' dbname=shop`,
		"cannot parse `postgres://app:p@s3cret@db:5432/shop`",
	} {
		require.NotContains(t, redact(errors.New(text)).Error(), "s3cret")
	}
}

func TestDurableCommitsSayWhatWaitsForTheDisk(t *testing.T) {
	t.Parallel()
	for durable, want := range map[durability][2]string{durableClaims: {"on", "off"}, durableAll: {"on", "on"}, durableNone: {"off", "off"}} {
		claims, others := poolSettings(config{listen: true, durable: durable})
		require.Equal(t, want, [2]string{claims["synchronous_commit"], others["synchronous_commit"]}, durable)
		require.Equal(t, "read committed", claims["default_transaction_isolation"])
	}
	claims, others := poolSettings(config{durable: durableNone})
	require.Nil(t, claims, "a transaction pooler takes no settings")
	require.Nil(t, others)
}
