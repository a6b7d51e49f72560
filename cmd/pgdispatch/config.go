package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// config holds all options. A flag overrides its environment variable, which overrides the configuration file, which
// overrides the default.
type config struct {
	databaseURL      string // empty means libpq's PG* variables
	databaseVariable string // variable it was read from; empty means DATABASE_URL
	// Allow connections to other machines without verified TLS.
	allowInsecureDatabase, allowInsecureTemporal bool
	temporalAddress                              string // empty means Temporal's own configuration, see temporalClient
	temporalNamespace                            string // likewise
	workers                                      int
	lease                                        time.Duration
	pollInterval                                 time.Duration
	startTimeout                                 time.Duration
	drainTimeout                                 time.Duration
	maxWatches                                   int
	listen                                       bool
	durable                                      durability
	adminAddr                                    string // empty disables the admin server
	adminToken                                   string // empty means read-only pages, and profiles on loopback only
	viewToken                                    string // empty means viewing takes adminToken; without both, loopback
	operatorURL                                  string // role for changes in the web view; empty means databaseURL
	temporalUI                                   string // base URL for links to Temporal's web UI; empty disables them
	metricsWorkspaces                            int
	callbackURL                                  string // empty disables callbacks
	callbackAddr                                 string
	logLevel                                     slog.Level
}

// durability selects the commits that wait until a crash of Postgres cannot undo them.
type durability string

const (
	// durableClaims makes claims durable. Everything else that a crash undoes is recovered.
	durableClaims durability = "claims"
	durableAll    durability = "all"
	// durableNone makes no commits durable, not even claims. A crash can then undo a claim and give its workspace's
	// slot to another item while the first workflow is running.
	durableNone durability = "none"
)

// option defines one configuration value: its flag, variable, default and parser.
type option struct {
	flag, variable, fallback, usage string
	set                             func(*config, string) error
}

// secret reports whether the value must not be shown. A secret may also be read from the file that <variable>_FILE
// names.
func (o option) secret() bool {
	return slices.Contains([]string{"database-url", "operator-database-url", "admin-token", "view-token"}, o.flag)
}

// operatorVariable is also named in errors that appear only when its value is used.
const operatorVariable = "PGDISPATCH_OPERATOR_DATABASE_URL"

var databaseOption = option{"database-url", "DATABASE_URL", "", "Postgres to connect to; empty: libpq's PG* variables",
	func(c *config, v string) error { return parseDatabaseURL(v, &c.databaseURL) }}

// databaseOptions are the options of all commands that need the database.
var databaseOptions = []option{databaseOption,
	{"allow-insecure-database", "PGDISPATCH_ALLOW_INSECURE_DATABASE", "off", "on: connect to Postgres on another machine without verified TLS",
		func(c *config, v string) error { return parseSwitch(v, &c.allowInsecureDatabase) }},
}

var runOptions = append(slices.Clone(databaseOptions), []option{
	{"temporal-address", "TEMPORAL_ADDRESS", "", "host:port of Temporal's frontend; empty: Temporal's own configuration, else localhost:7233",
		func(c *config, v string) error { c.temporalAddress = v; return nil }},
	{"temporal-namespace", "TEMPORAL_NAMESPACE", "", "namespace that workflows are started in; empty: Temporal's own configuration, else default",
		func(c *config, v string) error { c.temporalNamespace = v; return nil }},
	{"allow-insecure-temporal", "PGDISPATCH_ALLOW_INSECURE_TEMPORAL", "off", "on: connect to Temporal on another machine without verified TLS",
		func(c *config, v string) error { return parseSwitch(v, &c.allowInsecureTemporal) }},
	{"workers", "PGDISPATCH_WORKERS", "10", "how many items this replica hands over at the same time, 1 to 1000",
		func(c *config, v string) error { return parseInt(v, 1, 1000, &c.workers) }},
	{"lease", "PGDISPATCH_LEASE", "30s", "how long a dead replica's items wait for another, 1s to 1h; renewed every third",
		func(c *config, v string) error { return parseDuration(v, time.Second, time.Hour, &c.lease) }},
	{"poll-interval", "PGDISPATCH_POLL_INTERVAL", "5s", "how often to look for work that no notification announced, 10ms to 1h",
		func(c *config, v string) error {
			return parseDuration(v, 10*time.Millisecond, time.Hour, &c.pollInterval)
		}},
	{"start-timeout", "PGDISPATCH_START_TIMEOUT", "5s", "how long Temporal may take to answer a start before it is asked again, 10ms to 5m",
		func(c *config, v string) error {
			return parseDuration(v, 10*time.Millisecond, 5*time.Minute, &c.startTimeout)
		}},
	{"drain-timeout", "PGDISPATCH_DRAIN_TIMEOUT", "20s", "how long hand-overs under way may take after SIGTERM, 0s to 1h; what is left is released",
		func(c *config, v string) error { return parseDuration(v, 0, time.Hour, &c.drainTimeout) }},
	{"max-watches", "PGDISPATCH_MAX_WATCHES", "800", "how many open executions this replica long-polls at once, 0 to 100000",
		func(c *config, v string) error { return parseInt(v, 0, 100000, &c.maxWatches) }},
	{"listen", "PGDISPATCH_LISTEN", "on", "on: be woken by notifications; off: poll only, for a transaction pooler",
		func(c *config, v string) error { return parseSwitch(v, &c.listen) }},
	{"durable-commits", "PGDISPATCH_DURABLE_COMMITS", "claims", "which commits wait for the disk: claims, all, or none (after a crash of Postgres, a workspace may then exceed its limit)",
		func(c *config, v string) error { return parseDurability(v, &c.durable) }},
	{"admin-addr", "PGDISPATCH_ADMIN_ADDR", "", "host:port that /livez, /readyz, /metrics and the web view at /ui/ are served on; empty: nowhere",
		func(c *config, v string) error { return parseAddress(v, &c.adminAddr) }},
	{"admin-token", "PGDISPATCH_ADMIN_TOKEN", "", "token to look and act by the web view, and for profiles at /debug/pprof/, 16 characters or more; empty: nobody acts, and looks on loopback only",
		func(c *config, v string) error { return parseToken(v, &c.adminToken) }},
	{"view-token", "PGDISPATCH_VIEW_TOKEN", "", "another token, to look by the web view and no more, 16 characters or more; empty: none",
		func(c *config, v string) error { return parseToken(v, &c.viewToken) }},
	{"operator-database-url", operatorVariable, "", "Postgres as a role that may change what is changed by the web view; empty: as the replica",
		func(c *config, v string) error { return parseDatabaseURL(v, &c.operatorURL) }},
	{"temporal-ui-url", "PGDISPATCH_TEMPORAL_UI_URL", "", "URL of Temporal's own web interface, such as http://localhost:8233, that the web view's items link to; empty: no links",
		func(c *config, v string) error { return parseUIURL(v, &c.temporalUI) }},
	{"metrics-workspaces", "PGDISPATCH_METRICS_WORKSPACES", "0", "of how many workspaces there are metrics, those with the most items, 0 to 1000",
		func(c *config, v string) error { return parseInt(v, 0, 1000, &c.metricsWorkspaces) }},
	{"callback-url", "PGDISPATCH_CALLBACK_URL", "", "URL that Temporal is to call when a workflow has ended, and that leads to callback-addr of any replica; empty: none",
		func(c *config, v string) error { return parseCallbackURL(v, &c.callbackURL) }},
	{"callback-addr", "PGDISPATCH_CALLBACK_ADDR", "", "host:port that this replica hears such calls on; empty: nowhere",
		func(c *config, v string) error { return parseAddress(v, &c.callbackAddr) }},
	{"log-level", "PGDISPATCH_LOG_LEVEL", "info", "debug, info, warn or error",
		func(c *config, v string) error { return parseLevel(v, &c.logLevel) }},
}...)

// addFlags adds a flag for each option. Defaults appear in the usage text only, because variables and the file come
// before them.
func addFlags(flags *pflag.FlagSet, options []option) {
	for _, o := range options {
		usage := o.usage + " [$" + o.variable
		if o.fallback != "" {
			usage += ", default " + o.fallback
		}
		flags.String(o.flag, "", usage+"]")
	}
	flags.String(configFlag, "", "YAML file with values that no flag and no variable gives [$"+configVariable+"]")
}

// readConfig reads all options and reports all errors at once.
func readConfig(flags *pflag.FlagSet, lookupEnv func(string) (string, bool), options []option) (config, error) {
	var c config
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
			err = o.set(&c, text)
		}
		if err != nil {
			if o.secret() {
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

// readVerified reads all options and also refuses an unverified database connection. It reports all errors at once.
func (a *app) readVerified(command *cobra.Command, options []option) (config, error) {
	c, err := readConfig(command.Flags(), a.lookupEnv, options)
	return c, errors.Join(err, c.checkDatabaseAddress())
}

// text returns an option's value from the source with the highest precedence, and the name of that source.
func (o option) text(flags *pflag.FlagSet, lookupEnv func(string) (string, bool), file map[string]fileValue) (text, name string, err error) {
	text, name = given(flags, lookupEnv, o.flag, o.variable)
	if path, ok := lookupEnv(o.variable + "_FILE"); ok && path != "" && o.secret() && name == "" {
		content, err := os.ReadFile(path) //nolint:gosec // the user chooses the path
		return strings.TrimSpace(string(content)), o.variable + "_FILE", err
	}
	switch inFile, ok := file[o.key()]; {
	case name != "":
		return text, name, nil
	case ok:
		return inFile.text, inFile.place, nil
	default:
		return o.fallback, o.variable, nil
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

func parseDatabaseURL(text string, into *string) error {
	*into = text
	if _, err := pgx.ParseConfig(text); err != nil {
		return fmt.Errorf("%w: it must be such as postgres://user@host:5432/database", redact(err))
	}
	return nil
}

func parseInt(text string, lowest, highest int, into *int) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < lowest || n > highest {
		return fmt.Errorf("it must be a whole number from %d to %d", lowest, highest)
	}
	*into = n
	return nil
}

func parseDuration(text string, lowest, highest time.Duration, into *time.Duration) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < lowest || d > highest {
		return fmt.Errorf("it must be a duration from %s to %s, such as 500ms, 30s or 5m", lowest, highest)
	}
	*into = d
	return nil
}

func parseSwitch(text string, into *bool) error {
	switch strings.ToLower(text) {
	case "on", "true":
		*into = true
	case "off", "false":
		*into = false
	default:
		return errors.New("it must be on or off")
	}
	return nil
}

func parseDurability(text string, into *durability) error {
	switch d := durability(strings.ToLower(text)); d {
	case durableClaims, durableAll, durableNone:
		*into = d
		return nil
	}
	return errors.New("it must be claims, all or none")
}

func parseLevel(text string, into *slog.Level) error {
	switch strings.ToLower(text) {
	case "debug", "info", "warn", "error":
		return into.UnmarshalText([]byte(text))
	}
	return errors.New("it must be debug, info, warn or error")
}
