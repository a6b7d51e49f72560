package sqltest

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

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
