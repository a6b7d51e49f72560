package sqltest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

// template is the migrated database that the tests' databases are copied from.
const template = "pgdispatch_template"

// shared is the test process's cluster. Run stops it.
var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
	names   atomic.Int64
	// copying serializes copies, because only one session at a time can copy a template.
	copying sync.Mutex
}

// Main can serve as TestMain in packages that need no other setup.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run runs a package's tests, stops the cluster if one was started, and returns the exit code.
func Run(m *testing.M) int {
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// URL returns the URL of a fresh, migrated database. It is dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	cluster := Shared(t)
	return cluster.URL(create(t, cluster, template))
}

// EmptyURL returns the URL of a fresh database without the schema. It is dropped when the test ends.
func EmptyURL(t testing.TB) string {
	t.Helper()
	cluster := Shared(t)
	return cluster.URL(create(t, cluster, "template0"))
}

// Private starts a cluster for one test, which may break it, and returns the URL of its one migrated database,
// postgres.
func Private(t testing.TB) (cluster *Cluster, url string) {
	t.Helper()
	cluster, err := StartCluster(t.Context(), Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cluster.Stop()) })
	require.NoError(t, up(t.Context(), cluster, "postgres"))
	return cluster, cluster.URL("postgres")
}

// Open returns a pool on a fresh, migrated database.
func Open(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Pool(t, URL(t))
}

// Pool returns a pool on a database. It is closed when the test ends.
func Pool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// Shared returns the test process's cluster. The first call starts it.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() {
		ctx := context.Background()
		shared.cluster, shared.err = StartCluster(ctx, Options{})
		if shared.err != nil {
			return
		}
		shared.err = prepare(ctx, shared.cluster)
	})
	require.NoError(t, shared.err, "start the private Postgres cluster")
	return shared.cluster
}

func prepare(ctx context.Context, cluster *Cluster) error {
	if err := execute(ctx, cluster, "create database "+template+" template template0"); err != nil {
		return err
	}
	return up(ctx, cluster, template)
}

// PublicationVariable is an environment variable. If it is set, a publication for all tables exists in each migrated
// database, as tools for change data capture and for upgrades create it.
const PublicationVariable = "PGDISPATCH_PUBLICATION"

func up(ctx context.Context, cluster *Cluster, database string) error {
	conn, err := pgx.Connect(ctx, cluster.URL(database))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", database, err)
	}
	defer conn.Close(ctx)
	if os.Getenv(PublicationVariable) != "" {
		if _, err := conn.Exec(ctx, "create publication everything for all tables"); err != nil {
			return fmt.Errorf("publish %s: %w", database, err)
		}
	}
	return migrate.Up(ctx, conn, nil)
}

func create(t testing.TB, cluster *Cluster, from string) string {
	t.Helper()
	ctx := context.Background()
	name := fmt.Sprintf("test_%d", shared.names.Add(1))
	shared.copying.Lock()
	err := execute(ctx, cluster, "create database "+name+" template "+from)
	shared.copying.Unlock()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, execute(ctx, cluster, "drop database "+name+" with (force)"))
	})
	return name
}

func execute(ctx context.Context, cluster *Cluster, statement string) error {
	conn, err := pgx.Connect(ctx, cluster.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// Login creates a login role for the test, with the given attributes or memberships, such as "in role
// pgdispatch_reader". It returns the URL of the same database for that role. The role and what it owns in the database
// are removed when the test ends.
func Login(t testing.TB, databaseURL, attributes string) string {
	t.Helper()
	ctx := context.Background()
	address, err := url.Parse(databaseURL)
	require.NoError(t, err)
	database := strings.TrimPrefix(address.Path, "/")
	role := fmt.Sprintf("role_%d", shared.names.Add(1))
	require.NoError(t, execute(ctx, shared.cluster, "create role "+role+" login "+attributes))
	t.Cleanup(func() {
		conn, err := pgx.Connect(ctx, shared.cluster.URL(database))
		require.NoError(t, err)
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx,
			fmt.Sprintf("reassign owned by %[1]s to postgres; drop owned by %[1]s; drop role %[1]s", role))
		require.NoError(t, err)
	})
	address.User = url.User(role)
	return address.String()
}
