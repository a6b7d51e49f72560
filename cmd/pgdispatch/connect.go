package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	temporallog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/notify"
)

const (
	// connectTimeout limits one attempt to connect to Postgres.
	connectTimeout = 5 * time.Second
	// pingTimeout limits the check of an idle pooled connection.
	pingTimeout = time.Second
	// reconnectBase and reconnectCap limit the backoff for connecting to Temporal.
	reconnectBase = 100 * time.Millisecond
	reconnectCap  = time.Second
	// tcpUserTimeout is how long the server keeps a connection whose client does not acknowledge data. Without it, a
	// stopped listener would hold back vacuum in the whole database and fill the notification queue.
	tcpUserTimeout = "8s"
)

// openPool opens a pool of at most size connections, each with the given settings.
func openPool(ctx context.Context, c config, size int32, settings map[string]string) (*pgxpool.Pool, error) {
	poolConfig, err := pgxpool.ParseConfig(c.databaseURL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.databaseName(), redact(err))
	}
	if err := c.checkDatabase(poolConfig.ConnConfig); err != nil {
		return nil, err
	}
	poolConfig.MaxConns = size
	poolConfig.PingTimeout = pingTimeout
	poolConfig.MaxConnLifetimeJitter = 5 * time.Minute
	prepare(poolConfig.ConnConfig, settings)
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	return pool, nil
}

// asOperator returns the configuration for the connections that carry out changes made in the web view.
func (c config) asOperator() config {
	c.databaseURL, c.databaseVariable = c.operatorURL, operatorVariable
	return c
}

// databaseName returns the name of the variable that the database URL was read from.
func (c config) databaseName() string {
	return cmp.Or(c.databaseVariable, "DATABASE_URL")
}

// directSettings are for direct connections. A transaction pooler refuses them, or would leak them to the next client
// of the server connection.
func directSettings(more ...map[string]string) map[string]string {
	// A claim must see what others committed while it waited for its lock, whatever the role's default isolation is.
	// The role's timeouts are overridden because each statement has a timeout of its own. lock_timeout is long enough
	// for others to commit, and keeps one locked row from blocking everything behind it. search_path is safe to set
	// because every name in package sql is schema-qualified.
	settings := map[string]string{
		"default_transaction_isolation": "read committed", "search_path": claim.Planning["search_path"],
		"statement_timeout": "0", "lock_timeout": claim.LockTimeout.String(), "idle_session_timeout": "0",
	}
	for _, m := range more {
		maps.Copy(settings, m)
	}
	return settings
}

// poolSettings returns the settings of the connections for claims and for everything else. Without LISTEN there may be
// a transaction pooler in between, which accepts no settings. Both are nil then, and every commit is durable.
func poolSettings(c config) (forClaims, forOthers map[string]string) {
	if !c.listen {
		return nil, nil
	}
	claims, others := "on", "off"
	switch c.durable {
	case durableAll:
		others = "on"
	case durableNone:
		claims = "off"
	}
	return directSettings(claim.Planning, map[string]string{"synchronous_commit": claims, "lock_timeout": claim.ClaimLockTimeout.String()}),
		directSettings(claim.Planning, map[string]string{"synchronous_commit": others})
}

// viewSettings are for the web view. Its queries are planned for their actual parameters.
func viewSettings(c config) map[string]string {
	if !c.listen {
		return nil
	}
	return directSettings(map[string]string{
		"statement_timeout": "5s", "jit": "off", "plan_cache_mode": "force_custom_plan",
	})
}

// prepare configures a connection. If settings is nil, the connection also works through a transaction pooler.
func prepare(connConfig *pgx.ConnConfig, settings map[string]string) {
	connConfig.ConnectTimeout = connectTimeout
	connConfig.DialFunc = notify.Dialer()
	connConfig.RuntimeParams["application_name"] = "pgdispatch"
	maps.Copy(connConfig.RuntimeParams, settings)
	if settings == nil && connConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		// A prepared statement may be missing on the pooler's next server connection.
		connConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if connConfig.ValidateConnect == nil {
		// After a failover the old primary may return at the old address and refuse all writes.
		connConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
}

// parseDatabase parses the database URL for a connection outside the pools.
func parseDatabase(c config) (*pgx.ConnConfig, error) {
	connConfig, err := pgx.ParseConfig(c.databaseURL)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", redact(err))
	}
	return connConfig, c.checkDatabase(connConfig)
}

// dialListener returns a function that opens a new connection outside the pools on each call.
func dialListener(c config) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		connConfig, err := parseDatabase(c)
		if err != nil {
			return nil, err
		}
		prepare(connConfig, directSettings(map[string]string{"application_name": "pgdispatch listener", "tcp_user_timeout": tcpUserTimeout}))
		return pgx.ConnectConfig(ctx, connConfig)
	}
}

// dialGate returns a function that opens a new gate session on each call. If this machine disappears, the server
// notices within seconds and another replica takes over.
func dialGate(c config) func(context.Context) (notify.GateSession, error) {
	settings := directSettings(map[string]string{
		"application_name": "pgdispatch gate", "synchronous_commit": "off", "tcp_user_timeout": tcpUserTimeout, "tcp_keepalives_idle": "5", "tcp_keepalives_interval": "1", "tcp_keepalives_count": "3",
	})
	return func(ctx context.Context) (notify.GateSession, error) {
		connConfig, err := parseDatabase(c)
		if err != nil {
			return nil, err
		}
		prepare(connConfig, settings)
		conn, err := pgx.ConnectConfig(ctx, connConfig)
		if err != nil {
			return nil, err
		}
		return &claim.Session{Conn: conn}, nil
	}
}

// connectOnce makes one connection attempt, without a pool, for short-lived commands. warn receives the server's
// warnings.
func connectOnce(ctx context.Context, c config, warn func(*pgconn.Notice)) (*pgx.Conn, error) {
	connConfig, err := parseDatabase(c)
	if err != nil {
		return nil, err
	}
	prepare(connConfig, nil)
	connConfig.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		if notice.SeverityUnlocalized == "WARNING" {
			warn(notice)
		}
	}
	conn, err := pgx.ConnectConfig(ctx, connConfig)
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres (set DATABASE_URL or --database-url, or libpq's PG* variables): %w", redact(err))
	}
	return conn, nil
}

// temporalClient creates a client from Temporal's own configuration, like the temporal CLI: environment variables and
// profile file, including TLS and API keys. It connects on first use, so that a replica can start before Temporal. It
// also returns the namespace.
func temporalClient(c config, log *slog.Logger) (client.Client, string, error) {
	options, err := c.temporalOptions()
	if err != nil {
		return nil, "", err
	}
	if err := c.checkTemporal(options); err != nil {
		return nil, "", err
	}
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions,
		// Only dispatch may resend a start. If a start is reported as not sent, it must never have been sent.
		grpc.WithDisableRetry(),
		// Without a connection every probe fails at once, so the reconnect backoff determines how soon work resumes.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: connectTimeout, Backoff: backoff.Config{
			BaseDelay: reconnectBase, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectCap}}))
	// The senders of large requests compress them themselves.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	options.Logger = temporallog.NewStructuredLogger(log)
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return nil, "", fmt.Errorf("make Temporal client: %w", err)
	}
	return temporal, options.Namespace, nil
}

// temporalOptions returns Temporal's own configuration with the overrides from c.
func (c config) temporalOptions() (client.Options, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return options, fmt.Errorf("read Temporal's configuration (TEMPORAL_* variables, or the profile in TEMPORAL_CONFIG_FILE): %w", err)
	}
	options.HostPort = cmp.Or(c.temporalAddress, options.HostPort)
	options.Namespace = cmp.Or(c.temporalNamespace, options.Namespace, client.DefaultNamespace)
	return options, nil
}

// credentials matches the text between a URL's scheme and its last @, and the password in a key=value string.
var credentials = regexp.MustCompile(`(://)[^\s]*@|(?i)(password\s*=\s*)('(\\.|[^'\\])*'|\S+)`)

// redact removes credentials from an error's text. pgx does so only on a best-effort basis.
func redact(err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		return errors.New("cannot be parsed as a URL")
	}
	text := err.Error()
	clean := credentials.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "://") {
			return "://***@"
		}
		return "password=***"
	})
	if clean == text {
		return err
	}
	return errors.New(clean)
}
