// Package config is every setting: its flag, environment variable, default and check, each written once.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/spf13/pflag"
)

// Config holds all options. A flag overrides its environment variable, which overrides the configuration file, which
// overrides the default.
type Config struct {
	Database postgres.Target
	Temporal temporal.Target
	Codec    temporal.CodecTarget
	// OperatorURL is the database URL of the role for changes in the web view. Empty means that of Database.
	OperatorURL string
	// OperatorFile is the file that OperatorURL was read from. Empty if it was not read from a file.
	OperatorFile      string
	Workers           int
	Lease             time.Duration
	PollInterval      time.Duration
	StartTimeout      time.Duration
	DrainTimeout      time.Duration
	MaxWatches        int
	Listen            bool
	Durable           Durability
	AdminAddr         string // empty disables the admin server
	AdminToken        string // empty means read-only pages, and profiles on loopback only
	AdminBase         string // path below which a proxy serves the web view; empty means at the root
	AdminCertFile     string // with AdminKeyFile; empty means plain HTTP
	AdminKeyFile      string
	ViewToken         string // empty means viewing takes AdminToken; without both, loopback
	SignIn            SignIn
	TemporalUI        string // base URL for links to Temporal's web UI; empty disables them
	MetricsWorkspaces int
	MetricsLimits     int
	CallbackURL       string // empty disables callbacks
	CallbackAddr      string
	LogLevel          slog.Level
}

// Operator returns the database to connect to for changes in the web view.
func (c Config) Operator() postgres.Target {
	if c.OperatorURL == "" {
		return c.Database
	}
	return postgres.Target{URL: c.OperatorURL, Variable: operatorVariable, File: c.OperatorFile,
		AllowUnverified: c.Database.AllowUnverified}
}

// Check refuses settings that contradict each other, and connections to other machines without verified TLS.
func (c Config) Check() error {
	var operator error
	if c.OperatorURL != "" {
		operator = c.Operator().Verify()
	}
	return errors.Join(operator, c.Temporal.Verify(), c.Codec.Verify(), c.checkCallbacks(), c.checkTokens(),
		c.checkAdmin(), c.checkSignIn())
}

const (
	// ClaimConnections serves claims, which run one at a time.
	ClaimConnections = 2
	// OtherConnections serves everything else: settles, heartbeats, sweeps, pings and recorded ends.
	OtherConnections = 8
	// Connections is the number of connections of one replica: its pools, the listener and the gate. The web view opens
	// more while it is used.
	Connections = ClaimConnections + OtherConnections + 2
)

// Durability selects the commits that wait until a crash of Postgres cannot undo them.
type Durability string

const (
	// DurableClaims makes claims durable. Everything else that a crash undoes is recovered.
	DurableClaims Durability = "claims"
	DurableAll    Durability = "all"
	// DurableNone makes no commits durable, not even claims. A crash can then undo a claim and give its workspace's
	// slot to another item while the first workflow is running.
	DurableNone Durability = "none"
)

// Option defines one configuration value: its flag, variable, default and parser.
type Option struct {
	Flag, Variable, Default, Usage string
	set                            func(*Config, string) error
}

// Secret reports whether the value must not be shown. A secret may also be read from the file that <variable>_FILE
// names.
func (o Option) Secret() bool {
	return slices.Contains([]string{"database-url", "operator-database-url", "admin-token", "view-token",
		"oidc-client-secret", "oidc-session-key"}, o.Flag)
}

// operatorVariable is also named in errors that appear only when its value is used.
const operatorVariable = "PGDISPATCH_OPERATOR_DATABASE_URL"

var databaseURL = Option{"database-url", "DATABASE_URL", "", "Postgres connection URL; if empty, libpq's PG* variables",
	func(c *Config, v string) error { return parseDatabaseURL(v, &c.Database.URL) }}

// DatabaseOptions are the options of all commands that need the database.
var DatabaseOptions = []Option{databaseURL,
	{"allow-insecure-database", "PGDISPATCH_ALLOW_INSECURE_DATABASE", "off",
		"on: allow Postgres on other machines without verified TLS",
		func(c *Config, v string) error { return parseSwitch(v, &c.Database.AllowUnverified) }},
}

var RunOptions = slices.Concat(DatabaseOptions, []Option{
	{"temporal-address", "TEMPORAL_ADDRESS", "",
		"host:port of Temporal; if empty, as in Temporal's configuration, else localhost:7233",
		func(c *Config, v string) error { c.Temporal.Address = v; return nil }},
	{"temporal-namespace", "TEMPORAL_NAMESPACE", "",
		"namespace of workflows; if empty, as in Temporal's configuration, else default",
		func(c *Config, v string) error { c.Temporal.Namespace = v; return nil }},
	{"allow-insecure-temporal", "PGDISPATCH_ALLOW_INSECURE_TEMPORAL", "off",
		"on: allow Temporal on other machines without verified TLS",
		func(c *Config, v string) error { return parseSwitch(v, &c.Temporal.AllowUnverified) }},
	{"codec-endpoint", "PGDISPATCH_CODEC_ENDPOINT", "",
		"URL of a codec server for payloads, without /encode and /decode; if empty, payloads are plain JSON",
		func(c *Config, v string) error { return parseSafeURL(v, &c.Codec.Endpoint) }},
	{"codec-token-file", "PGDISPATCH_CODEC_TOKEN_FILE", "",
		"file with the codec server's token, sent as Authorization: Bearer; a new one is used within 2 s",
		func(c *Config, v string) error { c.Codec.TokenFile = v; return nil }},
	{"codec-ca-file", "PGDISPATCH_CODEC_CA_FILE", "",
		"file with the CA of the codec server's certificate, if the machine does not trust it",
		func(c *Config, v string) error { c.Codec.CAFile = v; return nil }},
	{"workers", "PGDISPATCH_WORKERS", "10", "items that this replica starts concurrently, 1 to 1000",
		func(c *Config, v string) error { return parseInt(v, 1, 1000, &c.Workers) }},
	{"lease", "PGDISPATCH_LEASE", "30s",
		"time until a dead replica's items are recovered, 1s to 1h; leases are renewed every third of it",
		func(c *Config, v string) error { return parseDuration(v, time.Second, time.Hour, &c.Lease) }},
	{"poll-interval", "PGDISPATCH_POLL_INTERVAL", "5s", "interval of polls, 10ms to 1h",
		func(c *Config, v string) error {
			return parseDuration(v, 10*time.Millisecond, time.Hour, &c.PollInterval)
		}},
	{"start-timeout", "PGDISPATCH_START_TIMEOUT", "5s",
		"timeout of a start, 10ms to 5m; an unanswered one is repeated",
		func(c *Config, v string) error {
			return parseDuration(v, 10*time.Millisecond, 5*time.Minute, &c.StartTimeout)
		}},
	{"drain-timeout", "PGDISPATCH_DRAIN_TIMEOUT", "20s",
		"time for running starts to finish after SIGTERM, 0s to 1h",
		func(c *Config, v string) error { return parseDuration(v, 0, time.Hour, &c.DrainTimeout) }},
	{"max-watches", "PGDISPATCH_MAX_WATCHES", "800",
		"maximum number of executions that this replica long-polls, 0 to 100000",
		func(c *Config, v string) error { return parseInt(v, 0, 100000, &c.MaxWatches) }},
	{"listen", "PGDISPATCH_LISTEN", "on",
		"on: wake up on notifications; off: only poll, behind a transaction pooler",
		func(c *Config, v string) error { return parseSwitch(v, &c.Listen) }},
	{"durable-commits", "PGDISPATCH_DURABLE_COMMITS", "claims",
		"commits that wait for the disk: claims, all, or none (a crash of Postgres may break limits)",
		func(c *Config, v string) error { return parseDurability(v, &c.Durable) }},
	{"admin-addr", "PGDISPATCH_ADMIN_ADDR", "",
		"host:port to serve /livez, /readyz, /metrics and the web view at /ui/; disabled if empty",
		func(c *Config, v string) error { return parseAddress(v, &c.AdminAddr) }},
	{"admin-path-prefix", "PGDISPATCH_ADMIN_PATH_PREFIX", "",
		"path below which a proxy serves the web view, such as /tools for /tools/ui/",
		func(c *Config, v string) error { return parseBase(v, &c.AdminBase) }},
	{"admin-cert-file", "PGDISPATCH_ADMIN_CERT_FILE", "",
		"PEM file with the certificate of admin-addr, read again when it changes; plain HTTP if empty",
		func(c *Config, v string) error { c.AdminCertFile = v; return nil }},
	{"admin-key-file", "PGDISPATCH_ADMIN_KEY_FILE", "", "PEM file with the key of that certificate",
		func(c *Config, v string) error { c.AdminKeyFile = v; return nil }},
	{"admin-token", "PGDISPATCH_ADMIN_TOKEN", "",
		"token for changes in the web view and for /debug/pprof/, at least 16 characters; if empty, pages are read-only " +
			"and on loopback only",
		func(c *Config, v string) error { return parseToken(v, &c.AdminToken) }},
	{"view-token", "PGDISPATCH_VIEW_TOKEN", "",
		"token for viewing only, at least 16 characters; differs from the admin token",
		func(c *Config, v string) error { return parseToken(v, &c.ViewToken) }},
	{"operator-database-url", operatorVariable, "",
		"Postgres connection URL for changes in the web view; if empty, database-url",
		func(c *Config, v string) error { return parseDatabaseURL(v, &c.OperatorURL) }},
	{"temporal-ui-url", "PGDISPATCH_TEMPORAL_UI_URL", "",
		"URL of Temporal's web UI, such as http://localhost:8233, for links to workflows",
		func(c *Config, v string) error { return parseUIURL(v, &c.TemporalUI) }},
	{"metrics-workspaces", "PGDISPATCH_METRICS_WORKSPACES", "0",
		"workspaces with metrics of their own, those with the most items, 0 to 1000",
		func(c *Config, v string) error { return parseInt(v, 0, 1000, &c.MetricsWorkspaces) }},
	{"metrics-limits", "PGDISPATCH_METRICS_LIMITS", "50",
		"limits of keys with metrics of their own, the most used, 0 to 200; others are summed up",
		func(c *Config, v string) error { return parseInt(v, 0, 200, &c.MetricsLimits) }},
	{"callback-url", "PGDISPATCH_CALLBACK_URL", "",
		"URL of a replica's callback-addr, which Temporal calls when a workflow ends",
		func(c *Config, v string) error { return parseCallbackURL(v, &c.CallbackURL) }},
	{"callback-addr", "PGDISPATCH_CALLBACK_ADDR", "",
		"host:port on which this replica accepts completion callbacks; disabled if empty",
		func(c *Config, v string) error { return parseAddress(v, &c.CallbackAddr) }},
	{"log-level", "PGDISPATCH_LOG_LEVEL", "info", "lowest level to log: debug, info, warn or error",
		func(c *Config, v string) error { return parseLevel(v, &c.LogLevel) }},
}, signInOptions)

// DoctorOptions are the options of `run` that concern the addresses of Postgres, Temporal, the codec server and the
// callback server.
var DoctorOptions = slices.DeleteFunc(slices.Clone(RunOptions), func(o Option) bool {
	return !slices.Contains(
		[]string{"database-url", "allow-insecure-database", "temporal-address", "temporal-namespace",
			"allow-insecure-temporal", "codec-endpoint", "codec-token-file", "codec-ca-file", "listen", "callback-url"}, o.Flag)
})

// AddFlags adds a flag for each Option. Defaults appear in the usage text only, because variables and the file come
// before them.
func AddFlags(flags *pflag.FlagSet, options []Option) {
	for _, o := range options {
		usage := o.Usage + " [$" + o.Variable
		if o.Default != "" {
			usage += ", default " + o.Default
		}
		flags.String(o.Flag, "", usage+"]")
	}
	flags.String(configFlag, "", "YAML file with values for options that no flag or variable sets [$"+configVariable+"]")
}

// Read reads all options and reports all errors at once.
func Read(flags *pflag.FlagSet, lookupEnv func(string) (string, bool), options []Option) (Config, error) {
	l, err := read(flags, lookupEnv, options)
	return l.Config, err
}

func read(flags *pflag.FlagSet, lookupEnv func(string) (string, bool), options []Option) (Loaded, error) {
	c := Loaded{texts: map[string]string{}}
	var faults []error
	path, name := given(flags, lookupEnv, configFlag, configVariable)
	var file map[string]fileValue
	if path != "" {
		var err error
		if file, err = readConfigFile(path); err != nil {
			faults = append(faults, fmt.Errorf("%s is %q: %w", name, path, err))
		}
	}
	for _, o := range options {
		text, name, err := o.text(flags, lookupEnv, file)
		if err == nil {
			err = o.set(&c.Config, text)
		}
		if path, _ := lookupEnv(name); o.Secret() && name == o.Variable+"_FILE" {
			o.readFrom(&c.Config, path)
		}
		c.texts[o.Flag] = text
		if err != nil {
			if o.Secret() {
				text = "***"
			}
			faults = append(faults, fmt.Errorf("%s is %q: %w", name, text, err))
		}
	}
	if len(faults) > 0 {
		return c, fmt.Errorf("configuration: %w", errors.Join(faults...))
	}
	return c, nil
}

// ReadVerified reads the options and also refuses an unverified database connection. It reports all errors at once.
func ReadVerified(flags *pflag.FlagSet, lookupEnv func(string) (string, bool), options []Option) (Config, error) {
	c, err := Read(flags, lookupEnv, options)
	return c, errors.Join(err, c.Database.Verify())
}

// text returns an Option's value from the source with the highest precedence, and the name of that source.
func (o Option) text(flags *pflag.FlagSet, lookupEnv func(string) (string, bool),
	file map[string]fileValue) (text, name string, err error) {
	text, name = given(flags, lookupEnv, o.Flag, o.Variable)
	if path, ok := lookupEnv(o.Variable + "_FILE"); ok && path != "" && o.Secret() && name == "" {
		content, err := os.ReadFile(path) //nolint:gosec // the user chooses the path
		return strings.TrimSpace(string(content)), o.Variable + "_FILE", err
	}
	switch inFile, ok := file[o.key()]; {
	case name != "":
		return text, name, nil
	case ok:
		return inFile.text, inFile.place, nil
	default:
		return o.Default, o.Variable, nil
	}
}

// readFrom notes the file of a database's URL, which new connections read again.
func (o Option) readFrom(c *Config, path string) {
	switch o.Flag {
	case databaseURL.Flag:
		c.Database.File = path
	case "operator-database-url":
		c.OperatorFile = path
	}
}

// given returns the value of a flag, or else of a variable, and the source's name. The name is empty if neither is set.
// An empty variable counts as unset.
func given(flags *pflag.FlagSet, lookupEnv func(string) (string, bool), flag, variable string) (text, name string) {
	if f := flags.Lookup(flag); f != nil && f.Changed {
		return f.Value.String(), "--" + flag
	}
	if v, ok := lookupEnv(variable); ok && v != "" {
		return v, variable
	}
	return "", ""
}
