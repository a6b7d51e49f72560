package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/internal/local"
)

const (
	// ConnectTimeout limits one attempt to connect.
	ConnectTimeout = 5 * time.Second
	// pingTimeout limits the check of an idle pooled connection.
	pingTimeout = time.Second
)

const unverified = "%s: the connection to %s is %w: it leaves this machine, and the server's identity " +
	"is not checked. " +
	"Set sslmode=verify-full, and sslrootcert for a private CA; or, on a trusted network, " +
	"PGDISPATCH_ALLOW_INSECURE_DATABASE=on"

// Target is a database to connect to.
type Target struct {
	URL      string // empty means libpq's PG* variables
	Variable string // that the URL was read from, for errors; empty means DATABASE_URL
	// File is the file that the URL was read from. Each new connection reads user and password from it, because
	// short-lived tokens replace each other there. Empty means that the URL is fixed.
	File string
	// AllowUnverified allows connections to other machines without verified TLS.
	AllowUnverified bool
	// Primary keeps all connections on one primary. Nil means that they are independent of each other.
	Primary *Primary
}

// Name returns the name of the variable that the URL was read from.
func (t Target) Name() string { return cmp.Or(t.Variable, "DATABASE_URL") }

// unset reports whether neither the URL nor the environment names a server.
func (t Target) unset() bool {
	return t.URL == "" && os.Getenv("PGHOST") == "" && os.Getenv("PGSERVICE") == ""
}

// Server returns the host, port and database that the target leads to, without credentials.
func (t Target) Server() string {
	config, err := pgx.ParseConfig(t.URL)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database)
}

// Verify refuses a remote address unless TLS verifies it, through verify-full or verify-ca. It ignores a URL that
// cannot be parsed, which is reported elsewhere.
func (t Target) Verify() error {
	config, err := pgx.ParseConfig(t.URL)
	if err != nil {
		return nil
	}
	return t.verify(config)
}

func (t Target) verify(config *pgx.ConnConfig) error {
	if host := UnverifiedHost(config); host != "" && !t.AllowUnverified {
		return fmt.Errorf(unverified, t.Name(), host, local.ErrUnverified)
	}
	return nil
}

// OpenPool opens a pool of at most size connections, each with the given settings. If they are nil, the pool also works
// through a transaction pooler. It connects on first use.
func (t Target) OpenPool(ctx context.Context, size int32, settings map[string]string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(t.URL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name(), Redact(err))
	}
	if err := t.verify(config.ConnConfig); err != nil {
		return nil, err
	}
	config.MaxConns = size
	config.PingTimeout = pingTimeout
	config.MaxConnLifetimeJitter = 5 * time.Minute
	prepare(config.ConnConfig, settings, t)
	config.BeforeConnect, config.PrepareConn = t.renew, t.Primary.prepareConn
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	return pool, nil
}

// Connect makes one connection attempt, outside of any pool. It calls warn, unless it is nil, with the server's
// warnings.
func (t Target) Connect(ctx context.Context, settings map[string]string, warn func(*pgconn.Notice)) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(t.URL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name(), Redact(err))
	}
	if err := t.verify(config); err != nil {
		return nil, err
	}
	prepare(config, settings, t)
	t.login(config)
	if warn != nil {
		config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
			if notice.SeverityUnlocalized == "WARNING" {
				warn(notice)
			}
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	t.Primary.follow(conn.PgConn())
	return conn, nil
}

// OpenForCommand opens a pool of one connection for a command. Its settings are those of a direct connection, unless a
// transaction pooler is in between, which refuses them.
func (t Target) OpenForCommand(ctx context.Context) (*pgxpool.Pool, error) {
	pool, err := t.OpenPool(ctx, 1, commandSettings())
	if err != nil {
		return nil, err
	}

	conn, err := pool.Acquire(ctx)
	if RefusesSettings(err) {
		pool.Close()
		return t.OpenPool(ctx, 1, nil)
	}
	if err == nil {
		conn.Release()
	}
	return pool, nil // an error comes again when the pool is used, and may be gone until then
}

// ConnectForCommand is Connect with the settings of OpenForCommand.
func (t Target) ConnectForCommand(ctx context.Context, warn func(*pgconn.Notice)) (*pgx.Conn, error) {
	conn, err := t.Connect(ctx, commandSettings(), warn)
	if RefusesSettings(err) {
		return t.Connect(ctx, nil, warn)
	}
	return conn, err
}

// prepare configures a connection. If settings is nil, the connection also works through a transaction pooler.
func prepare(connConfig *pgx.ConnConfig, settings map[string]string, t Target) {
	connConfig.ConnectTimeout = ConnectTimeout
	connConfig.DialFunc = dialer(t.unset())
	connConfig.RuntimeParams["application_name"] = "pgdispatch"
	maps.Copy(connConfig.RuntimeParams, Session)
	maps.Copy(connConfig.RuntimeParams, settings)
	direct := settings != nil
	if !direct && connConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		// A prepared statement may be missing on the pooler's next server connection. Without the types of its parameters
		// and columns, pgx would read texts, which depend on settings that a pooler refuses.
		connConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if connConfig.ValidateConnect == nil {
		// After a failover the old primary may return at the old address and refuse all writes.
		connConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	validate := connConfig.ValidateConnect
	connConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := errors.Join(checkVersion(conn.ParameterStatus("server_version")), checkSession(conn)); err != nil {
			return err
		}
		if direct && major(conn.ParameterStatus("server_version")) >= transactionTimeoutSince {
			// Older servers would refuse it in the start-up packet.
			if _, err := conn.Exec(ctx, "set transaction_timeout = 0").ReadAll(); err != nil {
				return err
			}
		}
		if err := validate(ctx, conn); err != nil || !direct {
			return err // behind a pooler, each transaction may have another server
		}
		return t.Primary.admit(ctx, conn)
	}
}

// checkSession checks what the server, or a pooler in its place, says of the database and of the settings in Session.
// It accepts what is not said.
func checkSession(conn *pgconn.PgConn) error {
	if encoding := conn.ParameterStatus("server_encoding"); encoding != "" && encoding != "UTF8" {
		return &EncodingError{encoding}
	}
	for name, want := range Session {
		// A pooler may ignore a setting, or a time zone may have several names.
		if has := conn.ParameterStatus(name); has != "" && has != want && name != "TimeZone" {
			return fmt.Errorf("%s is %q and not %q, although this connection asked for it: a pooler in between ignores "+
				"its clients' settings; let it apply %s, or connect directly", name, has, want, name)
		}
	}
	return nil
}

// dialer returns a dial function that detects a dead peer: it sends keepalive probes after 5 s of silence and gives up
// within 10 s. isUnset means that no address is configured, for the error.
func dialer(isUnset bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5}}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil && isUnset {
			err = fmt.Errorf("DATABASE_URL is not set, and nothing listens at the default: set it, such as "+
				"postgres://host:5432/database: %w", err)
		}
		return conn, err
	}
}

// UnverifiedHost returns the first remote host that may be contacted without verification, or "". It includes
// fallbacks: sslmode=prefer, for example, retries without TLS.
func UnverifiedHost(connConfig *pgx.ConnConfig) string {
	tries := append([]*pgconn.FallbackConfig{{Host: connConfig.Host, TLSConfig: connConfig.TLSConfig}},
		connConfig.Fallbacks...)
	for _, try := range tries {
		// For verify-ca, pgx sets InsecureSkipVerify and verifies the certificate in VerifyPeerCertificate.
		verified := try.TLSConfig != nil && (!try.TLSConfig.InsecureSkipVerify || try.TLSConfig.VerifyPeerCertificate != nil)
		if !verified && !local.Host(try.Host) {
			return try.Host
		}
	}
	return ""
}

// credentials matches the text between a URL's scheme and its last @, and the password in a key=value string.
var credentials = regexp.MustCompile(`(://)[^\s]*@|(?i)(password\s*=\s*)('(\\.|[^'\\])*'|\S+)`)

// Redact removes credentials from an error's text. pgx does so only on a best-effort basis. An error of a connection
// begins with its cause.
func Redact(err error) error {
	err = causeFirst(err)
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

// renew reads the certificates and the password for each new connection of a pool, because their files may have
// changed. What cannot be read stays as it was.
func (t Target) renew(_ context.Context, connConfig *pgx.ConnConfig) error {
	if fresh, err := pgx.ParseConfig(t.URL); err == nil && t.verify(fresh) == nil { // it reads PGPASSFILE, too
		connConfig.TLSConfig, connConfig.Fallbacks = fresh.TLSConfig, fresh.Fallbacks
		connConfig.Password = fresh.Password
	}
	t.login(connConfig)
	return nil
}

// login takes user and password from the file of the URL, if it still leads to the same server and database. Another
// address needs a restart, because all connections of a replica must lead to one database.
func (t Target) login(connConfig *pgx.ConnConfig) {
	if t.File == "" {
		return
	}
	text, err := os.ReadFile(t.File)
	if err != nil {
		return
	}
	fresh, err := pgx.ParseConfig(strings.TrimSpace(string(text)))
	if err != nil || fresh.Host != connConfig.Host || fresh.Port != connConfig.Port ||
		fresh.Database != connConfig.Database {
		return
	}
	connConfig.User, connConfig.Password = fresh.User, fresh.Password
}

// Certificates returns how the next connection is verified, or nil if it is not.
func (t Target) Certificates() *tls.Config {
	config, err := pgx.ParseConfig(t.URL)
	if err != nil {
		return nil
	}
	return config.TLSConfig
}

// OldestMajor is the oldest major version of Postgres that has the features that pgdispatch uses.
const OldestMajor = 15

// TooOldError refuses the connection to a server that is too old.
type TooOldError struct{ Version string }

// Error implements error.
func (e *TooOldError) Error() string {
	return fmt.Sprintf("Postgres %s is too old for pgdispatch: upgrade the server to Postgres %d or newer", e.Version,
		OldestMajor)
}

// EncodingError refuses a database whose encoding cannot store every text.
type EncodingError struct{ Encoding string }

// Error includes the remedy.
func (e *EncodingError) Error() string {
	return fmt.Sprintf("the database's encoding is %s, and pgdispatch needs UTF8, because errors, names and params may "+
		"contain any character: create a database with `encoding 'UTF8' template template0`, and move the data there",
		e.Encoding)
}

// IsUnfit reports whether err says that the server or the database cannot be used at all: it is too old, or has another
// encoding. Waiting does not help.
func IsUnfit(err error) bool {
	var tooOld *TooOldError
	var encoding *EncodingError
	return errors.As(err, &tooOld) || errors.As(err, &encoding)
}

// transactionTimeoutSince is the first major version that has transaction_timeout.
const transactionTimeoutSince = 17

var leadingNumber = regexp.MustCompile(`^[0-9]+`)

// major returns the major version of what a server calls its version, such as "15.18 (Debian 15.18-0+deb12u1)" or
// "19beta2". It returns 0 for what it cannot read, which a proxy may say.
func major(version string) int {
	number, err := strconv.Atoi(leadingNumber.FindString(version))
	if err != nil {
		return 0
	}
	return number
}

func checkVersion(version string) error {
	if number := major(version); number > 0 && number < OldestMajor {
		return &TooOldError{version}
	}
	return nil
}
