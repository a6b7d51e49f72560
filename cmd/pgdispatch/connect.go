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
	// connectTimeout bounds one attempt to connect to Postgres.
	connectTimeout = 5 * time.Second
	// pingTimeout bounds the check of a pooled connection that was idle.
	pingTimeout = time.Second
	// reconnectBase and reconnectCap bound the pauses between tries to connect to Temporal.
	reconnectBase = 100 * time.Millisecond
	reconnectCap  = time.Second
	// tcpUserTimeout is how long the server keeps a connection whose client takes no data: a listener that is stopped
	// would otherwise pin the whole database's vacuum and fill its notification queue.
	tcpUserTimeout = "8s"
)

// openPool makes a pool. Settings hold for each of its connections.
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

// asOperator is the configuration with the role that changes what is changed by the web view.
func (c config) asOperator() config {
	c.databaseURL, c.databaseVariable = c.operatorURL, operatorVariable
	return c
}

// databaseName is the variable that says which database this is.
func (c config) databaseName() string {
	return cmp.Or(c.databaseVariable, "DATABASE_URL")
}

// directSettings are for connections that are ours alone. A transaction pooler refuses them, or would hand them to whoever
// uses the server's connection next.
func directSettings(more ...map[string]string) map[string]string {
	// A claim counts what others have committed while it waited for its lock, whatever the role's default is.
	// What a role's settings would cut off is bounded already: each statement has a timeout with a name. A lock is waited for
	// as long as it takes others to commit; what is behind a row that somebody keeps is not to wait with it.
	// Every name in package sql has its schema.
	settings := map[string]string{
		"default_transaction_isolation": "read committed", "search_path": claim.Planning["search_path"],
		"statement_timeout": "0", "lock_timeout": claim.LockTimeout.String(), "idle_session_timeout": "0",
	}
	for _, m := range more {
		maps.Copy(settings, m)
	}
	return settings
}

// poolSettings are for the connections that claim and for all others. Without LISTEN there may be a transaction pooler between,
// which takes no settings: every commit is durable then.
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

// viewSettings are for the web view, whose reads are planned for what they ask.
func viewSettings(c config) map[string]string {
	if !c.listen {
		return nil
	}
	return directSettings(map[string]string{
		"statement_timeout": "5s", "jit": "off", "plan_cache_mode": "force_custom_plan",
	})
}

// prepare gives a connection what pgdispatch needs of it. Without settings, it must suit a transaction pooler.
func prepare(connConfig *pgx.ConnConfig, settings map[string]string) {
	connConfig.ConnectTimeout = connectTimeout
	connConfig.DialFunc = notify.Dialer()
	connConfig.RuntimeParams["application_name"] = "pgdispatch"
	maps.Copy(connConfig.RuntimeParams, settings)
	if settings == nil && connConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		// A statement that was prepared on one of a pooler's connections is not there on the next.
		connConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	if connConfig.ValidateConnect == nil {
		// After a failover the old primary may come back on the old address, and refuse every write for ever.
		connConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
}

// parseDatabase reads the address of the database for a connection outside of the pools.
func parseDatabase(c config) (*pgx.ConnConfig, error) {
	connConfig, err := pgx.ParseConfig(c.databaseURL)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", redact(err))
	}
	return connConfig, c.checkDatabase(connConfig)
}

// dialListener returns a function that connects anew each time, outside of the pools.
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

// dialGate returns a function that connects a session for the gate anew each time. The server finds out within seconds when
// this machine is gone, and another replica takes duty.
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

// connectOnce is for commands that end: no pool, one attempt. warn hears what the server warns of.
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

// temporalClient reads Temporal's own configuration, the same as the temporal CLI's: environment variables and profile
// file, TLS and API keys included. It connects when it is first used, so that a replica can start before Temporal does.
func temporalClient(c config, log *slog.Logger) (client.Client, string, error) {
	options, err := c.temporalOptions()
	if err != nil {
		return nil, "", err
	}
	if err := c.checkTemporal(options); err != nil {
		return nil, "", err
	}
	options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions,
		// A start that is sent again is dispatch's decision: that it was not sent must mean that it never was.
		grpc.WithDisableRetry(),
		// Without a connection each probe fails at once: what decides when work resumes is when the connection is tried again.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: connectTimeout, Backoff: backoff.Config{
			BaseDelay: reconnectBase, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectCap}}))
	// What is large enough is compressed by who sends it.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	options.Logger = temporallog.NewStructuredLogger(log)
	temporal, err := client.NewLazyClient(options)
	if err != nil {
		return nil, "", fmt.Errorf("make Temporal client: %w", err)
	}
	return temporal, options.Namespace, nil
}

// temporalOptions are Temporal's own configuration with what is ours of it.
func (c config) temporalOptions() (client.Options, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return options, fmt.Errorf("read Temporal's configuration (TEMPORAL_* variables, or the profile in TEMPORAL_CONFIG_FILE): %w", err)
	}
	options.HostPort = cmp.Or(c.temporalAddress, options.HostPort)
	options.Namespace = cmp.Or(c.temporalNamespace, options.Namespace, client.DefaultNamespace)
	return options, nil
}

// credentials finds what stands between a URL's scheme and its last @, and the value of a password in a key=value string.
var credentials = regexp.MustCompile(`(://)[^\s]*@|(?i)(password\s*=\s*)('(\\.|[^'\\])*'|\S+)`)

// redact takes credentials out of an error's text. pgx does so itself, to the best of its knowledge.
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
