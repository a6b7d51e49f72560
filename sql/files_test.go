package sql_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

func TestMigrationsAreNumberedFromOneOnAndGoBothWays(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, sql.Migrations())
	for n, m := range sql.Migrations() {
		require.True(t, strings.HasPrefix(m.Name, fmt.Sprintf("%03d_", n+1)), m.Name)
		require.NotEmpty(t, m.Up, m.Name)
		require.NotEmpty(t, m.Down, m.Name)
	}
}

// Each file is applied again over the existing schema, in whatever state it is.
func TestEveryFunctionAndTriggerReplacesWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, f := range sql.Functions() {
		require.Contains(t, f.Text, "create or replace ", f.Name)
		require.NotRegexp(t, `(?m)^create (function|trigger)`, f.Text, f.Name)
		if f.Name != sql.Triggers {
			require.Contains(t, f.Text, "create or replace function pgdispatch."+f.Name+"(", "%s is named like its file", f.Name)
		}
	}
}
